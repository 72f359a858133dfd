"""Start children, restart those that crash, stop them in order, leave none behind."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import structlog

from gralkord.embedded.child import Child, ChildSpec, Ending
from gralkord.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

_log = structlog.get_logger(__name__)

EXIT_CONFIG: Final = 78  # sysexits.h: the configuration is wrong, so trying again cannot help

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KILL_SECONDS: Final = 5.0
_TRIM_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a child that ended is started again.

    Attributes:
        first_delay: Seconds before the first restart; each further one waits twice as long.
        longest_delay: The longest wait, in seconds.
        quick_seconds: A child that answered for a shorter time than this has failed quickly.
        quick_failures: After so many quick failures in a row everything is stopped, unless the
            child had answered: what ended it then, such as a full disk, may be mended meanwhile.
    """

    first_delay: float = 0.2
    longest_delay: float = 5.0
    quick_seconds: float = 10.0
    quick_failures: int = 5

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after so many quick failures in a row."""
        return min(self.longest_delay, self.first_delay * 2.0 ** max(0, failures - 1))


class Supervisor:
    """Runs a set of children until it is told to stop, or one of them cannot be kept running."""

    def __init__(self, specs: Sequence[ChildSpec], policy: RestartPolicy | None = None) -> None:
        self._children = {spec.name: Child(spec) for spec in specs}
        self._policy = policy or RestartPolicy()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def pids(self) -> dict[str, int]:
        """Return the process ids of the children that run now, by name."""
        children = self._children.items()
        return {name: child.pid for name, child in children if child.pid is not None}

    async def wait_until_answering(self, name: str) -> None:
        """Return once the child *name* answers."""
        await self._children[name].answering.wait()

    def is_answering(self, name: str) -> bool:
        """Return whether the child *name* answers now."""
        return self._children[name].answering.is_set()

    def request_stop(self) -> None:
        """Stop everything in order; asked a second time, kill everything at once."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def run(self, started: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Run the children until a signal or a hopeless failure; then stop them all.

        Args:
            started: Runs beside the children from the start; its failure stops everything.

        Returns:
            Whether they were stopped in order; false: they were killed at a second signal.

        Raises:
            StartError: A child cannot be kept running.
        """
        loop = asyncio.get_running_loop()
        handled = [number for number in _STOP_SIGNALS if not _is_ignored(number)]
        for number in handled:
            loop.add_signal_handler(number, self.request_stop)
        loop.add_signal_handler(signal.SIGCHLD, self._poll)
        try:
            await self._supervise(started)
        finally:
            try:
                await self._stop_all()
            finally:
                for number in (*handled, signal.SIGCHLD):
                    loop.remove_signal_handler(number)
        return not self._hurry.is_set()

    async def _supervise(self, started: Callable[[], Awaitable[None]] | None) -> None:
        stop = asyncio.create_task(self._stop.wait())
        keepers = [asyncio.create_task(self._keep(child)) for child in self._children.values()]
        keepers.append(asyncio.create_task(self._trim_logs()))
        pending = {stop, *keepers}
        if started:
            pending.add(asyncio.ensure_future(started()))
        try:
            while not stop.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in (*pending, stop):
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _keep(self, child: Child) -> None:
        if child.spec.needs:
            await self._children[child.spec.needs].answering.wait()
        while True:
            child.start()
            _log.info("child_started", **child.to_fields())
            ending = await child.ended()
            delay = self._judge(child, ending)
            await asyncio.sleep(delay)

    def _judge(self, child: Child, ending: Ending) -> float:
        """Return how long to wait before *child* is started again, if that makes any sense."""
        name, last = child.spec.name, child.last_lines()
        quick = ending.seconds < self._policy.quick_seconds
        child.failures = child.failures + 1 if quick else 0
        _log.warning(
            "child_ended",
            child=name,
            how=str(ending),
            seconds=round(ending.seconds, 3),
            quick_failures=child.failures,
            last=last,
        )
        words = f"; it last wrote: {last[-1].strip()[:300]}" if last else ""
        if ending.code == EXIT_CONFIG:
            raise StartError(
                f"the {name} refuses its configuration{words}", hint=f"see {child.spec.log}"
            )
        answered = child.spec.answers is not None and ending.seconds > 0
        if child.failures >= self._policy.quick_failures and not answered:
            raise StartError(
                f"the {name} failed {child.failures} times in a row ({ending}){words}",
                hint=f"see {child.spec.log}",
            )
        return self._policy.delay(child.failures)

    def _poll(self) -> None:
        for child in self._children.values():
            child.poll()

    async def _stop_all(self) -> None:
        def phase(child: Child) -> int:
            return child.spec.stop_phase

        running = [child for child in self._children.values() if child.pid is not None]
        for _, group in groupby(sorted(running, key=phase), key=phase):
            await self._stop_group(list(group))

    async def _stop_group(self, group: Sequence[Child]) -> None:
        for child in group:
            child.terminate()
        limit = max(child.spec.stop_seconds for child in group)
        await self._wait_ended(group, limit)
        late = [child for child in group if child.pid is not None]
        for child in late:
            _log.warning("child_killed", limit_seconds=limit, **child.to_fields())
            child.kill()
        await self._wait_ended(late, _KILL_SECONDS, hurried=False)

    async def _wait_ended(
        self, group: Iterable[Child], seconds: float, *, hurried: bool = True
    ) -> None:
        """Return once all of *group* ended, after *seconds*, or at a second signal."""
        ends = [asyncio.ensure_future(child.ended()) for child in group if child.pid is not None]
        if not ends:
            return
        everything = asyncio.gather(*ends)
        hurry = asyncio.ensure_future(self._hurry.wait())
        waiting: set[asyncio.Future[Any]] = {everything, hurry} if hurried else {everything}
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        everything.cancel()
        await asyncio.gather(hurry, everything, *ends, return_exceptions=True)

    async def _trim_logs(self) -> None:
        while True:
            await asyncio.sleep(_TRIM_SECONDS)
            for child in self._children.values():
                try:
                    child.trim_log()
                except OSError as error:
                    _log.warning("log_not_trimmed", child=child.spec.name, reason=str(error))


def _is_ignored(number: signal.Signals) -> bool:
    """Return whether whoever started us wants *number* ignored, as nohup does with SIGHUP."""
    return signal.getsignal(number) is signal.SIG_IGN
