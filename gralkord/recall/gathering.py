"""What a search needs before it begins: the groups as they are now, and the question's vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from gralkord.errors import BackendUnavailable, GralkorError
from gralkord.graph.cache import CachePool, GroupCache
from gralkord.groups import Group
from gralkord.lenses.registry import Reached
from gralkord.models.recall import MemoryKind
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.choice import Embedders
from gralkord.recall.arms import Numbers
from gralkord.recall.deadline import Deadline
from gralkord.recall.finding import Searched
from gralkord.recall.query import Query, QueryReader

log = structlog.get_logger(__name__)

GRAPH: Final = "graph"
VECTOR: Final = "vector"

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
# Between two looks at a graph that is still starting, in seconds.
PAUSE: Final = 0.1


@dataclass(slots=True)
class Shortfalls:
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


class Gatherer:
    """Gets groups ready to be searched, and says what they are without.

    Args:
        caches: The groups in memory.
        embedders: Make the vectors of questions; None goes by words alone.
        reader: Reads questions.
        expects_vectors: An embedder is configured, so that without one answers are degraded.
    """

    def __init__(
        self,
        caches: CachePool,
        embedders: Embedders | Embedder | None,
        reader: QueryReader,
        *,
        expects_vectors: bool = False,
    ) -> None:
        self._caches = caches
        self._embedders = Embedders.of(embedders)
        self._reader = reader
        self._expects_vectors = expects_vectors

    async def gather(
        self,
        query: Query,
        reached: Sequence[Reached],
        kinds: Sequence[MemoryKind],
        deadline: Deadline,
        short: Shortfalls,
        *,
        lean: bool = False,
    ) -> list[Searched]:
        """Return the groups that can be searched, in their order.

        Args:
            query: The question.
            reached: The groups, and how each is searched.
            kinds: What is looked for; of none, what each group's own setting says.
            deadline: When the answer is due.
            short: What the answer is without; it is added to.
            lean: Whether embedders that may be late are not asked.
        """
        caches = await asyncio.gather(
            *(self._cache(each.group, deadline, short) for each in reached)
        )
        pairs = zip(reached, caches, strict=True)
        known = [(each, cache) for each, cache in pairs if cache is not None]
        by_group = {each.group: cache for each, cache in known}
        vectors = await self._vectors(query, by_group, deadline, short, lean=lean)
        return [
            Searched(
                each.group,
                cache,
                vector,
                kinds=kinds or each.search.kinds,
                limit=each.search.max_results,
            )
            for (each, cache), vector in zip(known, vectors, strict=True)
        ]

    async def _cache(
        self, group: Group, deadline: Deadline, short: Shortfalls
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
        short: Shortfalls,
        *,
        lean: bool,
    ) -> list[Numbers | None]:
        """Return the question's vector for each group, None where it would be of no use.

        Each group is asked with the embedder of its own vectors.
        """
        if self._embedders.present is None and self._expects_vectors:
            short.add(VECTOR, "there is no embedder; found by words alone", failed=False)
        fitting = [self._fitting(cache, short) for cache in known.values()]
        if lean and any(each is not None and not each.inline for each in fitting):
            short.add(VECTOR, "too many recalls at once; found by words alone")
            fitting = [each if each is not None and each.inline else None for each in fitting]
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
        short: Shortfalls,
    ) -> Numbers | None:
        """Return the question's vector for a group, if it is of the length of the group's own."""
        if embedder is None or (vector := vectors[id(embedder)]) is None:
            return None
        if not embedder.fits(cache.embedder):
            short.add(VECTOR, _FOREIGN, failed=False)
            return None
        return vector

    def _fitting(self, cache: GroupCache, short: Shortfalls) -> Embedder | None:
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
        short: Shortfalls,
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
