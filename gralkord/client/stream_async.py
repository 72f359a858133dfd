"""The asynchronous direct producer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, cast

import redis.asyncio
import redis.asyncio.retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from gralkord.client.calls import MAX_BATCH, capture_values
from gralkord.client.entries import refusal, steps
from gralkord.client.stream_base import Stream, ingest_receipt, only
from gralkord.errors import GralkorError
from gralkord.mailbox.connection import cancellable
from gralkord.models import FlushResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from types import TracebackType

    from gralkord.client.calls import Outcome, Turn
    from gralkord.client.stream_base import Part
    from gralkord.models import Capture, CaptureReceipt
    from gralkord.models.ingest import IngestReceipt


class AsyncStreamProducer(Stream):
    """Writes turns to the intake stream of the queue, without blocking the event loop.

    The arguments, and what an answer means, are those of `StreamProducer`.
    """

    def _open(self, options: dict[str, Any]) -> None:
        never = redis.asyncio.retry.Retry(NoBackoff(), 0)
        self._pool = redis.asyncio.Redis(**options, retry=never).connection_pool
        self._pool.connection_class = cancellable(self._pool.connection_class)

    async def capture(
        self,
        session: str,
        operator: str,
        agent: str,
        user: str,
        turn: Turn,
        *,
        lenses: Iterable[str] = (),
        turn_id: str | None = None,
        event_time: datetime | str | None = None,
        source: str | None = None,
        offset: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> CaptureReceipt:
        """Store one turn; the arguments are those of `gralkord.Client.capture`.

        Raises:
            GralkorError: It is not acceptable, or cannot be stored now.
        """
        values = capture_values(
            turn,
            lenses=lenses,
            event_time=event_time,
            session=session,
            operator=operator,
            agent=agent,
            user=user,
            turn_id=turn_id,
            source=source,
            offset=offset,
            metadata=metadata,
        )
        return only(await self.capture_many([values]))

    async def capture_many(
        self,
        captures: Iterable[Capture | Mapping[str, Any]],
        batch: int = MAX_BATCH,
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Outcome]:
        """Store turns in their order, *batch* at a time; one that is refused stops no other.

        A failure for now (no answer, a full queue) is the outcome of each turn that it met and of
        all after them, which are not written, so that the order holds when they are sent again.

        Args:
            captures: The turns.
            batch: Turns that are written together, all or none.
            on_progress: Called with the number of turns handled so far.

        Returns:
            A receipt or an error for each turn.

        Raises:
            GralkorError: The queue refuses the caller, not the turns.
        """
        sending = steps(self._turn, captures, batch, on_progress)
        try:
            part = next(sending)
            while True:
                part = sending.send(await self._deliver(part))
        except StopIteration as end:
            return cast("list[Outcome]", end.value)

    async def flush(self, session: str) -> FlushResult:
        """Hand a session's buffered turns over to be understood, without waiting for it.

        Raises:
            GralkorError: The session's name is not acceptable, or it is not possible now.
        """
        part = self._flush_part(session)
        error = await self._deliver(part)
        if error is not None:
            raise error
        return FlushResult(flush=part.entry, state="queued", complete=False)

    async def ingest(
        self, operator: str, content: Any, source_description: str, **fields: Any
    ) -> IngestReceipt:
        """Store a document, a conversation or a record as a whole.

        Args:
            operator: Whose memory it becomes.
            content: The words, or messages, or the record.
            source_description: What it is and where it is from, in words.
            fields: The other arguments of `gralkord.Client.ingest`.

        Raises:
            GralkorError: It is not acceptable, or cannot be stored now.
        """
        fields |= {"operator": operator, "source_description": source_description}
        part, whole = self._ingest_part(content, fields)
        error = await self._deliver(part)
        if error is not None:
            raise error
        return ingest_receipt(part, whole)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.disconnect()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _deliver(self, part: Part) -> GralkorError | None:
        """Write *part*, again and again if need be; return the error it was given up with."""
        tried, waited = 0, 0.0
        while True:
            tried += 1
            try:
                error = part.take(await self._exchange(part.packed(), part.replies))
            except RedisError as failure:
                error = refusal(failure)
            if error is None:
                return None
            pause = self._pause(error, tried, waited)
            if pause is None:
                return error
            waited += pause
            await asyncio.sleep(pause)

    async def _exchange(self, commands: bytes, count: int) -> list[Any]:
        connection: Any = await self._pool.get_connection()  # type: ignore[no-untyped-call]
        replies: list[Any] = []
        try:
            await connection.send_packed_command([commands])
            while len(replies) < count:
                try:
                    replies.append(await connection.read_response())
                except ResponseError as error:
                    replies.append(error)
        finally:
            if len(replies) < count:  # what is still to come must not answer the next command
                await connection.disconnect(nowait=True)
            await self._pool.release(connection)
        return replies
