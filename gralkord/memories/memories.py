"""Single memories: shown, with their history; invalidated, reactivated, not superseded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from gralkord.clock import to_iso
from gralkord.errors import InvalidInput, NotFound
from gralkord.graph.rows import FactRow, PassageRow
from gralkord.memories.described import history_of, stored_memory
from gralkord.models.memories import ChangeResult

if TYPE_CHECKING:
    from gralkord.graph.connection import GraphConnection
    from gralkord.graph.invalidation import Invalidations, Kind
    from gralkord.memories.lookup import Held, Lookup, Row
    from gralkord.models.memories import (
        HistoryQuery,
        InvalidateRequest,
        MemoryHistory,
        MemoryQuery,
        MemorySelection,
        ReactivateRequest,
        StoredMemory,
        UndoRequest,
    )

log = structlog.get_logger(__name__)

Change = Callable[[str, "Kind", Sequence[str]], Awaitable[set[str]]]


@dataclass(frozen=True, slots=True)
class Memories:
    """Implements `gralkord.rpc.memories.Memories`."""

    graph: GraphConnection
    lookup: Lookup
    marks: Invalidations

    async def show(self, tenant: str, memory: str, query: MemoryQuery) -> StoredMemory:
        """Return all that is known of one memory.

        Raises:
            NotFound: The operator has none of this id.
        """
        held, row = await self._one(tenant, query.operator, memory)
        return stored_memory(held, row, self.lookup.view())

    async def history(self, tenant: str, memory: str, query: HistoryQuery) -> MemoryHistory:
        """Return where a memory comes from and what became of it.

        Raises:
            NotFound: The operator has none of this id.
        """
        held, row = await self._one(tenant, query.operator, memory)
        view = self.lookup.view()
        return await asyncio.to_thread(history_of, held, row, view, words=query.text)

    async def invalidate(self, tenant: str, request: InvalidateRequest) -> ChangeResult:
        """Say that memories do not hold any more."""
        at = to_iso(self.lookup.clock.now())
        until = None if request.valid_until is None else to_iso(request.valid_until)

        async def mark(group: str, kind: Kind, uuids: Sequence[str]) -> set[str]:
            return await self.marks.mark(
                group, kind, uuids, at=at, until=until, reason=request.reason
            )

        return await self._change(tenant, request, mark, "invalidated")

    async def reactivate(self, tenant: str, request: ReactivateRequest) -> ChangeResult:
        """Say that memories hold after all."""
        return await self._change(tenant, request, self.marks.clear, "reactivated")

    async def undo(self, tenant: str, request: UndoRequest) -> MemoryHistory:
        """Say that a fact was not superseded; return its history as it is then.

        Raises:
            NotFound: The operator has no fact or note of this id.
            InvalidInput: Nothing, or something else, has superseded it.
        """
        held, row = await self._one(tenant, request.operator, request.id)
        if not isinstance(row, FactRow):
            raise NotFound(f"{request.id!r} is a passage, not a fact", field="id")
        if row.superseded_by is None:
            raise InvalidInput(f"{request.id!r} is not superseded", field="id")
        if request.by not in {None, row.superseded_by}:
            raise InvalidInput(
                f"{request.by!r} is not what superseded it last",
                field="by",
                hint=f"that was {row.superseded_by}",
            )
        run = await self.graph.known_run()
        done = await self.marks.undo(held.group.id, row.uuid, row.superseded_by)
        if not done:  # it was erased meanwhile
            raise _missing(request.id)
        await self.graph.wait_durable(run)
        log.info("supersession_undone", group=held.group.id, fact=row.uuid, by=row.superseded_by)
        held, row = await self._one(tenant, request.operator, request.id)
        view = self.lookup.view()
        return await asyncio.to_thread(history_of, held, row, view, words=False)

    async def _one(self, tenant: str, operator: str, memory: str) -> tuple[Held, Row]:
        for held in await self.lookup.held(tenant, operator):
            for row in held.find([memory]):
                return held, row
        raise _missing(memory)

    async def _change(
        self, tenant: str, selection: MemorySelection, change: Change, what: str
    ) -> ChangeResult:
        run = await self.graph.known_run()
        left = dict.fromkeys(selection.ids, "not_found")
        counts = {"passage": 0, "fact": 0, "note": 0}
        for held in await self.lookup.held(tenant, selection.operator):
            rows: list[Row]
            if selection.source is None:
                rows = held.find(selection.ids)
            else:
                place = selection.source, selection.offset
                said = await asyncio.to_thread(held.of_source, *place)
                # What was replaced is gone already, and must not come back with its source.
                rows = [row for row in said if row.replaced_by is None]
                rows += await asyncio.to_thread(held.told_of_source, *place)
            notes = {row.uuid for row in rows if isinstance(row, FactRow) and row.note_kind}
            chosen: dict[Kind, list[str]] = {
                "passage": [row.uuid for row in rows if isinstance(row, PassageRow)],
                "fact": [row.uuid for row in rows if isinstance(row, FactRow)],
            }
            for kind, uuids in chosen.items():
                if uuids:
                    done = await change(held.group.id, kind, uuids)
                    for uuid in done:
                        counts["note" if uuid in notes else kind] += 1
                        left.pop(uuid, None)
        if any(counts.values()):
            await self.graph.wait_durable(run)
            log.info(
                "memories_changed",
                change=what,
                tenant=tenant,
                operator=selection.operator,
                **counts,
            )
        return ChangeResult(
            passages=counts["passage"], facts=counts["fact"], notes=counts["note"], left=left
        )


def _missing(memory: str) -> NotFound:
    return NotFound(f"the operator has no memory {memory!r}", field="id")
