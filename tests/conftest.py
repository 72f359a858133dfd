"""Real servers for the tests, started once; every test gets them empty."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import pytest
import redis as redis_sync

from gralkord.embedded.servers import ServerSpec


def start_server(kind: str):
    """Start an embedded server in a short temporary directory; yield its socket; stop it."""
    home = Path(tempfile.mkdtemp(prefix="gk-"))
    spec = ServerSpec(kind=kind, directory=home / kind, socket=home / "s.sock")
    process = spec.start()
    try:
        wait_for_server(spec.socket)
        if kind == "graph":
            _sync_at_once(spec.socket)
        yield spec.socket
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def _sync_at_once(socket: Path) -> None:
    """Let the server write each command to disk before it answers.

    Once a second, as a graph does by itself, every commit of a test waits for that second.
    """
    with redis_sync.Redis(unix_socket_path=str(socket)) as client:
        client.config_set("appendfsync", "always")


def wait_for_server(socket: Path, seconds: float = 20.0) -> None:
    """Return once the server at *socket* answers PING."""
    client = redis_sync.Redis(unix_socket_path=str(socket))
    deadline = time.monotonic() + seconds
    while True:
        try:
            client.ping()
        except redis_sync.RedisError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            client.close()
            return


@pytest.fixture(scope="session")
def queue_server():
    """Socket of a running queue Redis."""
    yield from start_server("queue")


@pytest.fixture(scope="session")
def graph_server():
    """Socket of a running FalkorDB."""
    yield from start_server("graph")


def _empty(socket: Path) -> None:
    with redis_sync.Redis(unix_socket_path=str(socket)) as client:
        client.flushall()


@pytest.fixture
def queue_socket(queue_server):
    """Socket of a queue Redis without any key."""
    _empty(queue_server)
    return queue_server


@pytest.fixture
def graph_socket(graph_server):
    """Socket of a FalkorDB without any graph."""
    _empty(graph_server)
    return graph_server
