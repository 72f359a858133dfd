"""The life of a worker process, from its first connection to the last signal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import time
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
LOOK_SECONDS: Final = 2.0


class Stop:
    """Whether the process is to stop, and why.

    The kernel may hand a signal to any thread, and Python handles it in the main thread when that
    has something to do: a lock that it waits for would not let go. So it waits for a byte, which
    the interpreter writes in whatever thread the signal came.
    """

    def __init__(self) -> None:
        self.asked = False
        self.refusal: ConfigError | None = None
        self._ear, self._mouth = socket.socketpair()
        for end in (self._ear, self._mouth):
            end.setblocking(False)

    def listen(self) -> None:
        """Handle SIGTERM and SIGINT from now on."""
        signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._on_signal())

    def wait(self, seconds: float | None = None) -> bool:
        """Return whether the process is to stop: when it is, or after *seconds*."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self.asked:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            select.select([self._ear], [], [], left)
            with contextlib.suppress(BlockingIOError):
                self._ear.recv(64)
        return self.asked

    def refuse(self, refusal: ConfigError) -> None:
        """Stop because the settings cannot work."""
        self.refusal = refusal
        self.asked = True
        with contextlib.suppress(BlockingIOError):
            self._mouth.send(b"\0")

    def close(self) -> None:
        """Listen no more."""
        signal.set_wakeup_fd(-1)
        self._ear.close()
        self._mouth.close()

    def _on_signal(self) -> None:
        if self.asked:
            os._exit(1)  # told a second time, end at once: the queue has it all
        self.asked = True


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
        while not self._stop.asked:
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
    """Run a worker until SIGTERM or SIGINT; with no model configured it does requests only.

    Returns:
        The exit code.

    Raises:
        ConfigError: The settings name something that cannot be, or a server refuses our password.
    """
    stop = Stop()
    stop.listen()
    notifier = Notifier.of(os.environ)
    stack = open_understand(settings, os.environ)
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
    if not stop.asked:
        model = stack.model.name if stack.model else "none"
        log.info("worker_started", pid=os.getpid(), threads=settings.worker.threads, model=model)
        notifier.status("at work" if stack.model else "at work: no language model is configured")
    loop = get_event_loop_thread()
    if not _wait(stop, loop):
        # Each turn would fail from now on. Leases end by themselves; who started us sees the rest.
        log.critical("event_loop_ended", pid=os.getpid())
        os._exit(1)
    notifier.stopping()
    # First nothing more is begun, then what is under way is given back, then all is closed.
    broker.stopping.set()
    for thread in worker.workers:
        thread.stop()
    if loop is not None:
        loop.run_coroutine(turns.drain())
    worker.stop(timeout=STOP_MS)
    log.info("worker_stopped")


def _wait(stop: Stop, loop: EventLoopThread | None) -> bool:
    """Wait until the process is to stop; return whether the event loop has lived so long."""
    while not stop.wait(LOOK_SECONDS):
        if loop is not None and not loop.is_alive():
            return False
    return True


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

    def after_worker_shutdown(self, broker: Broker, worker: Worker) -> None:  # noqa: ARG002
        """End before the event loop does."""
        loop: EventLoopThread | None = get_event_loop_thread()
        if loop is not None:
            loop.run_coroutine(self._end())

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _go_on(self) -> None:
        while (pause := self._notifier.pause) is not None:
            await asyncio.sleep(pause)
            self._notifier.alive()
