"""Capture by writing to the intake stream itself: no daemon need run, and it is the fastest way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self, cast

import redis
import redis.retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from gralkord.client.calls import MAX_BATCH, capture_values
from gralkord.client.entries import refusal, steps
from gralkord.client.stream_base import Stream, ingest_receipt, only
from gralkord.errors import GralkorError
from gralkord.models import FlushResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from types import TracebackType

    from gralkord.client.calls import Outcome, Turn
    from gralkord.client.stream_base import Part
    from gralkord.models import Capture, CaptureReceipt
    from gralkord.models.ingest import IngestReceipt


class StreamProducer(Stream):
    """Writes turns to the intake stream of the queue.

    An answer means: the turn is stored, as durably as the queue is set up. What only the daemon
    knows comes out later: a turn through an unknown lens, or for a session of another operator, is
    stored and becomes a dead letter. Name your turns (`turn_id`): the id of one that is named here
    is not known to you when the answer is lost. May be used by several threads.

    Args:
        host: Host of the queue's server.
        port: Its port.
        socket: Unix socket of the queue's server, instead of a host.
        username: User of the server's ACL; default: for an embedded queue the one it has made for
            direct producers.
        password: Password, if the server asks for one.
        tls: Speak TLS; the server's certificate is checked.
        tls_ca: File of CA certificates to trust, instead of the system's.
        data_dir: Data directory of a `gralkord up` whose embedded queue is meant, instead of a host
            or socket; default: the one that runs.
        tenant: Whose stream it is.
        retry: When something is tried again.

    Raises:
        BackendUnavailable: No embedded queue was found.
        ConfigError: Several were found, or the address cannot be one.
    """

    def _open(self, options: dict[str, Any]) -> None:
        never = redis.retry.Retry(NoBackoff(), 0)
        self._pool = redis.Redis(**options, retry=never).connection_pool

    def capture(
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
        return only(self.capture_many([values]))

    def capture_many(
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
                part = sending.send(self._deliver(part))
        except StopIteration as end:
            return cast("list[Outcome]", end.value)

    def flush(self, session: str) -> FlushResult:
        """Hand a session's buffered turns over to be understood, without waiting for it.

        Raises:
            GralkorError: The session's name is not acceptable, or it is not possible now.
        """
        part = self._flush_part(session)
        error = self._deliver(part)
        if error is not None:
            raise error
        return FlushResult(flush=part.entry, state="queued", complete=False)

    def ingest(
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
        error = self._deliver(part)
        if error is not None:
            raise error
        return ingest_receipt(part, whole)

    def close(self) -> None:
        """Close the connections."""
        self._pool.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _deliver(self, part: Part) -> GralkorError | None:
        """Write *part*, again and again if need be; return the error it was given up with."""
        tried, waited = 0, 0.0
        while True:
            tried += 1
            try:
                error = part.take(self._exchange(part.packed(), part.replies))
            except RedisError as failure:
                error = refusal(failure)
            if error is None:
                return None
            pause = self._pause(error, tried, waited)
            if pause is None:
                return error
            waited += pause
            time.sleep(pause)

    def _exchange(self, commands: bytes, count: int) -> list[Any]:
        connection: Any = self._pool.get_connection()
        replies: list[Any] = []
        try:
            connection.send_packed_command([commands])
            while len(replies) < count:
                try:
                    replies.append(connection.read_response())
                except ResponseError as error:
                    replies.append(error)
        finally:
            if len(replies) < count:  # what is still to come must not answer the next command
                connection.disconnect()
            self._pool.release(connection)
        return replies
