"""What `gralkord up` runs: both servers, as far as nobody else runs them, daemon and worker."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from gralkord.client.sockets import PRODUCER_USER
from gralkord.config import ENV_PREFIX
from gralkord.embedded.child import ChildSpec
from gralkord.embedded.probes import DaemonProbe, wait_for_server
from gralkord.embedded.servers import Kind, ServerSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gralkord.config import Settings
    from gralkord.embedded.directory import DataDirectory

DAEMON: Final = "daemon"
WORKER: Final = "worker"
PARTS: Final = ("queue", "graph", DAEMON, WORKER)

# The daemon first, so that it hands buffered turns over while all else still runs.
_STOP_PHASES: Final = {DAEMON: 0, WORKER: 1, "queue": 2, "graph": 2}


@dataclass(frozen=True, slots=True)
class Handed:
    """The open files that children inherit.

    Attributes:
        listener: The socket that listens on the HTTP port.
        lock: The lock on the data directory, which lasts as long as the last child.
        parent: The read end of a pipe that ends when the supervisor does.
    """

    listener: int
    lock: int
    parent: int


@dataclass(frozen=True, slots=True)
class Stack:
    """The children of `gralkord up` for one set of settings.

    Attributes:
        settings: What was configured.
        directory: The data directory.
        config_file: The file that the settings came from, if any.
        changes: Settings by flag, as environment variables for the children.
    """

    settings: Settings
    directory: DataDirectory
    config_file: Path | None
    changes: Mapping[str, str]

    def children(self, handed: Handed, probe: DaemonProbe) -> list[ChildSpec]:
        """Return the children in the order in which they are to be started.

        Raises:
            StartError: The embedded servers are not installed, or a directory cannot be made.
        """
        servers = self._servers()
        logs = self.directory.part("logs")
        environ = self._environ(servers)
        inherited = (handed.lock, handed.parent)
        return [
            *(self._server_child(server, logs, handed.lock) for server in servers.values()),
            ChildSpec(
                name=DAEMON,
                command=_python("serve", fd=handed.listener, parent_fd=handed.parent),
                log=logs / f"{DAEMON}.log",
                environ=environ,
                keep_fds=(*inherited, handed.listener),
                needs="queue" if "queue" in servers else None,
                answers=probe.wait,
                stop_phase=_STOP_PHASES[DAEMON],
            ),
            ChildSpec(
                name=WORKER,
                command=_python("worker", parent_fd=handed.parent),
                log=logs / f"{WORKER}.log",
                environ=environ,
                keep_fds=inherited,
                needs="queue" if "queue" in servers else None,
                stop_phase=_STOP_PHASES[WORKER],
            ),
        ]

    def remotes(self) -> dict[str, str]:
        """Return where the servers are that somebody else runs, by name."""
        sections = {"queue": self.settings.queue, "graph": self.settings.graph}
        return {
            name: str(section.socket or f"{section.host}:{section.port}")
            for name, section in sections.items()
            if section.remote
        }

    def _servers(self) -> dict[Kind, ServerSpec]:
        servers: dict[Kind, ServerSpec] = {}
        settings = self.settings
        if not settings.queue.remote:
            servers["queue"] = self._server(
                "queue",
                durability=settings.queue.durability,
                max_memory_mb=settings.queue.max_memory_mb,
                producer_user=settings.queue.producer_user or PRODUCER_USER,
            )
        if not settings.graph.remote:
            servers["graph"] = self._server("graph")
        return servers

    def _server(self, kind: Kind, **options: object) -> ServerSpec:
        return ServerSpec(
            kind=kind,
            directory=self.directory.part(kind),
            socket=self.directory.sockets() / f"{kind}.sock",
            **options,  # type: ignore[arg-type]
        )

    def _server_child(self, server: ServerSpec, logs: Path, lock: int) -> ChildSpec:
        return ChildSpec(
            name=server.kind,
            command=tuple(server.command()),
            log=logs / f"{server.kind}.log",
            environ=server.environment(),
            keep_fds=(lock,),
            answers=partial(wait_for_server, server.socket),
            prepare=server.prepare,
            stop_phase=_STOP_PHASES[server.kind],
        )

    def _environ(self, servers: Mapping[Kind, ServerSpec]) -> dict[str, str]:
        environ = {**os.environ, **self.changes}
        environ[ENV_PREFIX + "DATA_DIR"] = str(self.directory.path)
        environ[ENV_PREFIX + "TOKEN_FILE"] = str(self.directory.token_file)
        if self.config_file:
            environ[ENV_PREFIX + "CONFIG"] = str(self.config_file.absolute())
        for kind, server in servers.items():
            environ[f"{ENV_PREFIX}{kind.upper()}__SOCKET"] = str(server.socket)
            if server.producer_user:
                environ[f"{ENV_PREFIX}QUEUE__PRODUCER_USER"] = server.producer_user
        return environ


def _python(command: str, **descriptors: int) -> tuple[str, ...]:
    flags = [
        word
        for name, number in descriptors.items()
        for word in (f"--{name.replace('_', '-')}", str(number))
    ]
    # -P: a file in the working directory must not stand in for a library.
    return (sys.executable, "-P", "-m", "gralkord.cli.app", command, *flags)
