"""Check what is in memory against the graph, read it anew, and make vectors anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

import structlog

from gralkord.errors import InvalidInput, NotFound, TooMany, Transient
from gralkord.graph.cache import CachePool, GroupCache
from gralkord.graph.comparison import Comparison, compare
from gralkord.graph.connection import GraphConnection
from gralkord.graph.reembedding import Reembedding
from gralkord.groups import Group, parse_group
from gralkord.models.reindex import GroupIndex, ReindexRequest, RowDifference
from gralkord.providers.base import Embedder

log = structlog.get_logger(__name__)

READ_MS: Final = 5_000
# An erasure under way changes a group while it is compared.
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Reindex:
    """Implements `gralkord.rpc.reindex.Reindex`."""

    graph: GraphConnection
    caches: CachePool
    embedder: Embedder | None
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, tenant: str, request: ReindexRequest) -> AsyncGenerator[GroupIndex]:
        """Yield what was found in each group, and how far it is while that takes long.

        Raises:
            NotFound: The operator has no memories.
            InvalidInput: There is no embedder to make vectors with.
            TooMany: Another one is under way.
            BackendUnavailable: The graph does not answer in time.
        """
        if request.embed and self.embedder is None:
            raise InvalidInput(
                "embed: no embedder is configured", field="embed", hint="set models.embedder"
            )
        groups = [
            group
            for group in map(parse_group, await self.graph.groups())
            if group.tenant == tenant and request.operator in {None, group.operator}
        ]
        if request.operator is not None and not groups:
            raise NotFound("this operator has no memories", field="operator")
        if self._one.locked():
            raise TooMany("another one is under way", limit=1, retry_after=5)
        async with self._one:
            for group in groups:
                async for found in self._group(group, request):
                    yield found

    async def _group(self, group: Group, request: ReindexRequest) -> AsyncGenerator[GroupIndex]:
        embedded = 0
        if request.embed:
            assert self.embedder is not None
            async for embedded in Reembedding(self.graph, group.id, self.embedder).run():
                yield _report(group, done=False, embedded=embedded)
        for attempt in range(1, TRIES + 1):
            try:
                if (found := await self._compared(group, request, embedded)) is not None:
                    yield found
            except Transient:
                if attempt == TRIES:
                    raise
            else:
                return

    async def _compared(
        self, group: Group, request: ReindexRequest, embedded: int
    ) -> GroupIndex | None:
        cache = await self.caches.fresh(group.id, timeout_ms=READ_MS)
        if cache is None:  # dropped meanwhile
            return None
        before = after = await compare(self.graph, cache)
        if not request.check:
            self.caches.forget(group.id)
            if (cache := await self.caches.fresh(group.id, timeout_ms=READ_MS)) is None:
                return None
            after = await compare(self.graph, cache)
        if before.different:
            log.warning("memory_differs_from_graph", group=group.id, rows=before.different)
        return _report(
            group,
            cache,
            (before, after),
            usable=self._usable(cache),
            embedded=embedded,
        )

    def _usable(self, cache: GroupCache) -> bool:
        if self.embedder is None:
            return not cache.embedder
        return cache.embedder in {"", self.embedder.fingerprint}


def _report(
    group: Group,
    cache: GroupCache | None = None,
    compared: tuple[Comparison, Comparison] | None = None,
    *,
    done: bool = True,
    usable: bool = True,
    embedded: int = 0,
) -> GroupIndex:
    before, after = compared or (Comparison(), Comparison())
    return GroupIndex(
        operator=group.operator,
        lens=group.lens,
        done=done,
        rows=after.rows,
        vectors=after.vectors,
        embedder=cache.embedder if cache else "",
        dimension=after.dimension,
        usable=usable,
        different=before.different,
        differences=[
            RowDifference.model_validate({"kind": kind, "id": uuid, "what": what})
            for kind, uuid, what in before.named
        ],
        left=after.different,
        embedded=embedded,
    )
