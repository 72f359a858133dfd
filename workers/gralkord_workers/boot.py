"""The life of a worker process, from its first connection to the last signal."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any, Final

import structlog
from dramatiq import Broker, Middleware, Worker
from dramatiq.asyncio import get_event_loop_thread
from dramatiq.middleware import AsyncIO

from gralkord.config import Settings
from gralkord.errors import BackendUnavailable, GralkorError
from gralkord.turns.parts import UnderstandStack, open_understand
from gralkord.turns.understand import understand
from gralkord_workers.actors import declare

log = structlog.get_logger(__name__)

# How long an idle worker sleeps between two looks at the doorbells, in ms.
POLL_MS: Final = 100
STOP_MS: Final = 15_000
GRAPH_WAIT_SECONDS: Final = 1.0


class WaitForGraph(Middleware):
    """Holds the first turn back until the graph answers and its indices are built."""

    def __init__(self, stack: UnderstandStack, stopped: threading.Event) -> None:
        self._stack = stack
        self._stopped = stopped

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:  # noqa: ARG002
        """Wait on the worker's event loop, which an earlier middleware has started."""
        loop = get_event_loop_thread()
        if loop is not None:
            loop.run_coroutine(self._wait())

    async def _wait(self) -> None:
        while not self._stopped.is_set():
            try:
                await self._stack.graph.wait_ready(GRAPH_WAIT_SECONDS)
            except BackendUnavailable as error:
                log.info("waiting_for_graph", reason=error.message)
            else:
                return


class Turns:
    """The turns under way in this process; all of them run on the event loop of the worker."""

    def __init__(self, stack: UnderstandStack) -> None:
        self._stack = stack
        self._under_way: set[asyncio.Task[Any]] = set()
        self._draining = False

    async def work(self, group: str) -> None:
        """Do one item of *group*; what cannot be done waits in its mailbox."""
        task = asyncio.current_task()
        if self._draining or task is None:
            return
        self._under_way.add(task)
        try:
            await understand(self._stack.parts, group)
        except GralkorError as error:  # the sweep rings again
            log.warning("turn_interrupted", group=group, code=error.code, reason=error.message)
        except Exception:
            log.exception("turn_failed", group=group)
        except asyncio.CancelledError:
            log.info("turn_released", group=group)
        finally:
            self._under_way.discard(task)

    async def drain(self) -> None:
        """Give back what is under way, so that another worker need not wait for the leases."""
        self._draining = True
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(set(self._under_way), timeout=5)
        await self._stack.close()


def run(settings: Settings) -> int:
    """Run a worker until SIGTERM or SIGINT; with no model configured it has nothing to do.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings name something that cannot be.
    """
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(1) if stopped.is_set() else stopped.set())
    stack = open_understand(settings, os.environ)
    if stack is None:
        log.info("worker_idle", reason="no language model is configured")
        stopped.wait()
    else:
        _work(settings, stack, stopped)
    return 0


def _work(settings: Settings, stack: UnderstandStack, stopped: threading.Event) -> None:
    turns = Turns(stack)
    broker = stack.broker
    broker.add_middleware(AsyncIO())
    broker.add_middleware(WaitForGraph(stack, stopped))
    declare(broker, turns.work)
    worker = Worker(broker, worker_timeout=POLL_MS, worker_threads=settings.worker.threads)
    # More would hold back messages that an idle process could take.
    worker.queue_prefetch = settings.worker.threads
    worker.start()
    log.info("worker_started", pid=os.getpid(), threads=settings.worker.threads)
    stopped.wait()
    loop = get_event_loop_thread()
    if loop is not None:
        loop.run_coroutine(turns.drain())
    worker.stop(timeout=STOP_MS)
    log.info("worker_stopped")
