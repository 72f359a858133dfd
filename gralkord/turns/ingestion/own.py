"""Processes of the user's own: run once an item, their texts handed on when they have ended."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
import traceback
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import structlog

from gralkord.errors import GralkorError, ProcessFailed
from gralkord.graph.drafts import EpisodeSource
from gralkord.groups import Group, parse_group
from gralkord.lenses.process import Found, Kind, OwnProcess, Request
from gralkord.lenses.registry import Lens
from gralkord.mailbox.items import FollowUp
from gralkord.turns.ingestion.adding import follow_ups
from gralkord.turns.ingestion.own_store import OwnStore
from gralkord.turns.ingestion.store import distilled
from gralkord.turns.work import Work

log = structlog.get_logger(__name__)

T = TypeVar("T")

# Searches a group for an operator: group, operator, a query, how many at most, and the turns whose
# words are left out.
LensSearch = Callable[[Group, str, str, int, Collection[str]], Awaitable[Sequence[Found]]]

KINDS: Final[Mapping[EpisodeSource, Kind]] = {
    "message": "conversation",
    "text": "document",
    "json": "structured_record",
}
# How long a run that is told to end is waited for.
GRACE_SECONDS: Final = 2.0
# So many runs may hang; each holds memory, and whatever it waits for.
MOST_HANGING: Final = 8


@dataclass(slots=True)
class OwnProcesses:
    """Runs the processes of lenses.

    Attributes:
        search: Searches the group of a lens.
        grace_seconds: How long a run that is told to end is waited for.
    """

    search: LensSearch
    grace_seconds: float = GRACE_SECONDS
    _threads: dict[asyncio.Future[Any], threading.Thread] = field(default_factory=dict)
    _hanging: set[threading.Thread] = field(default_factory=set)
    _tasks: set[asyncio.Future[Any]] = field(default_factory=set)

    async def run(self, work: Work) -> Sequence[FollowUp]:
        """Run the process of the item's lens; return what it has added, as work that follows.

        Nothing is written before: what fails, or is done again, leaves nothing behind.

        Raises:
            ProcessFailed: It has raised an error, or did not end in time.
            GralkorError: What it has raised itself, or the failure of the model that sums up what
                the agent did.
        """
        lens = work.lens
        if lens.process is None:
            raise ProcessFailed("the process of this lens is not loaded")
        group, operator = parse_group(work.lease.group), str(work.item.body["operator"])

        draft = await distilled(work)
        turns = {passage.turn_id for passage in work.passages}

        async def search(query: str, max_results: int) -> Sequence[Found]:
            return await self.search(group, operator, query, max_results, turns)

        request = Request(
            operator=operator,
            lens=lens.name,
            content=draft.body,
            source_description=draft.source_description,
            kind=KINDS[draft.source],
            event_time=draft.reference_time,
            id=draft.uuid,
        )
        store = OwnStore(search, request.source_description)
        try:
            await self._call(lens, lens.process, request, store)
        finally:
            store.close()
        log.info(
            "process_done",
            group=work.lease.group,
            item=work.item.id,
            process=lens.ingestion,
            added=len(store.added),
        )
        return follow_ups(work, store.added)

    async def _call(
        self, lens: Lens, process: OwnProcess, request: Request, store: OwnStore
    ) -> None:
        """Call a process and wait for its end, for as long as its lens allows.

        Raises:
            ProcessFailed: It has failed, or too many earlier runs hang.
        """
        self._check_hanging(lens)
        until = asyncio.get_running_loop().time() + lens.timeout_seconds
        if _is_async(process):
            outcome: Any = process(request, store)
        else:
            outcome = await self._ended(
                lens, self._in_thread(lens, lambda: process(request, store)), until
            )
        if inspect.isawaitable(outcome):
            await self._ended(lens, asyncio.create_task(_guarded(outcome)), until)

    async def _ended(self, lens: Lens, run: asyncio.Future[T], until: float) -> T:
        """Return what a run returns; one that does not end in time is left behind."""
        left = until - asyncio.get_running_loop().time()
        try:
            await asyncio.wait({run}, timeout=max(left, 0))
            if not run.done():
                raise ProcessFailed(
                    f"{_named(lens)} did not end within {lens.timeout_seconds:g} seconds",
                    field=f"lenses.{lens.name}.timeout_seconds",
                    limit=lens.timeout_seconds,
                )
        finally:
            if not run.done():
                await self._leave(run)
        try:
            return run.result()
        except GralkorError:
            raise
        except asyncio.CancelledError as error:
            raise ProcessFailed(f"{_named(lens)} has cancelled itself") from error
        except BaseException as error:  # of the process: this task itself waits for nothing here
            raise ProcessFailed(f"{_named(lens)} raised {_told(error)}") from error

    async def _leave(self, run: asyncio.Future[Any]) -> None:
        """Tell a run to end; one that does not is waited for no longer than the grace."""
        run.cancel()
        if thread := self._threads.get(run):
            self._hanging.add(thread)
        self._tasks.add(run)
        run.add_done_callback(self._forget)
        if isinstance(run, asyncio.Task):
            await asyncio.wait({run}, timeout=self.grace_seconds)

    def _check_hanging(self, lens: Lens) -> None:
        self._hanging = {thread for thread in self._hanging if thread.is_alive()}
        if len(self._hanging) + sum(not each.done() for each in self._tasks) >= MOST_HANGING:
            raise ProcessFailed(
                f"{_named(lens)}: {MOST_HANGING} earlier runs were given up and still hang",
                limit=MOST_HANGING,
                hint="mend the process, then start the workers anew",
            )

    def _forget(self, run: asyncio.Future[Any]) -> None:
        self._tasks.discard(run)
        if not run.cancelled():
            run.exception()  # it was told already that the run has failed

    def _in_thread(self, lens: Lens, call: Callable[[], T]) -> asyncio.Future[T]:
        """Begin a call in a thread of its own, which nobody has to wait for at the end."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                _tell(loop, outcome, error=_raisable(error))
            else:
                _tell(loop, outcome, result)

        context = contextvars.copy_context()
        thread = threading.Thread(
            target=lambda: context.run(run), name=f"process {lens.name}", daemon=True
        )
        self._threads[outcome] = thread
        outcome.add_done_callback(self._threads.pop)
        thread.start()
        return outcome


async def _guarded(outcome: Awaitable[Any]) -> None:
    try:
        await outcome
    except (SystemExit, KeyboardInterrupt) as error:  # it would end the loop, and all others' work
        raise _raisable(error) from error


def _tell(
    loop: asyncio.AbstractEventLoop,
    outcome: asyncio.Future[Any],
    result: Any = None,
    error: Exception | None = None,
) -> None:
    def settle() -> None:
        if outcome.done():  # given up
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop is closed: the worker has ended
        loop.call_soon_threadsafe(settle)


class _EndsAll(Exception):
    """Stands for an error that nothing but the process may end by."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _raisable(error: BaseException) -> Exception:
    """Return an error that a future can hold and the event loop does not end by."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return _EndsAll(error)


def _is_async(process: OwnProcess) -> bool:
    call = cast("Any", type(process)).__call__
    return inspect.iscoroutinefunction(process) or inspect.iscoroutinefunction(call)


def _named(lens: Lens) -> str:
    return f"lens {lens.name!r}: {lens.ingestion}"


def _told(error: BaseException) -> str:
    """Return the kind and the places of an error; its text may hold words of a memory."""
    error = error.error if isinstance(error, _EndsAll) else error
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename != __file__][-3:]
    places = ", ".join(f"{frame.name}:{frame.lineno}" for frame in theirs)
    return f"{type(error).__name__} in {places}"
