from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gralkord.client.discovery import (
    announce,
    default_data_dir,
    find_endpoint,
    instances_dir,
    read_instance,
    running_instances,
    start_command,
    withdraw,
)
from gralkord.errors import BackendUnavailable, ConfigError, StartError, Unauthorized

URL = "http://127.0.0.1:7767"


@pytest.fixture
def environ(tmp_path):
    """The environment of a user without any daemon."""
    return {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


@pytest.fixture
def run(tmp_path, environ):
    """Announce a daemon on a directory of the given name; return the directory."""

    def announced(name, url=URL, pid=None, token=None):
        directory = default_data_dir(environ) if name is None else tmp_path / name
        directory.mkdir(parents=True, exist_ok=True)
        token_file = directory / "token"
        token_file.write_text(f"{token or name}-token\n")
        assert announce(directory, url, token_file, pid=pid, environ=environ)
        return directory

    return announced


@pytest.fixture
def dead_pid():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_given_url_and_token_are_taken(environ, run):
    """What is given needs no file and goes before everything else."""
    run(None)
    environ |= {"GRALKORD_URL": "http://env", "GRALKORD_TOKEN": "env"}
    found = find_endpoint("http://host:1/", "mine", environ=environ)

    assert (found.url, found.token) == ("http://host:1", "mine")


def test_the_environment_names_a_url_and_a_token(environ, run):
    """GRALKORD_URL and GRALKORD_TOKEN go before files."""
    run(None)
    environ |= {"GRALKORD_URL": "http://env:2", "GRALKORD_TOKEN": "env"}
    found = find_endpoint(environ=environ)

    assert (found.url, found.token) == ("http://env:2", "env")


def test_a_token_file_can_be_named(environ, tmp_path):
    """GRALKORD_TOKEN_FILE holds the token."""
    (tmp_path / "t").write_text(" filed \n")
    environ |= {"GRALKORD_URL": "http://env:2", "GRALKORD_TOKEN_FILE": str(tmp_path / "t")}

    assert find_endpoint(environ=environ).token == "filed"


def test_the_token_of_an_announced_url_is_found(environ, run):
    """A URL without a token gets the one that its daemon announced, and no other URL gets it."""
    run("one")

    assert find_endpoint(URL, environ=environ).token == "one-token"
    assert find_endpoint("http://127.0.0.1:7768", environ=environ).token is None


def test_a_data_directory_leads_to_its_daemon(environ, run, tmp_path):
    """A data directory, given or in the environment, names a daemon; the given one goes first."""
    run("one", URL)
    two = run("two", "http://127.0.0.1:2")
    environ |= {"GRALKORD_DATA_DIR": str(tmp_path / "one")}

    assert find_endpoint(environ=environ).url == URL
    found = find_endpoint(data_dir=two, environ=environ)
    assert (found.url, found.token, found.data_dir) == ("http://127.0.0.1:2", "two-token", two)


def test_a_given_data_directory_goes_before_a_url_in_the_environment(environ, run):
    """A flag goes before a variable."""
    directory = run("one", "http://127.0.0.1:2")
    environ |= {"GRALKORD_URL": URL}

    assert find_endpoint(data_dir=directory, environ=environ).url == "http://127.0.0.1:2"


def test_a_data_directory_without_a_daemon_is_said_to_be_one(environ, run, tmp_path, dead_pid):
    """The message names the directory and the hint the command, also after a crash."""
    stale = run("stale", pid=dead_pid)

    for directory in (tmp_path / "none", stale):
        with pytest.raises(BackendUnavailable) as caught:
            find_endpoint(data_dir=directory, environ=environ)
        assert str(directory) in caught.value.message
        assert f"`gralkord up --data-dir {directory}`" in caught.value.hint


def test_the_command_in_a_hint_can_be_typed():
    """A directory whose name has a blank is quoted."""
    assert start_command(Path("/my memory")) == "`gralkord up --data-dir '/my memory'`"
    assert start_command(None) == "`gralkord up`"


def test_the_default_data_directory_goes_before_other_daemons(environ, run):
    """Somebody who names nothing means the default."""
    run("other", "http://127.0.0.1:2")
    run(None, URL)

    assert find_endpoint(environ=environ).url == URL


def test_the_one_running_daemon_is_found(environ, run, dead_pid):
    """One that runs anywhere is found; dead ones do not count."""
    run(None, "http://127.0.0.1:1", pid=dead_pid)
    run("dead", "http://127.0.0.1:2", pid=dead_pid)
    run("alive", URL)

    assert find_endpoint(environ=environ).token == "alive-token"


def test_several_running_daemons_are_named(environ, run):
    """With several there is no guess."""
    one, two = run("one", URL), run("two", "http://127.0.0.1:2")
    with pytest.raises(ConfigError) as caught:
        find_endpoint(environ=environ)

    assert str(one) in caught.value.message
    assert str(two) in caught.value.message
    assert "--data-dir" in caught.value.hint


def test_no_daemon_comes_with_the_command_that_starts_one(environ):
    """The hint says `gralkord up`."""
    with pytest.raises(BackendUnavailable) as caught:
        find_endpoint(environ=environ)

    assert "gralkord up" in caught.value.hint


def test_a_withdrawn_daemon_is_gone(environ, run):
    """After withdrawing no file is left, and withdrawing twice is harmless."""
    directory = run("one")
    withdraw(directory, environ=environ)
    withdraw(directory, environ=environ)

    assert read_instance(directory) is None
    assert running_instances(environ) == []
    assert list(instances_dir(environ).iterdir()) == []


def test_announcing_again_replaces(environ, run):
    """A directory has one daemon."""
    run("one", "http://127.0.0.1:1")
    run("one", "http://127.0.0.1:2")

    assert [one.url for one in running_instances(environ)] == ["http://127.0.0.1:2"]


def test_another_process_with_the_same_number_is_not_the_daemon(environ, run):
    """After a reboot numbers are given out again."""
    directory = run("one")
    path = directory / "daemon.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"birth": 1}))

    assert read_instance(directory).alive() is False


def test_announcements_are_private(environ, run):
    """Files are 0600, the registry's directory 0700, and no token stands in them."""
    directory = run("one")
    files = [directory / "daemon.json", *instances_dir(environ).iterdir()]

    assert len(files) == 2
    for path in files:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "one-token" not in path.read_text()
    assert stat.S_IMODE(instances_dir(environ).stat().st_mode) == 0o700


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"url": 1, "pid": "x"}', "\x00", "null"])
def test_a_damaged_announcement_announces_nothing(environ, run, content):
    """A file that is not an announcement is passed over."""
    run("good")
    (instances_dir(environ) / "bad.json").write_text(content)

    assert [one.url for one in running_instances(environ)] == [URL]


def test_a_token_that_cannot_be_read_is_said_so(environ, run):
    """The message names the file and the reason."""
    directory = run("one")
    (directory / "token").unlink()
    with pytest.raises(Unauthorized, match="token cannot be read: No such file"):
        find_endpoint(environ=environ)

    (directory / "token").write_text(" \n")
    with pytest.raises(Unauthorized, match="is empty"):
        find_endpoint(environ=environ)


def test_a_token_from_the_environment_needs_no_file(environ, run):
    """GRALKORD_TOKEN goes before the file of the daemon."""
    directory = run("one")
    (directory / "token").unlink()
    environ |= {"GRALKORD_TOKEN": "env"}

    assert find_endpoint(environ=environ).token == "env"


def test_a_directory_that_cannot_be_written_is_said_so(environ, tmp_path):
    """A daemon whose directory is gone cannot be announced."""
    with pytest.raises(StartError, match=r"daemon\.json"):
        announce(tmp_path / "none", URL, tmp_path / "token", environ=environ)


def test_an_unwritable_state_directory_is_no_obstacle(environ, tmp_path):
    """The daemon is announced in its directory only, and the caller is told."""
    (tmp_path / "state").write_text("a file in the way")

    assert announce(tmp_path, URL, tmp_path / "token", environ=environ) is False
    assert read_instance(tmp_path).pid == os.getpid()
    assert running_instances(environ) == []


def test_relative_xdg_directories_are_ignored(tmp_path):
    """As the XDG rules say."""
    environ = {"HOME": str(tmp_path), "XDG_DATA_HOME": "relative"}

    assert default_data_dir(environ) == tmp_path / ".local/share/gralkord"
