"""The life of a daemon process, from the first socket to the last signal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from typing import Final

import structlog
import uvicorn
import uvloop

from gralkord.config import Settings
from gralkord.daemon.build import Daemon, build_daemon
from gralkord.rpc.app import create_app

log = structlog.get_logger(__name__)

DRAIN_SECONDS: Final = 5


class HttpServer(uvicorn.Server):
    """Uvicorn without its signal handlers: this module owns the signals of the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def run(settings: Settings, *, fd: int | None, token: str) -> int:
    """Run the daemon until SIGTERM or SIGINT.

    Args:
        settings: What is configured; queue and graph must have an address.
        fd: A listening socket to take over; default: bind `rpc.host` and `rpc.port`.
        token: What requests must carry.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings name something that cannot be.
    """
    daemon = build_daemon(settings, os.environ)
    if fd is not None:
        listener = socket.socket(fileno=fd)
    else:
        listener = socket.create_server((settings.rpc.host, settings.rpc.port))
    app = create_app(daemon.services, token=token, allowed_origins=settings.rpc.allowed_origins)
    server = HttpServer(
        uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            timeout_keep_alive=30,
        )
    )
    return uvloop.run(_serve(daemon, server, listener))


async def _serve(daemon: Daemon, server: HttpServer, listener: socket.socket) -> int:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if server.should_exit:
            log.warning("stopping_at_once")
            os._exit(1)  # a second signal: nothing is lost, the queue has it all
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    await daemon.start()
    log.info("daemon_started", pid=os.getpid())
    try:
        await server.serve(sockets=[listener])
    finally:
        await daemon.stop()
        log.info("daemon_stopped")
    return 0
