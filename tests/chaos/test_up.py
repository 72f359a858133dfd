"""``gralkord up``: started, stopped, killed, and started where it cannot be."""

from __future__ import annotations

import os
import signal
import socket
import stat
import threading
import time
from pathlib import Path

import pytest
from up_process import eventually, lives, turn

pytestmark = pytest.mark.timeout(120)


def test_it_starts_stops_and_remembers(tmp_path, start_up):
    """All parts run; SIGTERM leaves none of them, exits with 0, and nothing is forgotten."""
    up = start_up(tmp_path / "my data").ready()
    assert set(up.pids) == {"queue", "graph", "daemon", "worker"}
    assert all(lives(pid) for pid in up.pids.values())
    assert stat.S_IMODE(up.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((up.data_dir / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE((up.data_dir / "run").stat().st_mode) == 0o700
    up.capture("The kettle is in the blue cupboard.", operator="ada")
    up.capture("The kettle is on the roof.", operator="bob", session="s2")
    eventually(lambda: up.recall("kettle") == ["The kettle is in the blue cupboard."])
    token = (up.data_dir / "token").read_text()
    assert up.end(signal.SIGTERM) == 0
    up.assert_nothing_is_left()
    assert not (up.data_dir / "daemon.json").exists()

    again = start_up(up.data_dir).ready()
    assert (up.data_dir / "token").read_text() == token
    assert eventually(lambda: again.recall("kettle")) == ["The kettle is in the blue cupboard."]
    assert again.recall("kettle", "bob") == ["The kettle is on the roof."]
    assert again.end(signal.SIGINT) == 0
    again.assert_nothing_is_left()


def test_a_kill_leaves_no_orphan(start_up):
    """SIGKILL ends all children; the next start waits for them and finds every memory."""
    up = start_up().ready()
    captures_do_not_wait_for_the_graph(up)
    a_second_one_is_refused(up, start_up)
    up.capture("The spare key is under the third flowerpot.")
    eventually(lambda: up.recall("spare key"))
    up.process.kill()
    up.process.wait()
    again = start_up(up.data_dir).ready()
    assert not any(lives(pid) for pid in up.pids.values())
    eventually(lambda: again.recall("spare key"))
    assert again.end() == 0
    again.assert_nothing_is_left()


def test_a_crashed_child_is_replaced(start_up):
    """Each part that is killed is started again, and what was acknowledged before is recalled."""
    up = start_up().ready()
    up.capture("The piano is tuned in May.")
    for name in ("queue", "graph", "worker", "daemon"):
        os.kill(up.pids[name], signal.SIGKILL)
        if name == "daemon":
            no_connection_is_refused_while_it_is_away(up)
        replaced = eventually(
            lambda name=name: up.pid_now(name) not in {None, up.pids[name]} and up.pid_now(name)
        )
        assert lives(replaced)
        eventually(lambda: capture_again(up))
        eventually(lambda: "The piano is tuned in May." in recall_again(up), 20)
    assert up.end() == 0
    up.assert_nothing_is_left()


def capture_again(up) -> bool:
    """Return whether a capture is taken now."""
    try:
        return bool(up.capture("The piano is black."))
    except OSError:
        return False


def recall_again(up) -> list[str]:
    """Return what is recalled of the piano; nothing while a part is away."""
    try:
        return up.recall("When is the piano tuned?")
    except OSError:
        return []


def no_connection_is_refused_while_it_is_away(up) -> None:
    """Check that the port stays open when the daemon is killed: requests wait for the next one."""
    eventually(lambda: not lives(up.pids["daemon"]))
    assert up.request("/v1/capture", turn("still here"))["durability"] == "always"


def test_a_second_signal_ends_it_at_once(start_up):
    """While it waits for a part that does not end, a second signal kills everything."""
    key = "sk-secret-of-mine"
    up = start_up(None, "--model", "openai:some-model", OPENAI_API_KEY=key).ready()
    assert up.said["model"] == "some-model"
    no_secret_stands_in_a_command_line(up, key)
    os.kill(up.pids["worker"], signal.SIGSTOP)
    up.process.send_signal(signal.SIGINT)
    eventually(lambda: not lives(up.pids["daemon"]))
    began = time.monotonic()
    assert up.end(signal.SIGINT) == 130
    assert time.monotonic() - began < 3
    up.assert_nothing_is_left()


def no_secret_stands_in_a_command_line(up, key: str) -> None:
    """Check that neither the token nor a key of a model can be read in the list of processes."""
    token = (up.data_dir / "token").read_text().strip()
    for pid in up.pids.values():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        assert key not in words
        assert token not in words
    assert key not in (up.data_dir / "logs" / "daemon.log").read_text()


def a_second_one_is_refused(up, start_up) -> None:
    """Check that a directory in use is one sentence that names the process and its address."""
    code, error = start_up(up.data_dir).failed()
    assert code == 1
    assert error["message"] == (
        f"{up.data_dir} is in use by another gralkord (pid {up.process.pid}) at {up.url}"
    )
    assert up.capture("still running")


def test_a_busy_port_is_told_before_anything_starts(tmp_path, start_up):
    """A port in use is one sentence, and no server has been started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, error = start_up(None, "--port", str(port)).failed()
    assert (code, error["code"]) == (1, "start_error")
    assert error["message"] == f"port {port} on 127.0.0.1 is in use by another process"
    assert not (tmp_path / "data" / "queue").exists()


def test_a_directory_that_cannot_be_is_told(tmp_path, start_up):
    """A file in the place of the directory, and one that cannot be made, are one sentence each."""
    (tmp_path / "file").write_text("")
    code, error = start_up(tmp_path / "file").failed()
    assert (code, error["message"]) == (1, f"{tmp_path / 'file'} is not a directory")
    code, error = start_up("/proc/gralkord").failed()
    assert code == 1
    assert error["message"].startswith("cannot make /proc/gralkord: ")


def test_wrong_settings_are_told(tmp_path, start_up):
    """A setting that does not exist, a model that does not, and a wrong flag exit with 2."""
    config = tmp_path / "c.toml"
    config.write_text("[queue]\nhots = 'x'\n")
    code, error = start_up(None, "--config", str(config)).failed()
    assert (code, error["message"]) == (2, "queue.hots: no such setting")
    code, error = start_up(None, "--model", "telepathy:large").failed()
    assert code == 2
    assert "telepathy" in error["message"]
    code, error = start_up(None, "--port", "many").failed()
    assert (code, error["code"]) == (2, "usage")


def test_a_long_path_works(tmp_path, start_up):
    """With a path too long for a Unix socket the sockets are elsewhere, as long as it runs."""
    long = tmp_path / ("long " * 30).strip()
    runtime = tmp_path.parent
    while len(str(runtime)) > 40:
        runtime = runtime.parent
    up = start_up(long, XDG_RUNTIME_DIR=str(runtime)).ready()
    [sockets] = runtime.glob("gralkord-*")
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    up.capture("Long paths are fine.")
    eventually(lambda: up.recall("long paths"))
    assert up.end() == 0
    assert not sockets.exists()


def captures_do_not_wait_for_the_graph(up) -> None:
    """Check that while the graph is away captures are taken; once it is back, they are recalled."""
    stopped = up.pids["graph"]
    os.kill(stopped, signal.SIGSTOP)
    thaw = threading.Timer(3, os.kill, (stopped, signal.SIGCONT))
    thaw.start()
    try:
        began = time.monotonic()
        up.capture("The graph was asleep.")
        assert time.monotonic() - began < 2.5
    finally:
        thaw.join()
    eventually(lambda: up.recall("asleep"))
