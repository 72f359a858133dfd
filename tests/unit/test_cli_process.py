"""What a service manager hands over to the daemon and its workers."""

from __future__ import annotations

import os

import pytest

from gralkord.cli.process import credential, load
from gralkord.embedded.port import handed_over
from gralkord.errors import ConfigError


@pytest.fixture
def secrets(tmp_path, monkeypatch):
    """The directory of credentials."""
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("GRALKORD_QUEUE__HOST", "queue.example")
    monkeypatch.setenv("GRALKORD_GRAPH__HOST", "graph.example")
    return tmp_path


@pytest.mark.parametrize("prefix", ["", "gralkord_"])
def test_credentials_become_settings(secrets, prefix):
    """Passwords and keys are read from the files that systemd makes of credentials."""
    for name in ("queue-password", "graph-password", "llm-api-key", "token"):
        (secrets / f"{prefix}{name}").write_text(f"the {name}\n")
    settings = load(None)
    assert settings.queue.secret() == "the queue-password"
    assert settings.graph.secret() == "the graph-password"
    assert settings.models.api_key_file.read_text() == "the llm-api-key\n"
    assert credential("token").read_text() == "the token\n"


def test_credentials_that_are_not_there_change_nothing(secrets, monkeypatch):
    """Without them the settings hold, and without a service manager nothing is looked up."""
    assert load(None).queue.secret() is None
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    assert credential("token") is None


def test_a_password_in_two_places_is_told(secrets, monkeypatch):
    """A credential beside a password in the settings is refused: which of them is meant?"""
    (secrets / "queue-password").write_text("one")
    monkeypatch.setenv("GRALKORD_QUEUE__PASSWORD", "other")
    with pytest.raises(ConfigError, match="give password or password_file, not both"):
        load(None)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "many", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_sockets_of_other_processes_are_left_alone(environ):
    """Only what was opened for this very process is taken."""
    assert handed_over(environ) == []
