"""Check what is in memory against the graph, and read it anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

import structlog

from gralkord.errors import NotFound, TooMany, Transient
from gralkord.graph.cache import CachePool
from gralkord.graph.comparison import compare
from gralkord.graph.connection import GraphConnection
from gralkord.groups import Group, parse_group
from gralkord.models.reindex import GroupIndex, ReindexRequest, RowDifference
from gralkord.providers.embedders.choice import Embedders

log = structlog.get_logger(__name__)

READ_MS: Final = 5_000
# An erasure under way changes a group while it is compared.
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Reindex:
    """Implements `gralkord.rpc.reindex.Reindex`."""

    graph: GraphConnection
    caches: CachePool
    embedders: Embedders
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, tenant: str, request: ReindexRequest) -> AsyncGenerator[GroupIndex]:
        """Yield what was found in each group.

        Raises:
            NotFound: The operator has no memories.
            TooMany: Another one is under way.
            BackendUnavailable: The graph does not answer in time.
        """
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
                if (found := await self._group(group, check=request.check)) is not None:
                    yield found

    async def _group(self, group: Group, *, check: bool) -> GroupIndex | None:
        for _ in range(TRIES - 1):
            with contextlib.suppress(Transient):
                return await self._compared(group, check=check)
        return await self._compared(group, check=check)

    async def _compared(self, group: Group, *, check: bool) -> GroupIndex | None:
        cache = await self.caches.fresh(group.id, timeout_ms=READ_MS)
        if cache is None:  # dropped meanwhile
            return None
        before = after = await compare(self.graph, cache)
        if not check:
            self.caches.forget(group.id)
            if (cache := await self.caches.fresh(group.id, timeout_ms=READ_MS)) is None:
                return None
            after = await compare(self.graph, cache)
        if before.different:
            log.warning("memory_differs_from_graph", group=group.id, rows=before.different)
        return GroupIndex(
            operator=group.operator,
            lens=group.lens,
            rows=after.rows,
            vectors=after.vectors,
            embedder=cache.embedder,
            dimension=after.dimension,
            usable=not cache.embedder or self.embedders.fitting(cache.embedder) is not None,
            different=before.different,
            differences=[
                RowDifference.model_validate({"kind": kind, "id": uuid, "what": what})
                for kind, uuid, what in before.named
            ],
            left=after.different,
        )
