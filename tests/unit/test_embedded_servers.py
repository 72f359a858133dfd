"""The embedded servers themselves: what they keep, and what they do not tell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis as redis_sync

from gralkord.embedded.servers import ServerSpec


@pytest.fixture
def home(tmp_path_factory):
    """A short directory with a blank in its name."""
    path = tmp_path_factory.mktemp("a b")
    assert len(str(path)) < 90
    return path


class Running:
    """A server that is started at once and killed at the end."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec

    def __enter__(self):
        self.process = self.spec.start()
        self.client = redis_sync.Redis(unix_socket_path=str(self.spec.socket))
        _await_ping(self.process, self.client)
        return self

    def __exit__(self, *_):
        self.client.close()
        self.process.kill()
        self.process.wait()

    def end(self, number: int) -> None:
        """Send a signal and wait for the end."""
        self.process.send_signal(number)
        self.process.wait(timeout=10)


def _await_ping(process, client) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            return client.ping()
        except redis_sync.RedisError:
            assert process.poll() is None, "it ended"
            assert time.monotonic() < deadline
            time.sleep(0.02)


def spec_of(home: Path, kind: str, **options) -> ServerSpec:
    """Return a server whose files are below *home*."""
    return ServerSpec(kind=kind, directory=home / kind, socket=home / f"{kind}.sock", **options)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_queue_keeps_what_it_acknowledged(home, number):
    """Entries acknowledged by the queue are there after either end of the server."""
    spec = spec_of(home, "queue", durability="always")
    with Running(spec) as server:
        for i in range(200):
            server.client.xadd("stream", {"i": i})
        server.end(number)
    with Running(spec) as server:
        assert server.client.xlen("stream") == 200


def test_the_graph_keeps_all_at_an_orderly_end(home):
    """SIGTERM loses nothing of the graph, although it syncs once a second only."""
    spec = spec_of(home, "graph")
    with Running(spec) as server:
        for i in range(50):
            server.client.execute_command("GRAPH.QUERY", "g", f"CREATE (:N {{i: {i}}})")
        server.end(signal.SIGTERM)
    with Running(spec) as server:
        rows = server.client.execute_command("GRAPH.RO_QUERY", "g", "MATCH (n) RETURN count(n)")
        assert rows[1] == [[50]]


def test_a_truncated_file_is_loaded(home):
    """A server whose file was cut off in the middle of an entry starts, without that entry."""
    spec = spec_of(home, "queue", durability="always")
    with Running(spec) as server:
        server.client.xadd("stream", {"text": "one"})
        server.client.xadd("stream", {"text": "two"})
        server.end(signal.SIGKILL)
    [file] = (spec.directory / "appendonlydir").glob("*.incr.aof")
    file.write_bytes(file.read_bytes()[:-7])
    with Running(spec) as server:
        assert [entry[1][b"text"] for entry in server.client.xrange("stream")] == [b"one"]


def test_the_settings_that_the_guarantees_need(home):
    """The servers run with the durability, limits and silence that are promised."""
    queue = spec_of(home, "queue", durability="always", max_memory_mb=64)
    with Running(queue) as server, Running(spec_of(home, "graph")) as graph:
        get = server.client.config_get
        assert get("appendfsync") == {"appendfsync": "always"}
        assert get("maxmemory") == {"maxmemory": str(64 * 1024 * 1024)}
        assert get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert get("port") == {"port": "0"}
        assert get("hide-user-data-from-log") == {"hide-user-data-from-log": "yes"}
        with pytest.raises(redis_sync.ResponseError, match="DEBUG command not allowed"):
            server.client.execute_command("DEBUG", "SLEEP", "0")
        name, value = graph.client.execute_command("GRAPH.CONFIG", "GET", "CMD_INFO")
        assert (name, value) == (b"CMD_INFO", 0)
        assert queue.socket.stat().st_mode & 0o077 == 0


def test_the_producer_of_the_queue_may_only_append_to_intake(home):
    """The user of direct producers reads nothing and writes nowhere else."""
    with Running(spec_of(home, "queue", producer_user="producer")) as server:
        server.client.xadd("gk:intake:default", {"a": 1})
        with redis_sync.Redis(
            unix_socket_path=str(server.spec.socket), username="producer"
        ) as producer:
            assert producer.xadd("gk:intake:default", {"a": 2})
            assert producer.xlen("gk:intake:default") == 2
            for command in (
                ("XADD", "gk:dead", "*", "a", "1"),
                ("XRANGE", "gk:intake:default", "-", "+"),
                ("XTRIM", "gk:intake:default", "MAXLEN", "0"),
                ("DEL", "gk:intake:default"),
                ("KEYS", "*"),
                ("CONFIG", "GET", "dir"),
                ("EVAL", "return 1", "0"),
            ):
                with pytest.raises(redis_sync.exceptions.NoPermissionError):
                    producer.execute_command(*command)


def test_no_secret_reaches_a_server(home, monkeypatch):
    """Keys in our environment are not handed to the servers, nor does an argument hold one."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-mine")
    monkeypatch.setenv("GRALKORD_MODELS__API_KEY", "sk-secret-of-mine")
    with Running(spec_of(home, "queue")) as server:
        proc = Path(f"/proc/{server.process.pid}")
        assert b"sk-secret" not in proc.joinpath("environ").read_bytes()
        assert b"sk-secret" not in proc.joinpath("cmdline").read_bytes()


def test_a_stale_socket_is_replaced(home):
    """A file that a killed server left where the socket goes does not matter."""
    spec = spec_of(home, "queue")
    spec.socket.write_text("stale")
    with Running(spec) as server:
        assert server.client.ping()


def test_a_child_ends_with_its_parent():
    """A process that watches its parent ends, with what it started, when the parent is gone."""
    child = """
import os, subprocess, sys, time
from gralkord.embedded.parent import watch_parent
watch_parent(int(sys.argv[1]), grace_seconds=0.1)
subprocess.Popen(["sleep", "60"])
print("up", flush=True)
time.sleep(60)
"""
    reader, writer = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", child, str(reader)],
        pass_fds=[reader],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        os.close(reader)
        assert process.stdout.readline() == b"up\n"
        os.close(writer)
        assert process.wait(timeout=10) == -signal.SIGKILL
        assert process.stdout.read() == b""  # it ends when the last holder of the pipe has ended
