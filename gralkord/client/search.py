"""Search through lenses, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from gralkord.client.calls import GRACE_SECONDS, Call, names_of, reader
from gralkord.models.search import SearchRequest, SearchResult
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from gralkord.models.filters import Filters
    from gralkord.models.recall import MemoryKind, Tier

Answer = TypeVar("Answer")


def search(operator: str, query: str, **options: Any) -> Call[SearchResult]:
    """Return the call that searches; *options* are the other fields of `SearchRequest`.

    Raises:
        InvalidInput: A field is not acceptable.
    """
    raw = {name: value for name, value in options.items() if value is not None}
    raw |= {"operator": operator, "query": query}
    raw |= {name: names_of(raw.get(name, ())) for name in ("lenses", "kinds")}
    request = read_model(SearchRequest, raw)
    seconds = None if request.deadline_ms is None else request.deadline_ms / 1000 + GRACE_SECONDS
    body = request.model_dump_json(exclude_none=True).encode()
    return Call("POST", "/v1/search", reader(SearchResult), body, timeout=seconds)


class AsyncSearch:
    """The part of the asynchronous client that searches through lenses."""

    async def search(
        self,
        operator: str,
        query: str,
        lenses: Sequence[str] = (),
        *,
        agent: str | None = None,
        kinds: Sequence[MemoryKind] = (),
        max_results: int | None = None,
        deadline_ms: int | None = None,
        on_deadline: Literal["partial", "error"] = "partial",
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        include_invalidated: bool = False,
        zone: str | None = None,
        filters: Filters | Mapping[str, Any] | None = None,
        tier: Tier | None = None,
        max_tokens: int | None = None,
    ) -> SearchResult:
        """Return what each lens knows that helps with *query*, lens by lens.

        ``default`` comes first, then the agent's own lens, then the named ones; each once. What
        global lenses share is one memory, and its results name the lens that they came through.

        Args:
            operator: Whose memory is asked.
            query: A question, or any text.
            lenses: Lenses to search besides ``default``; ``global`` is what global lenses share.
            agent: Name of the agent, which may have lenses of its own.
            kinds: Only memories of these kinds. Default: as each lens is set, else all.
            max_results: Most results of each lens, 1 to 200. Default: as the lens is set, else 10.
            deadline_ms: Wall-clock limit; default: as the daemon is set.
            on_deadline: What to do at the deadline: answer what is ready, or fail.
            as_of: What was valid then, by the times that memories tell. Default: now.
            known_at: Only what was known then, by the times at which it was written.
            include_invalidated: Also what does not hold any more, marked as `invalidated`.
            zone: Where the asker is, such as ``Europe/Berlin``: when "yesterday" begins and ends.
            filters: Only memories that fit: `metadata`, `speaker`, `source`, `session` and
                `event_time`, see `gralkord.models.filters.Filters`.
            tier: How much is shown, 1 to 3: ids, snippets or previews. Default: all.
            max_tokens: Tokens that the memory block and the texts of the results take at most.

        Raises:
            DeadlineExpired: Something was late, and *on_deadline* is ``error``.
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(
            search(
                operator,
                query,
                lenses=lenses,
                agent=agent,
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
            )
        )

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Search:
    """The part of the synchronous client that searches through lenses."""

    def search(
        self,
        operator: str,
        query: str,
        lenses: Sequence[str] = (),
        *,
        agent: str | None = None,
        kinds: Sequence[MemoryKind] = (),
        max_results: int | None = None,
        deadline_ms: int | None = None,
        on_deadline: Literal["partial", "error"] = "partial",
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        include_invalidated: bool = False,
        zone: str | None = None,
        filters: Filters | Mapping[str, Any] | None = None,
        tier: Tier | None = None,
        max_tokens: int | None = None,
    ) -> SearchResult:
        """Return what each lens knows that helps with *query*, lens by lens.

        ``default`` comes first, then the agent's own lens, then the named ones; each once. What
        global lenses share is one memory, and its results name the lens that they came through.

        Args:
            operator: Whose memory is asked.
            query: A question, or any text.
            lenses: Lenses to search besides ``default``; ``global`` is what global lenses share.
            agent: Name of the agent, which may have lenses of its own.
            kinds: Only memories of these kinds. Default: as each lens is set, else all.
            max_results: Most results of each lens, 1 to 200. Default: as the lens is set, else 10.
            deadline_ms: Wall-clock limit; default: as the daemon is set.
            on_deadline: What to do at the deadline: answer what is ready, or fail.
            as_of: What was valid then, by the times that memories tell. Default: now.
            known_at: Only what was known then, by the times at which it was written.
            include_invalidated: Also what does not hold any more, marked as `invalidated`.
            zone: Where the asker is, such as ``Europe/Berlin``: when "yesterday" begins and ends.
            filters: Only memories that fit: `metadata`, `speaker`, `source`, `session` and
                `event_time`, see `gralkord.models.filters.Filters`.
            tier: How much is shown, 1 to 3: ids, snippets or previews. Default: all.
            max_tokens: Tokens that the memory block and the texts of the results take at most.

        Raises:
            DeadlineExpired: Something was late, and *on_deadline* is ``error``.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            search(
                operator,
                query,
                lenses=lenses,
                agent=agent,
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
            )
        )

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
