"""The facts and entities of one group in memory, searchable by words and by vector."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.columns import BYTE, FLAG, INT64, Column
from gralkord.graph.drafts import NOTE_KINDS
from gralkord.graph.named_table import NamedTable
from gralkord.graph.passage_table import PassageTable
from gralkord.graph.rows import NEVER_MS, EntityRow, FactRow, PassageRow, to_ms
from gralkord.graph.sanitise import fold_name
from gralkord.graph.scope import own_metadata, told_ms
from gralkord.graph.validity import Ending, View, fact_ending

__all__ = ["EntityRow", "EntityTable", "FactRow", "FactTable", "PassageRow", "PassageTable"]

_NOTE_NUMBERS: Final[dict[str, int]] = {kind: number for number, kind in enumerate(NOTE_KINDS, 1)}


class FactTable(NamedTable[FactRow]):
    """Facts by row number; also by the entities that they connect, and by their episodes.

    Attributes:
        own: The rows that say by themselves what they are from or of which turn, or have metadata.
        changes: Changes with any row.
    """

    def __init__(self, analyzer: Analyzer, lock: threading.RLock) -> None:
        super().__init__(analyzer, lock)
        self._touching: dict[str, list[int]] = {}
        self._stated: dict[str, list[int]] = {}
        # Without and with what hides a fact unless a moment is asked for.
        self._end_ms = Column(INT64)
        self._hidden_ms = Column(INT64)
        self._since_ms = Column(INT64)
        self._created_ms = Column(INT64)
        self._told_ms = Column(INT64)
        # The rows of which something was found out after they were written.
        self._changed: set[int] = set()
        self._note = Column(BYTE)
        self._succeeded = Column(FLAG)
        self._notes: set[int] = set()
        self.own: set[int] = set()
        self.changes = 0

    @property
    def told_ms(self) -> NDArray[np.int64]:
        """When each row was told, Unix milliseconds, see `gralkord.graph.scope.told_ms`."""
        return self._told_ms.values

    @property
    def since_ms(self) -> NDArray[np.int64]:
        """Since when each row holds, or else when it was told, Unix milliseconds; unknown: 0."""
        return self._since_ms.values

    @property
    def created_ms(self) -> NDArray[np.int64]:
        """When each row was written first, Unix milliseconds; unknown: 0."""
        return self._created_ms.values

    @property
    def has_notes(self) -> bool:
        """Whether any row is a note."""
        return bool(self._notes)

    @property
    def notes(self) -> NDArray[np.uint8]:
        """Which kind of note each row is: its place in `NOTE_KINDS`, from 1 on; 0: it is none."""
        return self._note.values

    @property
    def succeeded(self) -> NDArray[np.bool_]:
        """Which rows are learnings of what succeeded."""
        return self._succeeded.values

    def number(self, uuid: str) -> int:
        """Return the number of the row of that uuid, which is there."""
        return self._numbers[uuid]

    def shown(self, view: View, ended_episodes: Mapping[str, int]) -> NDArray[np.bool_]:
        """Return which rows may be shown to a view.

        Args:
            view: From where they are looked at.
            ended_episodes: The episodes, and turns of them, of which no passage holds, each with
                its end (ms).
        """
        if view.include_invalidated:
            shown = np.ones(len(self._rows), dtype=np.bool_)
        else:
            shown = self._ends(view) > view.moment_ms
            for number in {row for key in ended_episodes for row in self._stated.get(key, ())}:
                ends = [ended_episodes.get(key, NEVER_MS) for key in self._rows[number].support]
                if max(ends) <= view.moment_ms:
                    shown[number] = False
        if view.as_of_ms is not None:
            shown &= self._since_ms.values <= view.as_of_ms
        if view.known_ms is not None:
            shown &= self._created_ms.values <= view.known_ms
        return shown

    def stated_in(self, keys: Iterable[str]) -> list[int]:
        """Return the numbers of the rows of episodes."""
        stated = self._stated
        return [number for key in keys for number in stated.get(key, ())]

    def of_episode(self, uuid: str) -> list[FactRow]:
        """Return the facts that an episode states."""
        with self._lock:
            return [self._rows[number] for number in self._stated.get(uuid, ())]

    def touching(self, entity_uuid: str) -> list[FactRow]:
        """Return the facts from or to an entity."""
        with self._lock:
            return [self._rows[number] for number in self._touching.get(entity_uuid, ())]

    def between(self, source_uuid: str, target_uuid: str) -> list[FactRow]:
        """Return the facts from one entity to another."""
        return [
            row
            for row in self.touching(source_uuid)
            if row.source_uuid == source_uuid and row.target_uuid == target_uuid
        ]

    def put(self, row: FactRow, vector: str | None) -> None:
        """Add a row, or replace the one of the same uuid unless that is newer."""
        ending = fact_ending(row)
        since = row.valid_at or row.reference_time
        since_ms = to_ms(since) if since else 0
        created_ms = to_ms(row.created_at) if row.created_at else 0
        moment_ms = told_ms(row)
        with self._lock:
            if (stored := self._store(row, row.fact, vector)) is None:
                return
            number, before = stored
            self.changes += 1
            if before is None:
                for uuid in dict.fromkeys((row.source_uuid, row.target_uuid)):
                    self._touching.setdefault(uuid, []).append(number)
            self._end_ms[number] = ending.ms
            self._hidden_ms[number] = _hidden(ending)
            self._since_ms[number] = since_ms
            self._created_ms[number] = created_ms
            self._told_ms[number] = moment_ms
            self._mark(number, row)
            self._state(number, _keys(row), _keys(before) if before else ())
            if row.superseded_by or row.withdrawn_at or row.expired_at:
                self._changed.add(number)
            else:
                self._changed.discard(number)

    def _ends(self, view: View) -> NDArray[np.int64]:
        """Return when each row ends, as far as the view knows."""
        asked = view.as_of_ms is not None
        ends = (self._end_ms if asked else self._hidden_ms).values
        if view.known_ms is not None and self._changed:
            ends = ends.copy()
            for number in self._changed:
                ending = fact_ending(self._rows[number], view.known_ms)
                ends[number] = ending.ms if asked else _hidden(ending)
        return ends

    def _mark(self, number: int, row: FactRow) -> None:
        self._note[number] = note = _NOTE_NUMBERS.get(str(row.note_kind), 0)
        succeeded = row.note_kind == "learning" and row.attributes.get("success") is True
        self._succeeded[number] = succeeded
        if note:
            self._notes.add(number)
        else:
            self._notes.discard(number)
        if any(each is not None for each in (row.source, row.turn, own_metadata(row))):
            self.own.add(number)
        else:
            self.own.discard(number)

    def _state(self, number: int, after: tuple[str, ...], before: tuple[str, ...]) -> None:
        for uuid in set(before) - set(after):
            self._stated[uuid].remove(number)
        for uuid in set(after) - set(before):
            self._stated.setdefault(uuid, []).append(number)

    def _text(self, row: FactRow) -> str:
        return row.fact


class EntityTable(NamedTable[EntityRow]):
    """Entities by row number; also by name and by handle."""

    def __init__(self, analyzer: Analyzer, lock: threading.RLock) -> None:
        super().__init__(analyzer, lock)
        self._named: dict[str, list[int]] = {}
        self._handled: dict[str, list[int]] = {}

    def by_name(self, name: str) -> list[EntityRow]:
        """Return the entities of that name; case and blanks around it do not count."""
        with self._lock:
            return [self._rows[number] for number in self._named.get(fold_name(name), ())]

    def by_handle(self, handle: str) -> list[EntityRow]:
        """Return the entities that a handle stands for, as a rule one."""
        with self._lock:
            return [self._rows[number] for number in self._handled.get(fold_name(handle), ())]

    def called(self, name: str) -> list[EntityRow]:
        """Return the entities that a name or a handle means; a handle means one of them alone."""
        return self.by_handle(name) or self.by_name(name)

    def put(self, row: EntityRow, vector: str | None) -> None:
        """Add a row, or replace the one of the same uuid unless that is newer."""
        with self._lock:
            if (stored := self._store(row, self._text(row), vector)) is None:
                return
            number, before = stored
            if row.note_kind:  # nobody means it by a name
                return
            if before is not None:
                self._named[fold_name(before.name)].remove(number)
                for handle in before.handles:
                    self._handled[fold_name(handle)].remove(number)
            self._named.setdefault(fold_name(row.name), []).append(number)
            for handle in row.handles:
                self._handled.setdefault(fold_name(handle), []).append(number)

    def _text(self, row: EntityRow) -> str:
        # The words of a note are those of its fact, and are searched there.
        return "" if row.note_kind else f"{row.name}: {row.summary}"


def _keys(row: FactRow) -> tuple[str, ...]:
    return row.episodes if row.turn is None else (*row.episodes, *row.support)


def _hidden(ending: Ending) -> int:
    return -NEVER_MS if ending.found_out else ending.ms
