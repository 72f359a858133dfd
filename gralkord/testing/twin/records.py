"""Memories of the twin that are told outright: added, changed and listed."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from gralkord.clock import to_iso
from gralkord.errors import InvalidInput, NotFound
from gralkord.graph.memory_notes import KIND, attributes_of, memory_uuid, metadata_of
from gralkord.graph.rows import FactRow
from gralkord.lenses.registry import GLOBAL
from gralkord.memories.observe import no_model, own_group
from gralkord.memories.records import page_of
from gralkord.models.records import MemoryPage, MemoryResult
from gralkord.models.results import Result
from gralkord.wire import check_past

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gralkord.memories.lookup import Held
    from gralkord.models.observe import ObserveRequest, ObserveResult
    from gralkord.models.records import AddMemoryRequest, MemoriesQuery, UpdateMemoryRequest
    from gralkord.testing.twin.shelf import Shelf
    from gralkord.testing.twin.shelves import Shelves


@dataclass(frozen=True, slots=True)
class TwinRecords:
    """The memories of one tenant that are told outright."""

    shelves: Shelves
    tenant: str

    def observe(self, request: ObserveRequest) -> ObserveResult:
        """Refuse: the twin asks no model.

        Raises:
            NoModel: Always.
        """
        del request
        raise no_model()

    def add(self, request: AddMemoryRequest) -> MemoryResult:
        """Remember something as it is told; the same id is added once.

        Raises:
            UnknownLens: No lens has that name.
            InvalidInput: The lens is shared by all operators, or the time is not acceptable.
        """
        group = own_group(self.shelves.lenses, self.tenant, request.operator, request.lens)
        check_past(request.event_time, self.shelves.now())
        shelf = self.shelves.shelf(group)
        own = memory_uuid(shelf.group, f"add:{request.id or uuid.uuid4().hex}")
        created = own not in shelf.facts
        if created:
            when = to_iso(request.event_time or self.shelves.now())
            has = attributes_of(request.kind, request.importance, request.tags, request.metadata)
            row = self._row(shelf, own, request.content.strip(), when, has)
            shelf.put(replace(row, source=request.source, offset=request.offset))
        return self._done(own, created=created)

    def update(self, memory: str, request: UpdateMemoryRequest) -> MemoryResult:
        """Change a memory; other words make a new one that takes its place.

        Raises:
            NotFound: The operator has no memory of this id.
            InvalidInput: It does not hold any more, or is shared by all operators.
        """
        check_past(request.event_time, self.shelves.now())
        shelf, row = self._one(request.operator, memory)
        own = memory_uuid(shelf.group, f"update:{memory}:{request.id or uuid.uuid4().hex}")
        if own in shelf.facts:
            return self._done(own, replaced=memory)
        view = self.shelves.view()
        if shelf.ending(row, view).hides(view):
            raise InvalidInput(f"memory {memory!r} does not hold any more", field="id")
        has = _merged(row, request)
        content = (request.content or row.fact).strip()
        if content == row.fact:
            shelf.put(replace(row, attributes=has))
            return self._done(memory)
        when = to_iso(request.event_time or self.shelves.now())
        new = self._row(shelf, own, content, when, has)
        shelf.put(replace(new, source=row.source, offset=row.offset))
        shelf.put(
            replace(
                row,
                invalid_at=when,
                expired_at=new.created_at,
                superseded_by=own,
                superseded_reason="updated",
                superseded_at=new.created_at,
                superseded_invalid_at=row.invalid_at,
            )
        )
        return self._done(own, replaced=memory, created=True)

    def page(self, query: MemoriesQuery) -> MemoryPage:
        """Return memories of an operator, oldest first.

        Raises:
            UnknownLens: No lens has that name.
        """
        if query.lens not in {None, GLOBAL}:
            self.shelves.lenses.lens(query.lens or "")
        shelves = self.shelves.of_operator(self.tenant, query.operator)
        return page_of(cast("list[Held]", shelves), query, self.shelves.view())

    def _one(self, operator: str, memory: str) -> tuple[Shelf, FactRow]:
        for shelf in self.shelves.of_operator(self.tenant, operator):
            for row in shelf.facts.by_uuid([memory]):
                if row.note_kind == KIND:
                    return shelf, row
        raise NotFound(f"the operator has no memory {memory!r}", field="id")

    def _row(
        self, shelf: Shelf, own: str, content: str, when: str, has: Mapping[str, Any]
    ) -> FactRow:
        return FactRow(
            uuid=own,
            name="MEMORY",
            fact=content,
            source_uuid=own,
            target_uuid=own,
            group_id=shelf.group,
            created_at=self.shelves.now_iso(),
            valid_at=when,
            invalid_at=None,
            expired_at=None,
            reference_time=when,
            episodes=(),
            attributes={name: value for name, value in has.items() if value is not None},
            seq=0,
            note_kind=KIND,
        )

    def _done(
        self, memory: str, *, replaced: str | None = None, created: bool = False
    ) -> MemoryResult:
        request = self.shelves.new_id()
        answer = {"memory": memory, "replaced": replaced, "created": created}
        result = Result(id=request, complete=True, answer=answer)
        self.shelves.tenant(self.tenant).results[request] = result
        return MemoryResult(
            id=request, complete=True, memory=memory, replaced=replaced, created=created
        )


def _merged(row: FactRow, request: UpdateMemoryRequest) -> dict[str, Any]:
    has = row.attributes
    found = attributes_of(
        request.kind or has["memory_kind"],
        has["importance"] if request.importance is None else request.importance,
        has.get("tags", ()) if request.tags is None else request.tags,
        metadata_of(row) if request.metadata is None else request.metadata,
    )
    return {name: value for name, value in found.items() if value is not None}
