"""Triples: added through the understand lane, found in the group's cache."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from gralkord.clock import Clock
from gralkord.graph.cache import CachePool
from gralkord.graph.triple_search import find_triples
from gralkord.graph.validity import view_at
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.requests import Requests
from gralkord.models.triples import TriplePage, TripleQuery, TriplesRequest, TriplesResult

KIND: Final = "triples"
READ_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class TripleService:
    """Adds and finds triples, for the daemon."""

    requests: Requests
    caches: CachePool
    lenses: LensRegistry
    clock: Clock

    async def add(self, tenant: str, request: TriplesRequest) -> TriplesResult:
        """Add triples to what is known of an operator: all of them, or none.

        Raises:
            UnknownLens: No lens has that name.
            QueueFull: Nothing new is taken for now.
            GralkorError: A triple is not acceptable, or the queue does not answer.
        """
        group = self._group(tenant, request.operator, request.lens)
        triples = [triple.model_dump(mode="json", exclude_none=True) for triple in request.triples]
        seconds = request.timeout_ms / 1000
        result = await self.requests.ask(tenant, group, KIND, {"triples": triples}, seconds)
        return TriplesResult.model_validate(
            {"id": result.id, "complete": result.complete, **(result.answer or {})}
        )

    async def find(self, tenant: str, query: TripleQuery) -> TriplePage:
        """Return the facts that fit; none where nothing is known of the operator.

        Raises:
            UnknownLens: No lens has that name.
            BackendUnavailable: The graph does not answer.
            InvalidInput: The predicate or the place is not acceptable.
        """
        group = self._group(tenant, query.operator, query.lens)
        view = view_at(
            self.clock.now(),
            query.as_of,
            query.known_at,
            include_invalidated=query.include_invalidated,
        )
        cache = await self.caches.fresh(group, timeout_ms=READ_MS)
        if cache is None:
            return TriplePage(triples=[])
        return await asyncio.to_thread(find_triples, cache, query, view)

    def _group(self, tenant: str, operator: str, lens: str) -> str:
        return self.lenses.memory(tenant, operator, lens).id
