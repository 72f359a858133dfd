"""Where the embedded servers of a data directory listen."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gralkord.client.discovery import default_instance, start_command
from gralkord.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAX_SOCKET_BYTES: Final = 107  # sun_path without its closing NUL
QUEUE_SOCKET: Final = "queue.sock"  # no socket has a longer name
PRODUCER_USER: Final = "producer"  # the embedded queue's user for direct producers


def socket_directories(data_dir: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the directories that the sockets of *data_dir* may be in, the first is the best.

    Args:
        data_dir: An absolute path.
        environ: Environment variables.
    """
    if fits(data_dir / "run"):
        yield data_dir / "run"
        return
    mark = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    for base in (environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):  # noqa: S108
        path = Path(base or "", f"gralkord-{os.getuid()}-{mark}")
        if base and Path(base).is_dir() and fits(path):
            yield path


def fits(directory: Path) -> bool:
    """Return whether the path of a socket in *directory* is short enough."""
    return len(os.fsencode(directory / QUEUE_SOCKET)) <= MAX_SOCKET_BYTES


def find_queue_socket(data_dir: Path | str | None, environ: Mapping[str, str]) -> Path:
    """Return the socket of the embedded queue of a data directory.

    Args:
        data_dir: The data directory; default: the one that ``GRALKORD_DATA_DIR`` names, then that
            of the daemon that runs.
        environ: Environment variables.

    Raises:
        BackendUnavailable: There is no queue that is this user's own.
        ConfigError: Several daemons run and none was named.
    """
    named = data_dir or environ.get("GRALKORD_DATA_DIR")
    path = Path(named).expanduser() if named else default_instance(environ).data_dir
    if (socket := own_socket(path, QUEUE_SOCKET, environ)) is not None:
        return socket
    raise BackendUnavailable(
        f"no embedded queue of yours runs on {path}",
        hint=f"start it with {start_command(path)}, or name the server of your own",
    )


def own_socket(data_dir: Path, name: str, environ: Mapping[str, str]) -> Path | None:
    """Return the socket *name* of a data directory, if there is one that is this user's own."""
    for place in dict.fromkeys((data_dir.absolute(), data_dir.resolve())):
        for directory in socket_directories(place, environ):
            socket = directory / name
            try:
                found = socket.lstat()
            except OSError:
                continue
            # In a directory for everybody's files a stranger may have been faster.
            if stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid():
                return socket
    return None
