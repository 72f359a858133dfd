"""The real HTTP app over a daemon of a few lines."""

from __future__ import annotations

import httpx
import pytest
from fake_daemon import TOKEN, FakeServices, served

from gralkord.rpc.app import create_app


@pytest.fixture
def services():
    """The daemon behind the app."""
    return FakeServices()


@pytest.fixture
async def http(services):
    """A client of the app in this process, with the token."""
    app = create_app(services, token=TOKEN, allowed_origins=["https://console.example"])
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
    with served(create_app(services, token=TOKEN)) as url:
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
