"""Bulk import: turns from a file go through the public client in batches, in order, resumably."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from gralkord.errors import GralkorError, Transient
from gralkord.models import Capture, CaptureReceipt, FlushResult, Until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


log = structlog.get_logger(__name__)

# One request takes at most so many, and 2 MiB of JSON.
BATCH_TURNS: Final = 100
BATCH_BYTES: Final = 1024 * 1024
# A session is flushed as soon as so many others came after it: memory stays bounded in any file.
OPEN_SESSIONS: Final = 256
# A flush waits for the graph's disk, up to a second or two; together they wait once.
FLUSHES_AT_ONCE: Final = 64
FLUSH_TIMEOUT: Final = 300.0
PATIENCE: Final = 120.0
MAX_PAUSE: Final = 5.0


@dataclass(frozen=True, slots=True)
class ImportTurn:
    """A turn of a file, and where in the file it stands (``line 7``)."""

    where: str
    capture: Capture


@dataclass(frozen=True, slots=True)
class RejectedTurn:
    """A turn that could not be read or was refused, where it stands, and why."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did.

    Attributes:
        turns: Turns read, rejected ones included.
        added: Turns that were new.
        duplicates: Turns that were there already.
        failed: Turns that could not be read or were refused.
        sessions: Sessions that got at least one turn, new or not.
        seconds: How long it took, until every added turn was recallable.
    """

    turns: int
    added: int
    duplicates: int
    failed: int
    sessions: int
    seconds: float

    def to_dict(self) -> dict[str, float]:
        """Return the machine form, seconds to the millisecond."""
        return asdict(self) | {"seconds": round(self.seconds, 3)}


class CaptureClient(Protocol):
    """What an import needs of a client."""

    async def capture_many(
        self, captures: Sequence[Capture]
    ) -> Sequence[CaptureReceipt | GralkorError]:
        """Capture *captures* in order; one answer each."""
        ...

    async def flush_and_await(
        self,
        session: str,
        *,
        operator: str | None = None,
        until: Until = "understood",
        timeout: float = 30.0,  # noqa: ASYNC109
    ) -> FlushResult:
        """Flush *session* and answer when that is done, at the latest after *timeout* seconds."""
        ...


def operator_tag(operator: str) -> str:
    """Return eight hex digits that stand for *operator* in ids made by an import.

    Sessions belong to a tenant, not to an operator: without the tag a second operator could not
    import the same file.
    """
    return hashlib.blake2s(operator.encode(), digest_size=4).hexdigest()


class Import:
    """One run: reads turns, sends them in batches, flushes every session that it touched.

    Args:
        client: Where the turns go.
        on_progress: Called with the number of turns handled, after each batch.
        on_rejected: Called with each turn that could not be read or was refused.
        patience: Seconds to go on offering a turn that the daemon cannot take for now.
    """

    def __init__(
        self,
        client: CaptureClient,
        *,
        on_progress: Callable[[int], None] = lambda _: None,
        on_rejected: Callable[[RejectedTurn], None] = lambda _: None,
        patience: float = PATIENCE,
    ) -> None:
        self._client = client
        self._on_progress = on_progress
        self._on_rejected = on_rejected
        self._patience = patience
        self._turns = self._added = self._duplicates = self._failed = 0
        self._sessions: set[int] = set()  # hashes: a file may hold very many sessions
        self._slots = asyncio.Semaphore(FLUSHES_AT_ONCE)
        self._open: OrderedDict[str, str] = OrderedDict()  # session -> operator, oldest use first

    async def run(self, turns: Iterable[ImportTurn | RejectedTurn]) -> ImportReport:
        """Import *turns* and return what was done.

        Args:
            turns: In the order in which they happened; read lazily, a batch at a time.

        Raises:
            GralkorError: The daemon refuses everything, or cannot be reached. What was imported
                before stays; running again adds the rest.
        """
        started = time.monotonic()
        try:
            async with asyncio.TaskGroup() as flushes:
                for batch in _batches(turns):
                    await self._take(batch)
                    await self._flush(flushes, keep=OPEN_SESSIONS)
                    self._on_progress(len(batch))
                await self._flush(flushes, keep=0)
        except* GralkorError as failed:
            raise failed.exceptions[0] from None
        return ImportReport(
            turns=self._turns,
            added=self._added,
            duplicates=self._duplicates,
            failed=self._failed,
            sessions=len(self._sessions),
            seconds=time.monotonic() - started,
        )

    async def _take(self, batch: Sequence[ImportTurn | RejectedTurn]) -> None:
        self._turns += len(batch)
        for turn in batch:
            if isinstance(turn, RejectedTurn):
                self._reject(turn)
        waiting = [turn for turn in batch if isinstance(turn, ImportTurn)]
        give_up = time.monotonic() + self._patience
        pause = 0.05
        while waiting:
            answers = await self._client.capture_many([turn.capture for turn in waiting])
            refused: list[tuple[ImportTurn, GralkorError]] = []
            for turn, answer in zip(waiting, answers, strict=True):
                if isinstance(answer, CaptureReceipt):
                    self._accept(turn.capture, answer)
                elif answer.retry and time.monotonic() < give_up:
                    refused.append((turn, answer))
                else:
                    self._reject(RejectedTurn(turn.where, answer.message))
            waiting = [turn for turn, _ in refused]
            if refused:
                pause = await _wait(pause, [error for _, error in refused])

    def _accept(self, capture: Capture, receipt: CaptureReceipt) -> None:
        if receipt.duplicate:
            self._duplicates += 1
        else:
            self._added += 1
        self._sessions.add(hash(capture.session))
        self._open[capture.session] = capture.operator
        self._open.move_to_end(capture.session)

    def _reject(self, turn: RejectedTurn) -> None:
        self._failed += 1
        self._on_rejected(turn)

    async def _flush(self, flushes: asyncio.TaskGroup, *, keep: int) -> None:
        """Begin to flush all open sessions but the *keep* that were used last."""
        while len(self._open) > keep:
            session, operator = self._open.popitem(last=False)
            await self._slots.acquire()
            flushes.create_task(self._flush_one(session, operator))

    async def _flush_one(self, session: str, operator: str) -> None:
        try:
            result = await self._client.flush_and_await(
                session, operator=operator, until="indexed", timeout=FLUSH_TIMEOUT
            )
        finally:
            self._slots.release()
        if not result.complete:
            raise Transient(
                f"session {session!r} was captured but is not recallable yet: {result.reason}",
                hint="nothing is lost; `gralkord status` shows what waits",
            )


def _batches(
    turns: Iterable[ImportTurn | RejectedTurn],
) -> Iterator[list[ImportTurn | RejectedTurn]]:
    batch: list[ImportTurn | RejectedTurn] = []
    size = 0
    for turn in turns:
        added = _size(turn)
        if batch and (len(batch) == BATCH_TURNS or size + added > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(turn)
        size += added
    if batch:
        yield batch


def _size(turn: ImportTurn | RejectedTurn) -> int:
    if isinstance(turn, RejectedTurn):
        return 0
    return sum(len(message.content.encode()) for message in turn.capture.turn)


async def _wait(pause: float, errors: Sequence[GralkorError]) -> float:
    asked = max((error.retry_after or 0.0) for error in errors)
    delay = min(max(pause, asked), MAX_PAUSE)
    log.debug("import_waits", turns=len(errors), seconds=delay, code=errors[0].code)
    await asyncio.sleep(delay)
    return min(pause * 2, MAX_PAUSE)
