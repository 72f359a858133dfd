"""What a direct producer writes to the stream, and how it reads the answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import orjson
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from gralkord.client.calls import MAX_BATCH_BYTES, read_capture
from gralkord.errors import ConfigError, GralkorError, InvalidInput, QueueFull
from gralkord.mailbox.connection import explain
from gralkord.models import Capture, CaptureReceipt
from gralkord.wire import check_event_time, zone_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from gralkord.client.calls import Outcome

# A direct producer may not ask how the queue is set up.
DURABILITY: Final = "queue"
RETRY_SECONDS: Final = 5.0

_MULTI: Final = b"*1\r\n$5\r\nMULTI\r\n"
_EXEC: Final = b"*1\r\n$4\r\nEXEC\r\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn on its way to the stream.

    Attributes:
        turn_id: Its id, which makes a repeat of it known.
        data: The capture as JSON.
        notes: What its receipt has to say about it.
    """

    turn_id: str
    data: bytes
    notes: list[str]


@dataclass(slots=True)
class EntryBatch:
    """Turns that are written together.

    Attributes:
        begin: The start of each command, as `command_start` makes it.
        outcomes: One place for each turn, filled as soon as it is known.
        entries: What is to be written, by its place.
        size: Bytes of it.
    """

    begin: bytes
    outcomes: list[Outcome | None] = field(default_factory=list)
    entries: dict[int, Entry] = field(default_factory=dict)
    size: int = 0

    def add(self, one: Entry | InvalidInput) -> None:
        """Add a turn, or why it is none."""
        if isinstance(one, Entry):
            self.entries[len(self.outcomes)] = one
            self.size += len(one.data)
            self.outcomes.append(None)
        else:
            self.outcomes.append(one)

    def packed(self) -> bytes:
        """Return the commands that write what is not written yet, all of it or nothing."""
        parts = [_command(self.begin, entry.data) for entry in self.entries.values()]
        return b"".join((_MULTI, *parts, _EXEC))

    @property
    def replies(self) -> int:
        """How many replies `packed` gets."""
        return len(self.entries) + 2

    def take(self, replies: Sequence[Any]) -> GralkorError | None:
        """Take note of the replies; return why something is still not written, or nothing.

        Args:
            replies: Values and errors, as Redis gave them.
        """
        started, *queued, ended = replies
        refused = next((one for one in queued if isinstance(one, RedisError)), None)
        if isinstance(started, RedisError):  # a user without MULTI: each was written by itself
            results = queued
        elif isinstance(ended, RedisError):
            return refusal(refused or ended)
        else:
            results = ended
        failure = None
        for (place, entry), result in zip(list(self.entries.items()), results, strict=True):
            if isinstance(result, RedisError):
                failure = failure or refusal(result)
                continue
            self.outcomes[place] = CaptureReceipt(
                receipt=result.decode(),
                turn_id=entry.turn_id,
                durability=DURABILITY,
                notes=entry.notes,
            )
            del self.entries[place]
        return failure

    def closed(self, failure: GralkorError | None) -> list[Outcome]:
        """Return all outcomes; what is not written has met *failure*."""
        return [one or failure or GralkorError() for one in self.outcomes]


@dataclass(slots=True)
class OnePart:
    """A flush, or something that is ingested, on its way to the stream.

    Attributes:
        begin: The start of the command, as `command_start` makes it.
        data: What it says, as JSON.
        entry: Id of its entry, once it is written.
    """

    begin: bytes
    data: bytes
    entry: str = ""
    replies: int = 1

    def packed(self) -> bytes:
        """Return the command that writes it."""
        return _command(self.begin, self.data)

    def take(self, replies: Sequence[Any]) -> GralkorError | None:
        """Take note of the reply; return why it is not written, or nothing."""
        if isinstance(replies[0], RedisError):
            return refusal(replies[0])
        self.entry = replies[0].decode()
        return None


def steps(
    begin: bytes,
    captures: Iterable[Capture | Mapping[str, Any]],
    most: int,
    on_progress: Callable[[int], None] | None = None,
) -> Generator[EntryBatch, GralkorError | None, list[Outcome]]:
    """Write many turns in their order: yields batches, is sent how each ended, returns outcomes.

    A failure for now is the outcome of each turn that it met and of all after them, which are not
    written, so that the order holds when they are sent again.

    Args:
        begin: The start of each command, as `command_start` makes it.
        captures: The turns.
        most: Turns in a batch.
        on_progress: Called with the number of turns handled so far.

    Raises:
        GralkorError: The queue refuses the caller, not the turns.
    """
    outcomes: list[Outcome] = []
    broken: GralkorError | None = None
    for batch in _batches(begin, captures, most):
        if broken is None and batch.entries:
            broken = yield batch
            if broken is not None and not broken.retry:
                raise broken
        outcomes += batch.closed(broken)
        if on_progress:
            on_progress(len(outcomes))
    return outcomes


def command_start(stream: str, kind: str) -> bytes:
    """Return how a command begins that adds an entry of *kind* to *stream*; the data is left."""
    words = ("XADD", stream, "*", "kind", kind, "data")
    return b"*%d\r\n" % (len(words) + 1) + b"".join(
        b"$%d\r\n%b\r\n" % (len(word), word) for word in (word.encode() for word in words)
    )


def _command(begin: bytes, data: bytes) -> bytes:
    return b"%b$%d\r\n%b\r\n" % (begin, len(data), data)


def refusal(error: RedisError) -> GralkorError:
    """Return what *error* of the queue means to a direct producer."""
    if isinstance(error, NoPermissionError) and "xadd" in str(error).lower():
        return QueueFull(
            "the queue takes nothing new from its direct producers; nothing of this was stored",
            limit="memory",
            hint="it is closed while it is nearly full; if it stays so, may this user write at "
            "all (+xadd)?",
            retry_after=RETRY_SECONDS,
        )
    if isinstance(error, NoPermissionError) and " key" in str(error):
        return ConfigError(
            "the user of the queue may not write to the intake stream of this tenant",
            field="tenant",
            hint="a daemon reads the tenants that it is set up for; left out it is `default`",
        )
    if isinstance(error.__cause__, AuthenticationError):  # as redis.asyncio wraps it
        return explain(error.__cause__)
    return explain(error)


def _batches(
    begin: bytes, captures: Iterable[Capture | Mapping[str, Any]], most: int
) -> Iterator[EntryBatch]:
    batch = EntryBatch(begin)
    for one in captures:
        entry = _entry(one)
        if batch.outcomes and (
            len(batch.outcomes) >= most
            or (isinstance(entry, Entry) and batch.size + len(entry.data) > MAX_BATCH_BYTES)
        ):
            yield batch
            batch = EntryBatch(begin)
        batch.add(entry)
    if batch.outcomes:
        yield batch


def _entry(one: Capture | Mapping[str, Any]) -> Entry | InvalidInput:
    try:
        raw, capture = read_capture(one)
        if capture.event_time:
            check_event_time(capture, datetime.now(UTC))
        return Entry(raw["turn_id"], orjson.dumps(raw), zone_notes(raw))
    except InvalidInput as error:
        return error
