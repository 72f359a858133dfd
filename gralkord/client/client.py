"""The asynchronous client of a daemon."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

import httpx

from gralkord.client import calls
from gralkord.client.admin import AsyncAdmin
from gralkord.client.answers import failure_of
from gralkord.client.costs import AsyncCosting
from gralkord.client.discovery import Endpoint, find_endpoint
from gralkord.client.erasure import AsyncErasing
from gralkord.client.generalise import AsyncGeneralising
from gralkord.client.ingest import AsyncIngesting
from gralkord.client.lookup import AsyncLookup
from gralkord.client.memories import AsyncMemories
from gralkord.client.observe import AsyncObserving
from gralkord.client.records import AsyncRecords
from gralkord.client.reembed import AsyncReembed
from gralkord.client.reindex import AsyncReindex
from gralkord.client.search import AsyncSearch
from gralkord.client.traces import AsyncTraces
from gralkord.client.transfer import AsyncTransfer
from gralkord.client.transport import (
    DEFAULT_TIMEOUT,
    Retry,
    broken,
    connection,
    request_options,
)
from gralkord.client.triples import AsyncTriples
from gralkord.errors import GralkorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType

    from gralkord.client.calls import Call, Outcome, Turn
    from gralkord.models import Capture, CaptureReceipt, FlushResult, RecallResult, Until
    from gralkord.models.filters import Filters
    from gralkord.models.recall import InterpretMode, MemoryKind, Tier

Answer = TypeVar("Answer")


class AsyncClient(
    AsyncLookup,
    AsyncTransfer,
    AsyncReindex,
    AsyncReembed,
    AsyncAdmin,
    AsyncSearch,
    AsyncTraces,
    AsyncTriples,
    AsyncIngesting,
    AsyncGeneralising,
    AsyncMemories,
    AsyncRecords,
    AsyncObserving,
    AsyncErasing,
    AsyncCosting,
):
    """Talks to a daemon from asyncio.

    It finds the daemon of this machine by itself: see `gralkord.client.discovery.find_endpoint`.
    What fails for now is tried again; every turn has an id, so it is captured once all the same.

    Args:
        url: ``http://host:port``, or ``unix:/path/of/socket``.
        token: The daemon's token.
        data_dir: The daemon's data directory, instead of a URL and a token.
        timeout: Seconds to wait for an answer.
        retry: When a call is tried again.

    Raises:
        BackendUnavailable: No daemon was found.
        ConfigError: Several were found, or the URL is not one.
        Unauthorized: The token file cannot be read.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        data_dir: Path | str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        retry: Retry | None = None,
    ) -> None:
        self.endpoint: Endpoint = find_endpoint(url, token, data_dir)
        self._timeout = timeout
        self._retry = retry or Retry()
        options, socket = connection(self.endpoint)
        transport = (
            httpx.AsyncHTTPTransport(uds=socket, verify=options["verify"]) if socket else None
        )
        self._http = httpx.AsyncClient(transport=transport, **options)

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
        """Store one turn; once this returns it is not lost.

        Args:
            session: The session it belongs to; bound to operator and agent on first use.
            operator: Whose memory it becomes.
            agent: Name of the agent.
            user: Name of the one the agent talks to.
            turn: What was said: a text of the user's, or messages.
            lenses: Lenses besides ``default``.
            turn_id: Id of the turn; the same id is the same turn. Default: a new one.
            event_time: When it happened; UTC if without a zone. Default: now.
            source: What it was taken from.
            offset: Where in the source it stands. Other words that come to the same place replace
                these; the same words are one turn without a `turn_id`, too.
            metadata: What you say about it: up to 32 names, each with a text, a number, a truth
                value or a list of texts.

        Raises:
            GralkorError: It is not acceptable, or cannot be stored now.
        """
        return await self._send(
            calls.capture(
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
        )

    async def capture_many(
        self,
        captures: Iterable[Capture | Mapping[str, Any]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Outcome]:
        """Store turns in their order, many to a request; one that is refused stops no other.

        A failure for now (no answer, a full queue) is the outcome of each turn that it met and of
        all after them, which are not sent, so that the order holds when they are sent again.

        Args:
            captures: The turns.
            on_progress: Called with the number of turns handled so far.

        Returns:
            A receipt or an error for each turn.

        Raises:
            GralkorError: The daemon refuses the caller, not the turns.
        """
        steps = calls.capture_all(captures, on_progress)
        try:
            call = next(steps)
            while True:
                answer: list[Outcome] | GralkorError
                try:
                    answer = await self._send(call)
                except GralkorError as error:
                    answer = error
                call = steps.send(answer)
        except StopIteration as end:
            return cast("list[Outcome]", end.value)

    async def flush(
        self, session: str, *, operator: str | None = None, until: Until = "understood"
    ) -> FlushResult:
        """Hand a session's buffered turns over to be understood, without waiting for it.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(calls.flush(session, operator=operator, until=until))

    async def flush_and_await(
        self,
        session: str,
        timeout: float = 30.0,  # noqa: ASYNC109 - the daemon keeps it
        until: Until = "understood",
        *,
        operator: str | None = None,
    ) -> FlushResult:
        """Flush a session and answer when that is done, or when *timeout* seconds have passed.

        Without a model it is answered once indexed, with that reason.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        call = calls.flush(session, operator=operator, until=until, timeout=timeout)
        return await self._send(call)

    async def recall(
        self,
        operator: str,
        query: str,
        *,
        agent: str | None = None,
        session: str | None = None,
        lenses: Sequence[str] = (),
        lens: str | None = None,
        kinds: Sequence[MemoryKind] = (),
        max_results: int = 10,
        deadline_ms: int | None = None,
        on_deadline: Literal["partial", "error"] = "partial",
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        include_invalidated: bool = False,
        zone: str | None = None,
        filters: Filters | Mapping[str, Any] | None = None,
        tier: Tier | None = None,
        max_tokens: int | None = None,
        interpret: InterpretMode | None = None,
    ) -> RecallResult:
        """Return what *operator*'s memory holds that helps with *query*.

        Args:
            operator: Whose memory is asked.
            query: A question, or any text.
            agent: Name of the agent.
            session: The session that asks; its turns that are not flushed yet are no results.
            lenses: Lenses to search besides ``default``.
            lens: Search this lens alone.
            kinds: Only memories of these kinds. Default: as each lens is set, else all.
            max_results: Most memories to return, 1 to 200.
            deadline_ms: Wall-clock limit; default: as the daemon is set.
            on_deadline: What to do at the deadline: answer what is ready, or fail.
            as_of: What was valid then, by the times that memories tell. Default: now.
            known_at: Only what was known then, by the times at which it was written.
            include_invalidated: Also what does not hold any more, marked as `invalidated`.
            zone: Where the asker is, such as ``Europe/Berlin``: when "yesterday" begins and ends.
            filters: Only memories that fit: `metadata`, `speaker`, `source`, `session` and
                `event_time`, see `gralkord.models.filters.Filters`.
            tier: How much is shown, 1 to 3: ids, snippets or previews. Default: all.
            max_tokens: Tokens that the memory block and the texts take at most.
            interpret: Whether a model picks what helps, with a reason for each. Default: as the
                daemon is set.

        Raises:
            NoModel: It is to be interpreted, and there is no model.
            InterpretParseFailed: It was to be, and the model's answer is no use.
            DeadlineExpired: Nothing was ready, or *on_deadline* is ``error``.
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(
            calls.recall(
                operator,
                query,
                agent=agent,
                session=session,
                lenses=lenses,
                lens=lens,
                kinds=kinds,
                max_results=max_results,
                deadline_ms=deadline_ms,
                on_deadline=on_deadline,
                as_of=as_of,
                known_at=known_at,
                include_invalidated=include_invalidated,
                zone=zone,
                filters=filters,
                tier=tier,
                max_tokens=max_tokens,
                interpret=interpret,
            )
        )

    async def status(self) -> dict[str, Any]:
        """Return what runs where, and how much waits."""
        return await self._send(calls.status())

    async def backfill(self, operator: str | None = None) -> dict[str, Any]:
        """Queue the passages that were never understood, of *operator* or of all."""
        return await self._send(calls.backfill(operator))

    async def ready(self) -> dict[str, Any]:
        """Return ``ready``, whether captures can be stored, and ``parts``, the state of each."""
        return await self._send(calls.ready())

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _send(self, call: Call[Answer]) -> Answer:
        tried, waited = 0, 0.0
        while True:
            tried += 1
            try:
                answer = await self._http.request(**request_options(call, self._timeout))
            except httpx.RequestError as error:
                failure = broken(call, self.endpoint, error)
            else:
                found = failure_of(
                    answer.status_code, answer.headers, answer.content, read_also=call.read_also
                )
                if found is None:
                    return call.read(answer.content)
                failure = found
            pause = self._retry.pause(failure, tried=tried, waited=waited)
            if pause is None:
                raise failure.error
            waited += pause
            await asyncio.sleep(pause)
