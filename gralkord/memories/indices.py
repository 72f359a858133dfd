"""The indices of all groups: what is missing is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import structlog

from gralkord.errors import BackendUnavailable, TooMany
from gralkord.graph import schema
from gralkord.graph.connection import GraphConnection
from gralkord.groups import parse_group
from gralkord.models.admin import GroupIndices

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Indices:
    """Implements `gralkord.rpc.admin.Indices`."""

    graph: GraphConnection
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def build(self, tenant: str) -> AsyncGenerator[GroupIndices]:
        """Yield each group once all its indices are there and usable.

        Raises:
            TooMany: Another one is under way.
            BackendUnavailable: The graph does not answer.
        """
        if self._one.locked():
            raise TooMany("another one is under way", limit=1, retry_after=5)
        async with self._one:
            for group in map(parse_group, await self.graph.groups()):
                if group.tenant != tenant:
                    continue
                try:
                    indices, created = await schema.complete_indices(self.graph, group.id)
                    await schema.operational(self.graph, group.id)
                except BackendUnavailable:
                    if group.id in await self.graph.groups():
                        raise
                    log.info("group_erased_under_way", group=group.id)
                    continue
                if created:
                    log.info("indices_built", group=group.id, created=created)
                yield GroupIndices(
                    operator=group.operator, lens=group.lens, indices=indices, created=created
                )
