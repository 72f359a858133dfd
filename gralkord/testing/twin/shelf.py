"""What the twin keeps of one group: rows as the graph has them, in dictionaries."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from gralkord.graph.rows import EntityRow, FactRow, PassageRow
from gralkord.graph.sanitise import fold_name
from gralkord.graph.validity import Ending, fact_ending, passage_ending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gralkord.graph.validity import View
    from gralkord.groups import Group
    from gralkord.models.admin import StoredCommunity


class _HasUuid(Protocol):
    @property
    def uuid(self) -> str: ...


Row = TypeVar("Row", bound=_HasUuid)


class Rows(Generic[Row]):
    """Rows of one kind by their uuid, in the order in which they were written."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._rows

    def put(self, row: Row) -> None:
        """Add a row, or replace the one of the same uuid."""
        self._rows[row.uuid] = row

    def drop(self, uuids: Iterable[str]) -> None:
        """Forget rows."""
        for uuid in list(uuids):
            self._rows.pop(uuid, None)

    def rows(self) -> list[Row]:
        """Return all rows."""
        return list(self._rows.values())

    def by_uuid(self, uuids: Iterable[str]) -> list[Row]:
        """Return the rows of these uuids, as far as there are any."""
        return [self._rows[uuid] for uuid in uuids if uuid in self._rows]


class Passages(Rows[PassageRow]):
    """The passages of a group."""

    def of_episode(self, uuid: str) -> list[PassageRow]:
        """Return the passages of an episode."""
        return [row for row in self.rows() if row.episode == uuid]


class Entities(Rows[EntityRow]):
    """The entities of a group."""

    def by_name(self, name: str) -> list[EntityRow]:
        """Return the entities of that name, however it is spelled."""
        folded = fold_name(name)
        return [row for row in self.rows() if fold_name(row.name) == folded]

    def by_handle(self, handle: str) -> list[EntityRow]:
        """Return the entities that a handle stands for."""
        folded = fold_name(handle)
        return [row for row in self.rows() if folded in map(fold_name, row.handles)]

    def called(self, name: str) -> list[EntityRow]:
        """Return the entities that a name or a handle means; a handle means one of them alone."""
        return self.by_handle(name) or self.by_name(name)


@dataclass(slots=True)
class Shelf:
    """One group's memory. It answers what the daemon's code asks a group's cache.

    Attributes:
        owner: Whose it is.
        contents: What tells the words of a place apart, by uuid of the passage.
        communities: As they were found last.
        lock: The whole memory is locked by whoever uses it, so this is none.
    """

    owner: Group
    passages: Passages = field(default_factory=Passages)
    facts: Rows[FactRow] = field(default_factory=Rows)
    entities: Entities = field(default_factory=Entities)
    contents: dict[str, str] = field(default_factory=dict)
    communities: list[StoredCommunity] = field(default_factory=list)
    lock: nullcontext[None] = field(default_factory=nullcontext)

    @property
    def group(self) -> str:
        """The group id."""
        return self.owner.id

    @property
    def lens(self) -> str:
        """Name of the lens that a reader knows it by."""
        return self.owner.lens or self.owner.scope

    @property
    def cache(self) -> Shelf:
        """Itself: what the daemon's code calls the cache of a group."""
        return self

    def find(self, uuids: Iterable[str]) -> list[PassageRow | FactRow]:
        """Return the passages and facts of these uuids."""
        wanted = list(uuids)
        return [*self.passages.by_uuid(wanted), *self.facts.by_uuid(wanted)]

    def put(self, row: PassageRow | FactRow) -> None:
        """Add a row, or replace the one of the same uuid."""
        if isinstance(row, PassageRow):
            self.passages.put(row)
        else:
            self.facts.put(row)

    def of_source(self, source: str, offset: str | None) -> list[PassageRow]:
        """Return the passages of a source, or of one place in it."""
        return [
            row
            for row in self.passages.rows()
            if row.source == source and offset in {None, row.offset}
        ]

    def told_of_source(self, source: str, offset: str | None) -> list[FactRow]:
        """Return the notes that name a source, or one place in it, as theirs."""
        return [
            row
            for row in self.facts.rows()
            if row.note_kind and row.source == source and offset in {None, row.offset}
        ]

    def ending(self, row: PassageRow | FactRow, view: View) -> Ending:
        """Return how a passage or a fact ends, as far as a view knows."""
        if isinstance(row, PassageRow):
            return passage_ending(row, view.known_ms)
        return fact_ending(row, view.known_ms)
