"""The data directory, its lock and the HTTP port."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gralkord.embedded.directory import DataDirectory
from gralkord.embedded.lock import DirectoryLock
from gralkord.embedded.port import bind_port, url_of
from gralkord.errors import StartError


def mode(path) -> int:
    """Return the permission bits of *path*."""
    return stat.S_IMODE(path.stat().st_mode)


def prepare_without_rights(path: Path) -> str:
    """Return what `DataDirectory.prepare` raises in a process that is not root's."""
    program = """
import os, sys
from pathlib import Path
from gralkord.embedded.directory import DataDirectory
from gralkord.errors import StartError
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
try:
    DataDirectory.prepare(Path(sys.argv[1]))
except StartError as error:
    print(error)
"""
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_new_directory_is_private(tmp_path):
    """A data directory that is made, and its parts, are open to their owner only."""
    directory = DataDirectory.prepare(tmp_path / "a b" / "data")
    assert mode(directory.path) == 0o700
    assert mode(directory.part("queue")) == 0o700
    assert list(directory.path.iterdir()) == [directory.path / "queue"]


def test_an_existing_directory_keeps_its_mode(tmp_path):
    """A directory that other things may share is not closed to them; our part of it is."""
    tmp_path.chmod(0o755)
    (tmp_path / "queue").mkdir(mode=0o755)
    directory = DataDirectory.prepare(tmp_path)
    assert mode(directory.path) == 0o755
    assert mode(directory.part("queue")) == 0o700


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    """The path stays right when a child has another working directory."""
    monkeypatch.chdir(tmp_path)
    assert DataDirectory.prepare(Path("sub")).path == tmp_path / "sub"


def test_a_file_in_its_place_is_said(tmp_path):
    """A file where the directory should be is one clear sentence."""
    (tmp_path / "data").write_text("")
    with pytest.raises(StartError, match=r"data is not a directory$"):
        DataDirectory.prepare(tmp_path / "data")
    with pytest.raises(StartError, match=r"cannot make .*/data/sub: a part of the path is a file$"):
        DataDirectory.prepare(tmp_path / "data" / "sub")


def test_an_unwritable_directory_is_said(tmp_path):
    """A directory in which nothing may be written, or made, is one clear sentence."""
    for path in (tmp_path, *tmp_path.parents[:3]):
        path.chmod(0o755)
    (tmp_path / "data").mkdir(mode=0o555)
    (tmp_path / "data").chmod(0o555)
    data = tmp_path / "data"
    assert prepare_without_rights(data) == f"cannot write in {data}: Permission denied"
    sub = data / "sub"
    assert prepare_without_rights(sub) == f"cannot make {sub}: Permission denied"


def test_the_token_is_kept(tmp_path):
    """The token is made once, is long, and only its owner can read it."""
    directory = DataDirectory.prepare(tmp_path)
    token = directory.token()
    assert len(token) >= 43
    assert mode(directory.token_file) == 0o600
    directory.token_file.chmod(0o644)
    assert DataDirectory.prepare(tmp_path).token() == token
    assert mode(directory.token_file) == 0o600
    assert list(tmp_path.iterdir()) == [directory.token_file]


def test_an_empty_token_is_replaced(tmp_path):
    """A token that would let everybody in is never used."""
    directory = DataDirectory.prepare(tmp_path)
    directory.token_file.write_text(" \n")
    assert len(directory.token()) >= 43


def test_sockets_are_in_the_data_directory(tmp_path):
    """Where the path is short enough, the sockets are in a private part of the data directory."""
    directory = DataDirectory.prepare(tmp_path)
    assert directory.sockets() == tmp_path / "run"
    assert mode(tmp_path / "run") == 0o700


def test_a_long_path_has_its_sockets_elsewhere(tmp_path):
    """Where the path is too long for a Unix socket, a short private directory is used instead."""
    directory = DataDirectory.prepare(tmp_path / ("x" * 100))
    runtime = tmp_path.parent
    while len(str(runtime)) > 40:
        runtime = runtime.parent
    found = directory.sockets({"XDG_RUNTIME_DIR": str(runtime)})
    try:
        assert found.parent == runtime
        assert mode(found) == 0o700
        assert len(os.fsencode(found / "queue.sock")) <= 107
        assert found == directory.sockets({"XDG_RUNTIME_DIR": str(runtime)})
        other = DataDirectory.prepare(tmp_path / ("y" * 100))
        with_other = other.sockets({"XDG_RUNTIME_DIR": str(runtime)})
        assert with_other != found
        with_other.rmdir()
    finally:
        found.rmdir()


def test_sockets_elsewhere_leave_no_directory(tmp_path, monkeypatch):
    """A directory outside the data directory is removed with the last socket, not before."""
    directory = DataDirectory.prepare(tmp_path / ("x" * 100))
    runtime = tmp_path.parent
    while len(str(runtime)) > 40:
        runtime = runtime.parent
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    found = directory.sockets()
    (found / "queue.sock").touch()
    directory.drop_sockets()
    assert found.is_dir()
    (found / "queue.sock").unlink()
    directory.drop_sockets()
    assert not found.exists()


def test_a_socket_directory_of_somebody_else_is_refused(tmp_path, monkeypatch):
    """A directory that another user made, or a link in its place, is never used for sockets."""
    directory = DataDirectory.prepare(tmp_path / ("x" * 100))
    runtime = tmp_path.parent
    while len(str(runtime)) > 40:
        runtime = runtime.parent
    environ = {"XDG_RUNTIME_DIR": str(runtime)}
    found = directory.sockets(environ)
    try:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(StartError, match="belongs to another user"):
            directory.sockets(environ)
    finally:
        found.rmdir()
    found.symlink_to(tmp_path)
    try:
        with pytest.raises(StartError, match="is not a directory"):
            directory.sockets(environ)
    finally:
        found.unlink()


def test_a_second_owner_is_told_of_the_first(tmp_path):
    """A directory with a living owner cannot be locked; its pid and address are named."""
    first = DirectoryLock.acquire(tmp_path)
    first.publish("http://127.0.0.1:7767")
    with pytest.raises(StartError) as caught:
        DirectoryLock.acquire(tmp_path)
    assert caught.value.message == (
        f"{tmp_path} is in use by another gralkord (pid {os.getpid()}) at http://127.0.0.1:7767"
    )
    first.close()
    DirectoryLock.acquire(tmp_path).close()


def holder_of(lock: DirectoryLock, seconds: float) -> subprocess.Popen:
    """Return a process that inherits *lock* as a child of ours does, and ends after *seconds*."""
    program = f"import time; time.sleep({seconds})"
    return subprocess.Popen([sys.executable, "-c", program], pass_fds=[lock.descriptor])


def test_the_children_of_a_dead_owner_are_waited_for(tmp_path):
    """A new owner waits until the last process of the old one has ended."""
    lock = DirectoryLock.acquire(tmp_path)
    with holder_of(lock, 1.0) as child:
        lock.close()
        said = []
        again = DirectoryLock.acquire(tmp_path, waiting=lambda: said.append("waiting"))
        again.close()
        assert said == ["waiting"]
        assert child.wait(timeout=5) == 0


def test_children_that_do_not_end_are_said(tmp_path):
    """Waiting for the processes of a dead owner has an end."""
    lock = DirectoryLock.acquire(tmp_path)
    with holder_of(lock, 60) as child:
        lock.close()
        began = time.monotonic()
        with pytest.raises(StartError, match=r"did not end within 0\.2 s"):
            DirectoryLock.acquire(tmp_path, seconds=0.2)
        assert time.monotonic() - began < 5
        child.kill()
    DirectoryLock.acquire(tmp_path).close()


def test_a_busy_port_is_said():
    """A port in use is one clear sentence that says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError) as caught:
            bind_port("127.0.0.1", port)
    assert caught.value.message == f"port {port} on 127.0.0.1 is in use by another process"
    assert "--port 0" in caught.value.hint


def test_port_zero_takes_a_free_one():
    """With port 0 the URL names the port that was taken."""
    with bind_port("127.0.0.1", 0) as one, bind_port("localhost", 0) as other:
        assert url_of(one) != url_of(other)
        assert url_of(one).startswith("http://127.0.0.1:")
