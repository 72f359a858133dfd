"""The real HTTP app over a daemon of a few lines."""

from __future__ import annotations

import io
from functools import cache

import httpx
import pytest
import structlog
from fake_daemon import TOKEN, FakeServices, served

from gralkord.cli.app import run
from gralkord.client.discovery import announce
from gralkord.rpc.app import create_app


class OfTheMoment:
    """The services of the test that runs: the app over them is made once, which takes 50 ms."""

    now: FakeServices

    def __getattr__(self, name):
        return getattr(self.now, name)


MOMENT = OfTheMoment()


@cache
def shared_app(*origins):
    """Return the app over the services of the moment."""
    return create_app(MOMENT, token=TOKEN, allowed_origins=origins)


@pytest.fixture
def services():
    """The daemon behind the app."""
    return FakeServices()


@pytest.fixture
async def http(services):
    """A client of the app in this process, with the token."""
    MOMENT.now = services
    app = shared_app("https://console.example")
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app),
        base_url="http://localhost:7767",
        headers={"Authorization": f"Bearer {TOKEN}"},
    ) as client:
        yield client


@pytest.fixture
def bare(http):
    """The same client without the token."""
    del http.headers["Authorization"]
    return http


@pytest.fixture
def daemon(services):
    """URL of the app behind a real loopback port."""
    MOMENT.now = services
    with served(shared_app()) as url:
        yield url


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory of its own, without any word of a daemon in the environment."""
    for name in ("URL", "TOKEN", "TOKEN_FILE", "DATA_DIR", "OPERATOR", "CONFIG"):
        monkeypatch.delenv(f"GRALKORD_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def found(daemon, home):
    """A daemon that the command line finds by itself."""
    (home / "token").write_text(TOKEN)
    announce(home, daemon, home / "token")
    return daemon


@pytest.fixture
def cli(found, capsys, monkeypatch):
    """Run a command line; return exit code, standard output and standard error."""

    def call(*words, stdin=None):
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(words)
        return code, *capsys.readouterr()

    # No change of how this process logs.
    monkeypatch.setattr("gralkord.log.configure", lambda **_: None)
    # The daemon runs in this process, its log is not the command's output.
    with structlog.testing.capture_logs():
        yield call
