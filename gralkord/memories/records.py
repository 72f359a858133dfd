"""Memories that are told outright: added and changed through the lane, listed from the cache."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gralkord.clock import Clock, to_iso
from gralkord.errors import InvalidInput, NotFound
from gralkord.graph.memory_notes import KIND, metadata_of
from gralkord.lenses.registry import GLOBAL
from gralkord.memories.observe import own_group
from gralkord.models.records import MemoryPage, MemoryRecord, MemoryResult
from gralkord.wire import check_past

if TYPE_CHECKING:
    from gralkord.graph.rows import FactRow
    from gralkord.graph.validity import View
    from gralkord.groups import Group
    from gralkord.mailbox.requests import Requests
    from gralkord.memories.lookup import Held, Lookup
    from gralkord.models.records import AddMemoryRequest, MemoriesQuery, UpdateMemoryRequest

REQUEST_KIND: Final = "memories"
_KINDS: Final = frozenset({"semantic", "episodic", "preference", "instruction"})


@dataclass(frozen=True, slots=True)
class Records:
    """Implements `gralkord.rpc.records.Records`."""

    requests: Requests
    lookup: Lookup
    clock: Clock

    async def add(self, tenant: str, request: AddMemoryRequest) -> MemoryResult:
        """Remember something as it is told; the same id is added once.

        Raises:
            UnknownLens: No lens has that name.
            InvalidInput: The lens is shared by all operators, or the time is not acceptable.
            NotFound: What was added under this id is erased.
            QueueFull: Nothing new is taken for now.
            BackendUnavailable: The queue does not answer.
        """
        group = own_group(self.lookup.lenses, tenant, request.operator, request.lens)
        now = self.clock.now()
        check_past(request.event_time, now)
        body = {
            **request.model_dump(include={"operator", "lens", "content", "source", "offset"}),
            **request.model_dump(include={"importance", "tags", "metadata"}),
            "action": "add",
            "memory_kind": request.kind,
            "when": to_iso(request.event_time or now),
        }
        key = f"add:{request.id or uuid.uuid4().hex}"
        return await self._ask(tenant, group, body, key, request.timeout_ms)

    async def update(self, tenant: str, memory: str, request: UpdateMemoryRequest) -> MemoryResult:
        """Change a memory; other words make a new one that takes its place.

        Raises:
            NotFound: The operator has no memory of this id.
            InvalidInput: It does not hold any more, or the time is not acceptable.
            QueueFull: Nothing new is taken for now.
            BackendUnavailable: The queue or the graph does not answer.
        """
        now = self.clock.now()
        check_past(request.event_time, now)
        held = await self._holder(tenant, request.operator, memory)
        given = request.model_dump(
            include={"content", "importance", "tags", "metadata"}, exclude_none=True
        )
        body = {
            **given,
            **({"memory_kind": request.kind} if request.kind else {}),
            "operator": request.operator,
            "lens": held.lens,
            "action": "update",
            "memory": memory,
            "now": to_iso(now),
            "when": to_iso(request.event_time or now),
        }
        key = f"update:{memory}:{request.id or uuid.uuid4().hex}"
        return await self._ask(tenant, held.group, body, key, request.timeout_ms)

    async def page(self, tenant: str, query: MemoriesQuery) -> MemoryPage:
        """Return memories of an operator, oldest first.

        Raises:
            UnknownLens: No lens has that name.
            BackendUnavailable: The graph does not answer.
        """
        if query.lens not in {None, GLOBAL}:
            self.lookup.lenses.lens(query.lens or "")
        view = self.lookup.view()
        found = await self.lookup.held(tenant, query.operator)
        return await asyncio.to_thread(page_of, found, query, view)

    async def _ask(
        self, tenant: str, group: Group, body: Mapping[str, Any], key: str, timeout_ms: int
    ) -> MemoryResult:
        body = {**body, "key": key}
        seconds = timeout_ms / 1000
        done = await self.requests.ask(tenant, group.id, REQUEST_KIND, body, seconds, key=key)
        return MemoryResult.model_validate(
            {"id": done.id, "complete": done.complete, **(done.answer or {})}
        )

    async def _holder(self, tenant: str, operator: str, memory: str) -> Held:
        for held in await self.lookup.held(tenant, operator):
            for row in held.cache.facts.by_uuid([memory]):
                if row.note_kind != KIND:
                    continue
                if held.group.scope == GLOBAL:
                    raise InvalidInput(f"memory {memory!r} is shared by all operators", field="id")
                return held
        raise NotFound(f"the operator has no memory {memory!r}", field="id")


def page_of(helds: Iterable[Held], query: MemoriesQuery, view: View) -> MemoryPage:
    """Return the memories of some groups that a query asks for."""
    found = sorted(
        (
            (_place(row), held, row)
            for held in helds
            if query.lens in {None, held.lens}
            for row in held.cache.facts.rows()
            if row.note_kind == KIND and _fits(row, query)
        ),
        key=lambda one: one[0],
    )
    records: list[MemoryRecord] = []
    last = None
    for place, held, row in found:
        if query.after is not None and place <= query.after:
            continue
        ending = held.cache.ending(row, view)
        if ending.hides(view) and not query.include_invalidated:
            continue
        if len(records) == query.limit:
            return MemoryPage(memories=records, next=last)
        records.append(record_of(held, row, view))
        last = place
    return MemoryPage(memories=records)


def record_of(held: Held, row: FactRow, view: View) -> MemoryRecord:
    """Return a memory as a reader sees it."""
    ending, has = held.cache.ending(row, view), row.attributes
    kind, importance = has.get("memory_kind"), has.get("importance")
    return MemoryRecord(
        id=row.uuid,
        content=row.fact,
        kind=kind if kind in _KINDS else "semantic",
        importance=1.0 if importance is None else float(importance),
        tags=list(has.get("tags") or ()),
        metadata=metadata_of(row),
        lens=held.lens,
        confidence=row.confidence,
        source=row.source,
        offset=row.offset,
        event_time=row.valid_at,
        created_at=row.created_at,
        last_accessed=has.get("last_accessed"),
        invalid_at=ending.at,
        invalidated=ending.hides(view),
        reason=ending.reason,
        superseded_by=row.superseded_by,
    )


def _fits(row: FactRow, query: MemoriesQuery) -> bool:
    has = row.attributes
    return (
        (query.kind is None or (has.get("memory_kind") or "semantic") == query.kind)
        and (query.tag is None or query.tag in (has.get("tags") or ()))
        and (query.source is None or row.source == query.source)
    )


def _place(row: FactRow) -> str:
    """Return where a memory stands in the list."""
    return f"{row.created_at or ''}/{row.uuid}"
