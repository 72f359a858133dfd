"""Single memories and sources of the twin."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from gralkord.clock import to_iso
from gralkord.errors import InvalidInput, NotFound
from gralkord.graph.rows import FactRow, PassageRow
from gralkord.memories.described import history_of, iso_of, stored_memory
from gralkord.models.memories import ChangeResult
from gralkord.models.sources import SourceContent, SourceEntry, SourcePage, SourceSummary

if TYPE_CHECKING:
    from collections.abc import Callable

    from gralkord.memories.lookup import Held
    from gralkord.models.memories import (
        InvalidateRequest,
        MemoryHistory,
        MemorySelection,
        ReactivateRequest,
        StoredMemory,
        UndoRequest,
    )
    from gralkord.models.sources import SourceQuery, SourcesQuery
    from gralkord.testing.twin.shelf import Shelf
    from gralkord.testing.twin.shelves import Shelves

Memory = PassageRow | FactRow


@dataclass(frozen=True, slots=True)
class Changes:
    """What people look at and change, for one tenant."""

    shelves: Shelves
    tenant: str

    def show(self, operator: str, memory: str) -> StoredMemory:
        """Return all that is known of one memory.

        Raises:
            NotFound: The operator has none of this id.
        """
        shelf, row = self._one(operator, memory)
        return stored_memory(cast("Held", shelf), row, self.shelves.view())

    def history(self, operator: str, memory: str, *, words: bool) -> MemoryHistory:
        """Return where a memory comes from and what became of it.

        Raises:
            NotFound: The operator has none of this id.
        """
        shelf, row = self._one(operator, memory)
        return history_of(cast("Held", shelf), row, self.shelves.view(), words=words)

    def invalidate(self, request: InvalidateRequest) -> ChangeResult:
        """Say that memories do not hold any more."""
        now = self.shelves.now_iso()
        until = to_iso(request.valid_until) if request.valid_until else None

        def mark(row: Memory) -> Memory:
            at = row.withdrawn_at or now
            if isinstance(row, PassageRow):
                return row._replace(
                    withdrawn_at=at,
                    withdrawn_until=until,
                    withdrawn_reason=request.reason,
                    replaced_by=None,
                )
            return replace(
                row,
                withdrawn_at=at,
                withdrawn_until=until,
                withdrawn_reason=request.reason,
                replaced_by=None,
            )

        return self._change(request, mark)

    def reactivate(self, request: ReactivateRequest) -> ChangeResult:
        """Say that memories hold after all."""

        def clear(row: Memory) -> Memory:
            if isinstance(row, PassageRow):
                return row._replace(
                    withdrawn_at=None,
                    withdrawn_until=None,
                    withdrawn_reason=None,
                    replaced_by=None,
                )
            return replace(
                row,
                withdrawn_at=None,
                withdrawn_until=None,
                withdrawn_reason=None,
                replaced_by=None,
            )

        return self._change(request, clear)

    def undo(self, request: UndoRequest) -> MemoryHistory:
        """Say that a fact was not superseded.

        Raises:
            NotFound: The operator has no fact of this id.
            InvalidInput: Nothing, or something else, has superseded it.
        """
        shelf, row = self._one(request.operator, request.id)
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
        undone = tuple(dict.fromkeys((*row.undone, row.superseded_by)))
        shelf.put(replace(row, undone=undone))
        return self.history(request.operator, request.id, words=False)

    def sources(self, query: SourcesQuery) -> SourcePage:
        """Return the sources of an operator, by name."""
        found: dict[str, list[tuple[PassageRow, bool]]] = {}
        view = self.shelves.view()
        for shelf in self.shelves.of_operator(self.tenant, query.operator):
            for row in shelf.passages.rows():
                if row.source is not None and (query.after is None or row.source > query.after):
                    hidden = shelf.ending(row, view).hides(view)
                    found.setdefault(row.source, []).append((row, hidden))
        names = sorted(found)[: query.limit]
        return SourcePage(
            sources=[_summary(name, found[name]) for name in names],
            next=names[-1] if len(found) > len(names) else None,
        )

    def source(self, source: str, query: SourceQuery) -> SourceContent:
        """Return what stands in a source, without the words.

        Raises:
            NotFound: The operator has nothing of it.
        """
        rows = [
            (shelf, row)
            for shelf in self.shelves.of_operator(self.tenant, query.operator)
            for row in shelf.of_source(source, query.offset)
        ]
        if not rows:
            raise NotFound(f"the operator has nothing of the source {source!r}", field="source")
        rows.sort(key=lambda pair: (pair[1].session, pair[1].ordinal, pair[1].uuid))
        ids = [row.uuid for _, row in rows]
        start = ids.index(query.after) + 1 if query.after in ids else 0
        page = rows[start : start + query.limit]
        more = start + len(page) < len(rows)
        return SourceContent(
            source=source,
            entries=[self._entry(shelf, row) for shelf, row in page],
            next=page[-1][1].uuid if more else None,
        )

    def _entry(self, shelf: Shelf, row: PassageRow) -> SourceEntry:
        view = self.shelves.view()
        ending = shelf.ending(row, view)
        return SourceEntry(
            id=row.uuid,
            lens=shelf.lens,
            offset=row.offset,
            checksum=hashlib.blake2b(row.text.encode(), digest_size=32).hexdigest(),
            session=row.session,
            turn_id=row.turn_id,
            part=row.part,
            event_time=row.event_time,
            created_at=iso_of(row.created_ms),
            invalidated=ending.hides(view),
            reason=ending.reason,
            facts=[],
        )

    def _one(self, operator: str, memory: str) -> tuple[Shelf, Memory]:
        for shelf in self.shelves.of_operator(self.tenant, operator):
            for row in shelf.find([memory]):
                return shelf, row
        raise NotFound(f"the operator has no memory {memory!r}", field="id")

    def _change(
        self, selection: MemorySelection, change: Callable[[Memory], Memory]
    ) -> ChangeResult:
        left = dict.fromkeys(selection.ids, "not_found")
        passages = facts = 0
        for shelf in self.shelves.of_operator(self.tenant, selection.operator):
            rows = shelf.find(selection.ids)
            if selection.source is not None:
                said = shelf.of_source(selection.source, selection.offset)
                # What was replaced is gone already, and must not come back with its source.
                rows = [row for row in said if row.replaced_by is None]
            for row in rows:
                shelf.put(change(row))
                left.pop(row.uuid, None)
                passages += isinstance(row, PassageRow)
                facts += isinstance(row, FactRow)
        return ChangeResult(passages=passages, facts=facts, left=left)


def _summary(source: str, rows: list[tuple[PassageRow, bool]]) -> SourceSummary:
    moments = sorted((row.event_ms, row.event_time) for row, _ in rows)
    return SourceSummary(
        source=source,
        passages=len(rows),
        invalidated=sum(hidden for _, hidden in rows),
        facts=0,
        first=moments[0][1],
        last=moments[-1][1],
    )
