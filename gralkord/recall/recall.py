"""Recall: what a group's memory holds that helps with a question, within a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import structlog

from gralkord.clock import Clock
from gralkord.config import RecallSettings
from gralkord.errors import BackendUnavailable, DeadlineExpired, GralkorError
from gralkord.graph.cache import CachePool, GroupCache
from gralkord.graph.validity import View, view_at
from gralkord.groups import Group
from gralkord.models import Memory, RecallRequest, RecallResult
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.choice import Embedders
from gralkord.recall.arms import Numbers
from gralkord.recall.block import memory_block
from gralkord.recall.deadline import Deadline
from gralkord.recall.query import Query, QueryReader
from gralkord.recall.search import Searched, search

log = structlog.get_logger(__name__)

GRAPH: Final = "graph"
VECTOR: Final = "vector"
SEARCH: Final = "search"

# Shares of the time that are kept for what comes after reading the graph and after embedding.
AFTER_GRAPH: Final = 0.3
AFTER_VECTOR: Final = 0.15
# Share of the time that the question's vector may take: what words find is not to wait for more.
VECTOR_SHARE: Final = 0.4
_FOREIGN: Final = (
    "memories hold no vectors of an embedder that is configured; they are found by words alone "
    "(see `gralkord reembed`)"
)
_NO_VECTORS: Final = "memories have no vectors yet; they are found by words alone"
# A date of the year before can be told from here on.
EARLIEST: Final = datetime(2, 1, 1, tzinfo=UTC)
# Between two looks at a graph that is still starting, in seconds.
PAUSE: Final = 0.1


@dataclass(slots=True)
class _Shortfalls:
    """What the answer is without.

    Attributes:
        degraded: The arms that are missing or old.
        notes: Why, for a reader.
        failed: Whether something that should have been there is missing for now.
        late: Whether something was not done in time.
    """

    degraded: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    failed: bool = False
    late: bool = False

    def add(self, arm: str, note: str, *, late: bool = False, failed: bool = True) -> None:
        """Say that *arm* is missing or old."""
        self.degraded.add(arm)
        self.failed |= failed
        self.late |= late
        if note not in self.notes:
            self.notes.append(note)


class Recaller:
    """Answers recalls from the group caches.

    Args:
        caches: The groups in memory.
        embedders: Make the vectors of questions; None goes by words alone.
        settings: The default deadline.
        clock: What tells the time.
        expects_vectors: An embedder is configured, so that without one answers are degraded.
    """

    def __init__(
        self,
        caches: CachePool,
        embedders: Embedders | Embedder | None,
        settings: RecallSettings,
        clock: Clock,
        *,
        expects_vectors: bool = False,
    ) -> None:
        self._caches = caches
        self._embedders = Embedders.of(embedders)
        self._settings = settings
        self._clock = clock
        self._expects_vectors = expects_vectors
        self._reader = QueryReader()

    async def recall(
        self, tenant: str, request: RecallRequest, lenses: Sequence[Group]
    ) -> RecallResult:
        """Return what helps with a question, best first.

        Args:
            tenant: Whose memory; the groups are this tenant's.
            request: The question.
            lenses: The groups to search, in the order that decides between equals.

        Raises:
            DeadlineExpired: Something was late, and the request asks for all or nothing.
        """
        deadline = Deadline.after(self._clock, request.deadline_ms or self._settings.deadline_ms)
        short = _Shortfalls()
        now = self._clock.now()
        # "Last week" is relative to the moment that is asked about.
        asked_from = request.as_of or request.known_at or now
        query = self._reader.read(request.query, max(asked_from, EARLIEST))
        view = view_at(
            now,
            request.as_of,
            request.known_at,
            include_invalidated=request.include_invalidated,
        )
        caches = await asyncio.gather(*(self._cache(group, deadline, short) for group in lenses))
        pairs = zip(lenses, caches, strict=True)
        known = {group: cache for group, cache in pairs if cache is not None}
        vectors = await self._vectors(query, known, deadline, short)
        groups = [
            Searched(group, cache, vector)
            for (group, cache), vector in zip(known.items(), vectors, strict=True)
        ]
        memories = await self._search(query, groups, request.max_results, view, deadline, short)
        if short.late and request.on_deadline == "error":
            raise DeadlineExpired(hint="allow more time, or take what is ready with `partial`")
        took_ms = round(deadline.spent * 1000, 3)
        log.debug(
            "recalled",
            tenant=tenant,
            groups=len(known),
            results=len(memories),
            degraded=sorted(short.degraded),
            took_ms=took_ms,
        )
        return RecallResult(
            results=memories,
            memory_block=memory_block(memories),
            partial=short.failed,
            degraded=sorted(short.degraded),
            notes=short.notes,
            took_ms=took_ms,
        )

    async def _cache(
        self, group: Group, deadline: Deadline, short: _Shortfalls
    ) -> GroupCache | None:
        """Return the group as it is now, or as far as it is known.

        While nothing is known of it there is nothing to answer instead: the graph, which may just
        be loading, is waited for.
        """
        try:
            async with asyncio.timeout(deadline.left(AFTER_GRAPH)):
                while True:
                    try:
                        return await self._caches.fresh(group.id)
                    except BackendUnavailable:
                        known = self._caches.known(group.id)
                        if known is not None and not known.empty:
                            raise
                    await asyncio.sleep(PAUSE)
        except TimeoutError:
            short.add(GRAPH, "the graph was not read to its end in time", late=True)
        except GralkorError as error:
            log.warning("recall_without_graph", group=group.id, reason=error.message)
            short.add(GRAPH, "the graph does not answer; newer memories may be missing")
        return self._caches.known(group.id)

    async def _vectors(
        self,
        query: Query,
        known: Mapping[Group, GroupCache],
        deadline: Deadline,
        short: _Shortfalls,
    ) -> list[Numbers | None]:
        """Return the question's vector for each group, None where it would be of no use.

        Each group is asked with the embedder of its own vectors.
        """
        if self._embedders.present is None and self._expects_vectors:
            short.add(VECTOR, "there is no embedder; found by words alone", failed=False)
        fitting = [self._fitting(cache, short) for cache in known.values()]
        asked = {id(each): each for each in fitting if each is not None}
        if not asked:
            return [None] * len(known)
        names = {name for cache in known.values() for name in cache.passages.named(query.words)}
        text = self._reader.without(query, names)
        payer = next(iter(known))
        made = await asyncio.gather(
            *(self._vector(each, text, payer, deadline, short) for each in asked.values())
        )
        vectors = dict(zip(asked, made, strict=True))
        pairs = zip(known.values(), fitting, strict=True)
        return [self._usable(each, cache, vectors, short) for cache, each in pairs]

    def _usable(
        self,
        embedder: Embedder | None,
        cache: GroupCache,
        vectors: Mapping[int, Numbers | None],
        short: _Shortfalls,
    ) -> Numbers | None:
        """Return the question's vector for a group, if it is of the length of the group's own."""
        if embedder is None or (vector := vectors[id(embedder)]) is None:
            return None
        if not embedder.fits(cache.embedder):
            short.add(VECTOR, _FOREIGN, failed=False)
            return None
        return vector

    def _fitting(self, cache: GroupCache, short: _Shortfalls) -> Embedder | None:
        """Return the embedder of a group's vectors."""
        if self._embedders.present is None:
            return None
        found = self._embedders.fitting(cache.embedder) if cache.embedder else None
        if found is None and not cache.empty:
            short.add(VECTOR, _FOREIGN if cache.embedder else _NO_VECTORS, failed=False)
        return found

    async def _vector(
        self,
        embedder: Embedder,
        text: str,
        payer: Group,
        deadline: Deadline,
        short: _Shortfalls,
    ) -> Numbers | None:
        try:
            slice_seconds = min(deadline.left(AFTER_VECTOR), deadline.seconds * VECTOR_SHARE)
            async with asyncio.timeout(slice_seconds):
                (vector,) = await embedder.embed([text], query=True, group=payer, stage="recall")
        except TimeoutError:
            short.add(VECTOR, "the embedder was late; found by words alone", late=True)
            return None
        except GralkorError as error:
            log.warning("recall_without_vector", reason=error.message)
            short.add(VECTOR, "the embedder does not answer; found by words alone")
            return None
        return vector if vector.any() else None

    async def _search(
        self,
        query: Query,
        groups: Sequence[Searched],
        limit: int,
        view: View,
        deadline: Deadline,
        short: _Shortfalls,
    ) -> list[Memory]:
        try:
            async with asyncio.timeout(deadline.left()):
                return await asyncio.to_thread(search, query, groups, limit, view)
        except TimeoutError:
            short.add(SEARCH, "the memories were not searched in time", late=True)
            return []
