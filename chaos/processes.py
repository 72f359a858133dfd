"""The processes of a run: two servers, the model, daemons and workers, each started again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chaos.proxy import Proxy
from gralkord.embedded.servers import ServerSpec, die_with_parent

# As the systemd units have it.
RESTART_SECONDS: Final = 1.0
SERVERS: Final = ("queue", "graph")

# How the model fails, each as often as the others.
MODEL_FAULTS: Final = ("rate_limited", "server_error", "dropped", "cut_off", "wrong_types", "empty")


@dataclass(slots=True)
class Process:
    """A process that is started again a second after it has ended, as systemd would.

    Attributes:
        starts: How often it was started.
        ended: Exit codes of the runs that ended by themselves, so not by a signal.
    """

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    before: ServerSpec | None = None
    starts: int = 0
    ended: list[int] = field(default_factory=list)
    _running: asyncio.subprocess.Process | None = None
    _keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Id of the process, while it runs."""
        running = self._running
        return running.pid if running and running.returncode is None else None

    def start(self) -> None:
        """Start it, and again whenever it ends."""
        self._keeper = asyncio.create_task(self._keep(), name=self.name)

    def signal(self, number: int, pid: int | None = None) -> int | None:
        """Send a signal, to the run *pid* only if given; return the id of the run that got it."""
        now = self.pid
        if now is None or (pid is not None and pid != now):
            return None
        with suppress(ProcessLookupError):
            os.kill(now, number)
            return now
        return None

    async def stop(self, seconds: float = 15.0) -> None:
        """End it for good: by SIGTERM, after some time by SIGKILL."""
        if self._keeper:
            self._keeper.cancel()
        running = self._running
        if running is None or running.returncode is not None:
            return
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(running.wait(), seconds)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await running.wait()

    async def _keep(self) -> None:
        while True:
            if self.before:
                self.before.prepare()
            self.starts += 1
            with self.log.open("ab") as log:
                self._running = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(self.environ),
                    start_new_session=True,
                    preexec_fn=die_with_parent(os.getpid()),
                )
            code = await self._running.wait()
            if code >= 0:
                self.ended.append(code)
            await asyncio.sleep(RESTART_SECONDS)


@dataclass(frozen=True, slots=True)
class Shape:
    """How many processes, and how they are set.

    Attributes:
        threads: Groups that a worker understands at once.
        latency_ms: How long the model takes for each answer.
        fault_rate: Share of the model's answers that are faults.
        index_seconds: Lease of the index lane.
        understand_seconds: Lease of the understand lane.
        router_seconds: Lease of the router.
    """

    seed: int
    workers: int = 4
    daemons: int = 2
    threads: int = 4
    latency_ms: int = 200
    fault_rate: float = 0.05
    flush_turns: int = 20
    idle_seconds: float = 20.0
    index_seconds: float = 3.0
    understand_seconds: float = 5.0
    router_seconds: float = 2.0


class Stage:
    """Everything that runs, and the networks in between.

    Attributes:
        proxies: The network from a process (``worker0``, ``daemon1``, ``producers``) to a server.
        urls: Where the daemons listen.
    """

    def __init__(self, home: Path, shape: Shape) -> None:
        self.home = home
        self.shape = shape
        self.sockets = {name: home / f"{name}.sock" for name in SERVERS}
        self.token = home / "token"
        self.urls: list[str] = []
        self.proxies: dict[tuple[str, str], Proxy] = {}
        self.servers = {name: self._server(name) for name in SERVERS}
        model_port = _free_port()
        self.model = self._model(model_port)
        self._spec = f"openai-compatible:scripted@http://127.0.0.1:{model_port}/v1"
        self.daemons = [self._daemon(number) for number in range(shape.daemons)]
        self.workers = [self._worker(number) for number in range(shape.workers)]
        self._network("producers", ("queue",))

    @property
    def processes(self) -> list[Process]:
        """All processes, those first that others need."""
        return [*self.servers.values(), self.model, *self.daemons, *self.workers]

    async def start(self) -> None:
        """Start everything; nothing is waited for, as nothing is after a violent end."""
        for proxy in self.proxies.values():
            await proxy.start()
        for process in self.processes:
            process.start()

    def heal(self) -> None:
        """Undo whatever was done to processes and networks."""
        for proxy in self.proxies.values():
            proxy.heal()
        for process in self.processes:
            process.signal(signal.SIGCONT)

    async def stop(self) -> None:
        """End everything, those first that need others."""
        self.heal()
        await asyncio.gather(*(each.stop() for each in (*self.workers, *self.daemons)))
        await asyncio.gather(*(proxy.close() for proxy in self.proxies.values()))
        await asyncio.gather(self.model.stop(), *(each.stop() for each in self.servers.values()))

    def logs(self) -> list[Path]:
        """Return the logs of daemons and workers."""
        return [each.log for each in (*self.daemons, *self.workers)]

    def _server(self, name: str) -> Process:
        queue = name == "queue"
        spec = ServerSpec(
            kind="queue" if queue else "graph",
            directory=self.home / name,
            socket=self.sockets[name],
            durability="always" if queue else "everysec",
            max_memory_mb=512 if queue else None,
        )
        return self._process(name, spec.command(), spec.environment(), before=spec)

    def _model(self, port: int) -> Process:
        shape = self.shape
        words = ["testing", "model-server", "--port", str(port), "--seed", str(shape.seed)]
        words += ["--latency-ms", str(shape.latency_ms), "--retry-after", "1"]
        if shape.fault_rate:
            words += ["--fault-rate", str(shape.fault_rate)]
            for fault in MODEL_FAULTS:
                words += ["--fault", fault]
        return self._process("model", _gralkord(*words), _clean_environ())

    def _daemon(self, number: int) -> Process:
        name, port = f"daemon{number}", _free_port()
        self.urls.append(f"http://127.0.0.1:{port}")
        self.token.touch(mode=0o600)
        self.token.write_text("0123456789abcdef" * 4)
        environ = self._environ(name) | {"GRALKORD_TOKEN_FILE": str(self.token)}
        words = ("serve", "--data-dir", str(self.home / name), "--port", str(port))
        return self._process(name, _gralkord(*words), environ)

    def _worker(self, number: int) -> Process:
        name = f"worker{number}"
        return self._process(name, _gralkord("worker"), self._environ(name))

    def _environ(self, name: str) -> dict[str, str]:
        shape = self.shape
        queue, graph = self._network(name, SERVERS)
        settings: dict[str, object] = {
            "QUEUE__SOCKET": queue,
            "GRAPH__SOCKET": graph,
            "MODELS__LLM": self._spec,
            "CAPTURE__FLUSH_TURNS": shape.flush_turns,
            "CAPTURE__IDLE_SECONDS": shape.idle_seconds,
            "WORKER__THREADS": shape.threads,
            "LEASES__INDEX_SECONDS": shape.index_seconds,
            "LEASES__UNDERSTAND_SECONDS": shape.understand_seconds,
            "LEASES__ROUTER_SECONDS": shape.router_seconds,
        }
        ours = {f"GRALKORD_{key}": str(value) for key, value in settings.items()}
        return _clean_environ() | ours | {"XDG_STATE_HOME": str(self.home / "state")}

    def _network(self, name: str, servers: Sequence[str]) -> list[Path]:
        for server in servers:
            socket_path = self.home / f"{name}.{server}.sock"
            self.proxies[name, server] = Proxy(socket_path, self.sockets[server])
        return [self.proxies[name, server].socket for server in servers]

    def _process(
        self,
        name: str,
        command: Sequence[str],
        environ: Mapping[str, str],
        before: ServerSpec | None = None,
    ) -> Process:
        return Process(name, command, environ, self.home / f"{name}.log", before)


def _gralkord(*words: str) -> list[str]:
    return [sys.executable, "-m", "gralkord.cli.app", *words]


def _clean_environ() -> dict[str, str]:
    strange = ("GRALKORD", "OPENAI")
    return {name: value for name, value in os.environ.items() if not name.startswith(strange)}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
