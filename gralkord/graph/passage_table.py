"""The passages of one group in memory, by row number, searchable by words and by vector."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.columns import FLAG, INT64, Column
from gralkord.graph.lexical import LexicalIndex
from gralkord.graph.neighbours import Neighbours
from gralkord.graph.rows import NEVER_MS, PassageRow, part_of
from gralkord.graph.validity import View, passage_ending
from gralkord.graph.vectors import VectorMatrix

# What a row takes besides its text, its vector and its postings, in bytes, about.
ROW_BYTES: Final = 900

_QUESTION_MARKS: Final = "?\uff1f\u061f"
# What scopes look at besides the time.
_described: Final = itemgetter(
    *(PassageRow._fields.index(name) for name in ("speaker", "session", "source", "metadata"))
)


class PassageTable:
    """Passages by row number, in the order in which they became known.

    Attributes:
        words: Index of ``speaker: text``.
        neighbours: Which row comes before and after which in its session.
        vectors: The rows' vectors.
        speakers: Number of each speaker's name.
        revision: Changes when what a scope looks at is another in a row that was there before.
        changes: Changes with any row.
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self.words = LexicalIndex(analyzer)
        self.neighbours = Neighbours()
        self.vectors = VectorMatrix()
        self.speakers: dict[str, int] = {}
        self.revision = 0
        self.changes = 0
        self._analyzer = analyzer
        self._names: dict[str, list[str]] = {}
        # Plain tuples: the garbage collector does not look at them again and again.
        self._rows: list[tuple[Any, ...]] = []
        self._numbers: dict[str, int] = {}
        self._episodes: dict[str, list[int]] = {}
        self._shared: dict[str, str] = {}
        self._speaker = Column(INT64)
        self._episode = Column(INT64)
        self._episode_numbers: dict[str, int] = {}
        self._event_ms = Column(INT64)
        self._created_ms = Column(INT64)
        self._end_ms = Column(INT64)
        # The rows that end at some time.
        self._ending: set[int] = set()
        self._ended_episodes: dict[str, int] | None = {}
        self._asks = Column(FLAG)
        self._characters = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes that the table takes, about."""
        parts = self.words.nbytes + self.neighbours.nbytes + self.vectors.nbytes
        return parts + len(self._rows) * ROW_BYTES + self._characters

    @property
    def speaker(self) -> NDArray[np.intp]:
        """Number of each row's speaker."""
        return self._speaker.values

    @property
    def event_ms(self) -> NDArray[np.int64]:
        """When each row was said, Unix milliseconds."""
        return self._event_ms.values

    @property
    def asks(self) -> NDArray[np.bool_]:
        """Which rows have a question mark."""
        return self._asks.values

    def shown(self, view: View) -> NDArray[np.bool_]:
        """Return which rows may be shown to a view."""
        if view.include_invalidated:
            shown = np.ones(len(self._rows), dtype=np.bool_)
        else:
            shown = self._ends(view) > view.moment_ms
        if view.as_of_ms is not None:
            shown &= self._event_ms.values <= view.as_of_ms
        if view.known_ms is not None:
            shown &= self._created_ms.values <= view.known_ms
        return shown

    def ended_episodes(self, view: View) -> dict[str, int]:
        """Return the episodes of which every passage ends, each with the time (ms) of the last.

        The same of turns of episodes, see `gralkord.graph.rows.part_of`.
        """
        if view.known_ms is not None:
            return self._find_ended(self._ends(view))
        if self._ended_episodes is None:
            self._ended_episodes = self._find_ended(self._end_ms.values)
        return self._ended_episodes

    def rows(self) -> list[PassageRow]:
        """Return all rows."""
        return [PassageRow._make(row) for row in tuple(self._rows)]

    def row(self, number: int) -> PassageRow:
        """Return the row of that number."""
        return PassageRow._make(self._rows[number])

    def uuid(self, number: int) -> str:
        """Return the uuid of the row of that number."""
        found: str = self._rows[number][0]
        return found

    def by_uuid(self, uuids: Iterable[str]) -> list[PassageRow]:
        """Return the rows of these uuids, in their order; unknown ones are left out."""
        return [self.row(self._numbers[uuid]) for uuid in uuids if uuid in self._numbers]

    def named(self, terms: Iterable[str]) -> list[str]:
        """Return the speakers of whose name a term is among *terms*, sorted."""
        return sorted({name for term in terms for name in tuple(self._names.get(term, ()))})

    def of_episode(self, uuid: str, turn: str | None = None) -> list[PassageRow]:
        """Return the rows that were understood in an episode, or those of one turn of it."""
        rows = [self.row(number) for number in tuple(self._episodes.get(uuid, ()))]
        return rows if turn is None else [row for row in rows if row.turn_id == turn]

    def of_turns(self, session: str, turns: Collection[str]) -> list[int]:
        """Return the numbers of the rows of some turns of a session, in their order."""
        rows = self.neighbours.of_session(session) if turns else []
        return [number for number in rows if self.row(number).turn_id in turns]

    def told(self, field: str, first: int) -> list[Any]:
        """Return what each row has in a field of `PassageRow`, from number *first* on."""
        at = PassageRow._fields.index(field)
        return [row[at] for row in self._rows[first:]]

    def whole_episodes(self, mask: NDArray[np.bool_]) -> Iterator[str]:
        """Yield the episodes of which every row is in *mask*."""
        numbers = self._episode.values
        outside = np.zeros(len(self._episode_numbers), dtype=np.bool_)
        outside[numbers[~mask & (numbers >= 0)]] = True
        for uuid, number in self._episode_numbers.items():
            if not outside[number] and self._episodes[uuid]:
                yield uuid

    def share(self, text: str) -> str:
        """Return the table's own copy of a text that repeats from row to row."""
        return self._shared.setdefault(text, text)

    def put(self, row: PassageRow, vector: str | None) -> None:
        """Add a row, or replace the one of the same uuid unless that is newer.

        Its session, ordinal and part never change.

        Args:
            row: What the graph has now.
            vector: Its vector as text.
        """
        self.put_all([(row, vector)])

    def put_all(self, rows: Iterable[tuple[PassageRow, str | None]]) -> None:
        """Do what `put` does with many rows: their texts are indexed together, which is cheaper."""
        first, fresh = len(self._rows), list[str]()
        for row, vector in rows:
            end_ms = passage_ending(row).ms
            number = self._numbers.get(row.uuid)
            if number is None:
                number = self._add(row)
                fresh.append(spoken(row))
            elif self.row(number).seq > row.seq:
                continue
            else:
                self.words.add(first, fresh)
                first, fresh = len(self._rows), []
                self._replace(number, row)
            self._event_ms[number] = row.event_ms
            self._created_ms[number] = row.created_ms
            self._end(number, end_ms)
            self.vectors.put(number, vector)
        self.words.add(first, fresh)

    def _ends(self, view: View) -> NDArray[np.int64]:
        """Return when each row ends, as far as the view knows."""
        ends = self._end_ms.values
        if view.known_ms is not None and self._ending:
            ends = ends.copy()
            for number in self._ending:
                ends[number] = passage_ending(self.row(number), view.known_ms).ms
        return ends

    def _find_ended(self, ends: NDArray[np.int64]) -> dict[str, int]:
        lasts: dict[str, int] = {}
        episodes = {self.row(number).episode for number in self._ending}
        for uuid in filter(None, episodes):
            for number in self._episodes[uuid]:
                end, part = int(ends[number]), part_of(uuid, self.row(number).turn_id)
                for key in (uuid, part):
                    lasts[key] = max(lasts.get(key, 0), end)
        return {key: last for key, last in lasts.items() if last != NEVER_MS}

    def _end(self, number: int, end_ms: int) -> None:
        self._end_ms[number] = end_ms
        if end_ms != NEVER_MS:
            self._ending.add(number)
        else:
            self._ending.discard(number)
        if self._ending or self._ended_episodes:
            self._ended_episodes = None

    def _add(self, row: PassageRow) -> int:
        number = self._numbers[row.uuid] = len(self._rows)
        self._rows.append(tuple(row))
        self.neighbours.place(number, row.session, row.ordinal, row.part)
        self._move(number, None, row.episode)
        self._describe(number, row)
        return number

    def _replace(self, number: int, row: PassageRow) -> None:
        before = self.row(number)
        self._rows[number] = tuple(row)
        self.revision += _described(before) != _described(row)
        self._move(number, before.episode, row.episode)
        if (before.speaker, before.text) != (row.speaker, row.text):
            self.words.remove(number, spoken(before))
            self.words.add(number, [spoken(row)])
            self._characters -= len(before.text)
            self._describe(number, row)

    def _describe(self, number: int, row: PassageRow) -> None:
        self._characters += len(row.text)
        if row.speaker not in self.speakers:
            self.speakers[row.speaker] = len(self.speakers)
            for term in self._analyzer.terms(row.speaker):
                self._names.setdefault(term, []).append(row.speaker)
        self._speaker[number] = self.speakers[row.speaker]
        self._asks[number] = any(mark in row.text for mark in _QUESTION_MARKS)

    def _move(self, number: int, before: str | None, after: str | None) -> None:
        self.changes += 1
        if before == after and before:
            return
        numbers = self._episode_numbers
        self._episode[number] = numbers.setdefault(after, len(numbers)) if after else -1
        if before:
            self._episodes[before].remove(number)
        if after:
            self._episodes.setdefault(after, []).append(number)


def spoken(row: PassageRow) -> str:
    """Return the text that a passage is found by."""
    return f"{row.speaker}: {row.text}"
