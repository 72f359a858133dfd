"""The lock on a data directory: one owner at a time, and none beside an owner's last children."""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import TYPE_CHECKING, Any, Final

from gralkord.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_POLL_SECONDS: Final = 0.05


class DirectoryLock:
    """Two locks on a data directory, because its owner may die before the servers it started.

    ``owner`` is held by the process that made this object. ``lock`` is passed on to the children,
    so that it stays locked until the last of them has ended.
    """

    def __init__(self, path: Path, owner: int, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._owner = owner

    @classmethod
    def acquire(
        cls, path: Path, *, seconds: float = 10.0, waiting: Callable[[], None] | None = None
    ) -> DirectoryLock:
        """Lock the data directory *path*.

        Args:
            path: An existing data directory.
            seconds: How long to wait for the children of an owner that is gone.
            waiting: Called once when there is something to wait for.

        Raises:
            StartError: Its owner lives, or the children of the last owner did not end in time.
        """
        owner = _open(path / "owner")
        if not _lock(owner, path):
            holder = _read_owner(owner)
            os.close(owner)
            raise StartError(_in_use(path, holder))
        _write_owner(owner, {"pid": os.getpid()})
        descriptor = _open(path / "lock")
        deadline = time.monotonic() + seconds
        while not _lock(descriptor, path):
            if waiting:
                waiting()
                waiting = None
            if time.monotonic() > deadline:
                os.close(descriptor)
                os.close(owner)
                raise StartError(
                    f"{path} is still in use by the processes of an earlier `gralkord up`, "
                    f"which did not end within {seconds:g} s",
                    hint="wait for them, or end them",
                )
            time.sleep(_POLL_SECONDS)
        return cls(path, owner, descriptor)

    def publish(self, url: str) -> None:
        """Tell the next one who finds the directory locked where this owner listens."""
        _write_owner(self._owner, {"pid": os.getpid(), "url": url})

    def close(self) -> None:
        """Give the directory free, as far as this process holds it."""
        os.ftruncate(self._owner, 0)
        os.close(self.descriptor)
        os.close(self._owner)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StartError(f"cannot open {path}: {error.strerror}") from error


def _lock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        os.close(descriptor)
        raise StartError(f"the file system of {path} has no locks: {error.strerror}") from error
    return True


def _write_owner(descriptor: int, content: dict[str, Any]) -> None:
    data = json.dumps(content).encode()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, 0)


def _read_owner(descriptor: int) -> dict[str, Any]:
    try:
        content = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}  # the owner is just writing it
    return content if isinstance(content, dict) else {}


def _in_use(path: Path, holder: Mapping[str, Any]) -> str:
    words = f"{path} is in use by another gralkord"
    if "pid" in holder:
        words += f" (pid {holder['pid']})"
    if "url" in holder:
        words += f" at {holder['url']}"
    return words
