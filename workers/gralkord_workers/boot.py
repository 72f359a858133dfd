"""The life of a worker process, from its first connection to the last signal."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any, Final

import structlog
from dramatiq import Broker, Middleware, Worker
from dramatiq.asyncio import EventLoopThread, get_event_loop_thread
from dramatiq.middleware import AsyncIO

from gralkord.config import Settings
from gralkord.errors import ConfigError, GralkorError
from gralkord.mailbox.connection import check_access
from gralkord.notify import Notifier
from gralkord.turns.parts import UnderstandStack, open_understand
from gralkord.turns.understand import understand
from gralkord_workers.actors import declare

log = structlog.get_logger(__name__)

# How often an idle thread looks whether it is to stop; messages wake it at once.
IDLE_MS: Final = 1_000
STOP_MS: Final = 15_000
RELEASE_SECONDS: Final = 5.0
GRAPH_WAIT_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 0.5


class Stop:
    """Whether the process is to stop, and why."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.refusal: ConfigError | None = None

    def on_signal(self) -> None:
        """Stop in order; asked a second time, end at once: the queue has it all."""
        if self.asked.is_set():
            os._exit(1)
        self.asked.set()

    def refuse(self, refusal: ConfigError) -> None:
        """Stop because the settings cannot work."""
        self.refusal = refusal
        self.asked.set()


class WaitForServers(Middleware):
    """Holds the first turn back until both servers answer and the graph's indices are built."""

    def __init__(self, stack: UnderstandStack, stop: Stop) -> None:
        self._stack = stack
        self._stop = stop

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:  # noqa: ARG002
        """Wait on the worker's event loop, which an earlier middleware has started."""
        loop = get_event_loop_thread()
        if loop is not None:
            loop.run_coroutine(self._wait())

    async def _wait(self) -> None:
        while not self._stop.asked.is_set():
            try:
                await check_access(self._stack.queue)
                await self._stack.graph.check_access()
                await self._stack.graph.wait_ready(GRAPH_WAIT_SECONDS)
            except ConfigError as error:
                self._stop.refuse(error)
            except GralkorError as error:
                log.info("waiting_for_servers", reason=error.message)
                await asyncio.sleep(AGAIN_SECONDS)
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
        if task is None:
            return
        self._under_way.add(task)
        try:
            if self._draining:
                await self._stack.parts.ring(group)  # somebody else will hear it
            else:
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
            await asyncio.wait(set(self._under_way), timeout=RELEASE_SECONDS)
        await self._stack.close()


def run(settings: Settings) -> int:
    """Run a worker until SIGTERM or SIGINT; with no model configured it has nothing to do.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings name something that cannot be, or a server refuses our password.
    """
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.on_signal())
    notifier = Notifier.of(os.environ)
    stack = open_understand(settings, os.environ)
    if stack is None:
        log.info("worker_idle", reason="no language model is configured")
        notifier.ready("idle: no language model is configured")
        while not stop.asked.wait(notifier.pause):
            notifier.alive()
        notifier.stopping()
    else:
        _work(settings, stack, stop, notifier)
    if stop.refusal is not None:
        raise stop.refusal
    return 0


def _work(settings: Settings, stack: UnderstandStack, stop: Stop, notifier: Notifier) -> None:
    turns = Turns(stack)
    broker = stack.broker
    broker.add_middleware(AsyncIO())
    broker.add_middleware(_Announce(notifier))
    broker.add_middleware(WaitForServers(stack, stop))
    declare(broker, turns.work)
    worker = Worker(broker, worker_timeout=IDLE_MS, worker_threads=settings.worker.threads)
    # More would hold back messages that an idle process could take.
    worker.queue_prefetch = settings.worker.threads
    worker.start()
    if not stop.asked.is_set():
        log.info("worker_started", pid=os.getpid(), threads=settings.worker.threads)
        notifier.status("at work")
    stop.asked.wait()
    notifier.stopping()
    # First nothing more is begun, then what is under way is given back, then all is closed.
    broker.stopping.set()
    for thread in worker.workers:
        thread.stop()
    loop = get_event_loop_thread()
    if loop is not None:
        loop.run_coroutine(turns.drain())
    worker.stop(timeout=STOP_MS)
    log.info("worker_stopped")


class _Announce(Middleware):
    """Tells the service manager that the event loop runs, again and again: a frozen one cannot.

    A server that is down is waited for, so that the worker counts as ready before it answers.
    """

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._task: asyncio.Task[None] | None = None

    def before_worker_boot(self, broker: Broker, worker: Worker) -> None:  # noqa: ARG002
        """Begin on the worker's event loop, which an earlier middleware has started."""
        loop: EventLoopThread | None = get_event_loop_thread()
        if loop is not None:
            loop.run_coroutine(self._begin())

    async def _begin(self) -> None:
        self._notifier.ready("waiting for the servers")
        self._task = asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        while (pause := self._notifier.pause) is not None:
            await asyncio.sleep(pause)
            self._notifier.alive()
