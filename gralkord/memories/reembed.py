"""Move memories to another embedder, group by group, while they are used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

import structlog

from gralkord.config import Price
from gralkord.errors import BackendUnavailable, InvalidInput, NotFound, TooMany
from gralkord.graph.connection import GraphConnection
from gralkord.graph.reembedding import Plan, Reembedding
from gralkord.groups import Group, parse_group
from gralkord.models.reembed import GroupMove, ReembedRequest
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.choice import fingerprint_of

log = structlog.get_logger(__name__)

CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Reembed:
    """Implements `gralkord.rpc.reembed.Reembed`.

    Attributes:
        embedder: Where groups are moved to.
        price: What it costs, if that is known.
    """

    graph: GraphConnection
    embedder: Embedder | None
    price: Price | None = None
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, tenant: str, request: ReembedRequest) -> AsyncGenerator[GroupMove]:
        """Yield what is done with each group, and how far it is while that takes long.

        Raises:
            NotFound: The operator has no memories.
            InvalidInput: There is no embedder to move to.
            TooMany: Another one is under way.
            BackendUnavailable: The graph does not answer in time.
            GralkorError: The embedder's failure.
        """
        if self.embedder is None:
            raise InvalidInput("no embedder is configured", hint="set models.embedder")
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
                reembedding = Reembedding(self.graph, group.id, self.embedder)
                try:
                    async for found in self._group(group, reembedding, dry_run=request.dry_run):
                        yield found
                except BackendUnavailable:
                    if group.id in await self.graph.groups():
                        raise
                    log.info("group_erased_under_way", group=group.id)

    async def _group(
        self, group: Group, reembedding: Reembedding, *, dry_run: bool
    ) -> AsyncGenerator[GroupMove]:
        before = (await reembedding.move()).space.embedder
        plan = await reembedding.plan()
        told = self._told(group, before, plan)
        yield told.model_copy(update={"done": dry_run})
        if dry_run:
            return
        async for embedded in reembedding.run():
            yield told.model_copy(update={"embedded": embedded})
        done = {"done": True, "embedded": reembedding.embedded}
        yield told.model_copy(update={**done, "embedder": fingerprint_of(self.embedder)})
        if plan.moves:
            log.info("group_moved", group=group.id, rows=reembedding.embedded, before=before)

    def _told(self, group: Group, before: str, plan: Plan) -> GroupMove:
        tokens = -(-plan.characters // CHARACTERS_PER_TOKEN)
        free = self.embedder is not None and self.embedder.inline
        usd = 0.0 if free else None
        if self.price is not None:
            usd = round(tokens * self.price.input / 1e6, 6)
        return GroupMove(
            operator=group.operator,
            lens=group.lens,
            done=False,
            moves=plan.moves,
            before=before,
            embedder=fingerprint_of(self.embedder),
            rows=plan.rows,
            tokens=tokens,
            usd=usd,
        )
