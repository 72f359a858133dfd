"""The life of a daemon process, from the first socket to the last signal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

import structlog
import uvicorn
import uvloop

from gralkord.config import Settings
from gralkord.daemon.build import Daemon, build_daemon
from gralkord.errors import ConfigError, GralkorError
from gralkord.mailbox.connection import check_access
from gralkord.notify import Notifier
from gralkord.rpc.app import create_app
from gralkord.rpc.contents import LogContents

log = structlog.get_logger(__name__)

DRAIN_SECONDS: Final = 5
TICK_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 0.5


class HttpServer(uvicorn.Server):
    """Uvicorn without its signal handlers: this module owns the signals of the process.

    Attributes:
        beat: Called once a second while it serves.
    """

    def __init__(self, config: uvicorn.Config, beat: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self.beat = beat
        self._told = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def main_loop(self) -> None:
        """Serve until `stop`; uvicorn's own loop looks ten times a second."""
        while not await self.on_tick(0):
            self.beat()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._told.wait()

    def stop(self) -> None:
        """Take no more requests, and end when those under way are answered."""
        self.should_exit = True
        self._told.set()


class Heart:
    """Tells the service manager that this daemon is alive, as long as its duties take turns."""

    def __init__(self, daemon: Daemon, notifier: Notifier) -> None:
        self._duties = daemon.duties
        self._notifier = notifier
        self._ready = False
        self._seen = self._duties.turns
        self._due = 0.0

    def beat(self) -> None:
        """Say what there is to say; the main loop calls this."""
        status = "routing" if self._duties.is_router else "standing by: another daemon routes"
        if not self._ready:
            self._notifier.ready(status)
            self._ready = True
        self._notifier.status(status)
        now, turns = asyncio.get_running_loop().time(), self._duties.turns
        if self._notifier.pause is not None and now >= self._due and turns != self._seen:
            self._notifier.alive()
            self._seen, self._due = turns, now + self._notifier.pause


def run(settings: Settings, *, listeners: Sequence[socket.socket], token: str) -> int:
    """Run the daemon until SIGTERM or SIGINT.

    Args:
        settings: What is configured; queue and graph must have an address.
        listeners: The sockets to serve on.
        token: What requests must carry.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings name something that cannot be, or a server refuses our password.
    """
    daemon = build_daemon(settings, os.environ)
    notifier = Notifier.of(os.environ)
    app = create_app(daemon.services, token=token, allowed_origins=settings.rpc.allowed_origins)
    config = uvicorn.Config(
        LogContents(app) if settings.test else app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        timeout_keep_alive=30,
    )
    server = HttpServer(config, Heart(daemon, notifier).beat)
    return uvloop.run(_serve(daemon, server, listeners, notifier))


async def _serve(
    daemon: Daemon, server: HttpServer, listeners: Sequence[socket.socket], notifier: Notifier
) -> int:
    loop = asyncio.get_running_loop()

    def end() -> None:
        daemon.services.jobs.close()  # who follows a job would be waited for
        daemon.services.flushes.close()  # and so would who awaits a flush
        server.stop()

    def stop() -> None:
        if server.should_exit:
            log.warning("stopping_at_once")
            os._exit(1)  # a second signal: nothing is lost, the queue has it all
        notifier.stopping()
        end()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await daemon.start()
    log.info("daemon_started", pid=os.getpid())
    let_in = asyncio.create_task(_let_in(daemon))
    let_in.add_done_callback(lambda task: end() if _refusal(task) else None)
    try:
        await server.serve(sockets=list(listeners))
    finally:
        await daemon.stop()
        log.info("daemon_stopped")
    if refusal := _refusal(let_in):
        raise refusal
    let_in.cancel()
    return 0


async def _let_in(daemon: Daemon) -> None:
    """Return once both servers have let us in, however long they take to answer.

    Raises:
        ConfigError: One refuses the user or password: to wait would be in vain.
    """

    async def once(ask: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await ask()
            except ConfigError:
                raise
            except GralkorError:
                await asyncio.sleep(AGAIN_SECONDS)

    await asyncio.gather(once(lambda: check_access(daemon.queue)), once(daemon.graph.check_access))


def _refusal(let_in: asyncio.Task[None]) -> BaseException | None:
    return None if not let_in.done() or let_in.cancelled() else let_in.exception()
