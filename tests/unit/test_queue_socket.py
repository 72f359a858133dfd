"""Where the embedded queue is found."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from gralkord.client.sockets import find_queue_socket
from gralkord.embedded.directory import DataDirectory
from gralkord.errors import BackendUnavailable


@pytest.fixture
def short():
    """A directory whose path leaves room for a socket's."""
    path = Path(tempfile.mkdtemp(prefix="gk-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def listen():
    """Open a Unix socket; closed after the test."""
    opened = []

    def open_one(path):
        opened.append(socket.socket(socket.AF_UNIX))
        opened[-1].bind(str(path))
        return path

    yield open_one
    for one in opened:
        one.close()


@pytest.mark.parametrize("name", ["data", "d" * 90])
def test_the_socket_is_found_where_the_servers_put_it(short, listen, name):
    """Also when the path of the data directory is too long for a socket in it."""
    environ = {"XDG_RUNTIME_DIR": str(short)}
    directory = DataDirectory.prepare(short / name)
    place = listen(directory.sockets(environ) / "queue.sock")
    assert find_queue_socket(directory.path, environ) == place
    assert find_queue_socket(None, environ | {"GRALKORD_DATA_DIR": str(directory.path)}) == place


def test_without_a_queue_it_is_an_outage(short, monkeypatch, listen):
    """A directory without a queue, one that is not ours, and no daemon at all are told."""
    environ = {"HOME": str(short)}
    with pytest.raises(BackendUnavailable, match="no embedded queue"):
        find_queue_socket(short, environ)
    with pytest.raises(BackendUnavailable, match="no daemon"):
        find_queue_socket(None, environ)
    (short / "run").mkdir()
    listen(short / "run" / "queue.sock")
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    with pytest.raises(BackendUnavailable, match="no embedded queue"):
        find_queue_socket(short, environ)
