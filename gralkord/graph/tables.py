"""The facts and entities of one group in memory, searchable by words and by vector."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.columns import INT64, Column
from gralkord.graph.lexical import LexicalIndex
from gralkord.graph.passage_table import ROW_BYTES, PassageTable
from gralkord.graph.rows import NEVER_MS, EntityRow, FactRow, PassageRow, to_ms
from gralkord.graph.vectors import VectorMatrix

__all__ = ["EntityRow", "EntityTable", "FactRow", "FactTable", "PassageRow", "PassageTable"]


RowT = TypeVar("RowT", FactRow, EntityRow)


class NamedTable(Generic[RowT]):
    """What facts and entities have in common.

    Args:
        analyzer: Finds the words of texts.
        lock: Held while the table changes or is searched.

    Attributes:
        words: Index of the rows' texts.
        vectors: The rows' vectors.
    """

    def __init__(self, analyzer: Analyzer, lock: threading.RLock) -> None:
        self.words = LexicalIndex(analyzer)
        self.vectors = VectorMatrix()
        self._analyzer = analyzer
        self._lock = lock
        self._rows: list[RowT] = []
        self._numbers: dict[str, int] = {}
        self._characters = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """Bytes that the table takes, about."""
        parts = self.words.nbytes + self.vectors.nbytes
        return parts + len(self._rows) * ROW_BYTES + self._characters

    def row(self, number: int) -> RowT:
        """Return the row of that number."""
        return self._rows[number]

    def uuid(self, number: int) -> str:
        """Return the uuid of the row of that number."""
        return self._rows[number].uuid

    def by_uuid(self, uuids: Iterable[str]) -> list[RowT]:
        """Return the rows of these uuids, in their order; unknown ones are left out."""
        with self._lock:
            return [self._rows[self._numbers[uuid]] for uuid in uuids if uuid in self._numbers]

    def lexical(self, query: str, limit: int) -> list[tuple[RowT, float]]:
        """Return rows that share words with *query*, best first, with their BM25 scores."""
        with self._lock:
            scores = self.words.scores(self._analyzer.terms(query))
            return self._best(scores, np.flatnonzero(scores > 0), limit, None)

    def similar(
        self,
        vector: NDArray[np.float32],
        limit: int,
        min_score: float,
        only: Callable[[RowT], bool] | None = None,
    ) -> list[tuple[RowT, float]]:
        """Return rows whose vectors are close to *vector*, closest first.

        Args:
            vector: Shape (d,).
            limit: How many at most.
            min_score: The least score, which is (1 + cosine) / 2.
            only: Which rows may be returned; default: all.
        """
        with self._lock:
            scores = (1 + self.vectors.cosines(vector, len(self._rows))) / 2
            near = np.flatnonzero((scores >= min_score) & self.vectors.present(len(self._rows)))
            return self._best(scores, near, limit, only)

    def _best(
        self,
        scores: NDArray[np.floating],
        numbers: NDArray[np.intp],
        limit: int,
        only: Callable[[RowT], bool] | None,
    ) -> list[tuple[RowT, float]]:
        """Return the best of some rows; of equal scores the row known first."""
        if only is None and len(numbers) > limit > 0:
            least = np.partition(scores[numbers], -limit)[-limit]
            numbers = numbers[scores[numbers] >= least]
        found: list[tuple[RowT, float]] = []
        for number in numbers[np.argsort(-scores[numbers], kind="stable")]:
            if len(found) >= limit:
                break
            row = self._rows[number]
            if only is None or only(row):
                found.append((row, float(scores[number])))
        return found

    def _store(self, row: RowT, text: str, vector: str | None) -> tuple[int, RowT | None] | None:
        """Add or replace a row; return its number and the row before, or None if that is newer."""
        number = self._numbers.get(row.uuid)
        before: RowT | None = None
        if number is None:
            number = self._numbers[row.uuid] = len(self._rows)
            self._rows.append(row)
        else:
            before = self._rows[number]
            if before.seq > row.seq:
                return None
            self._rows[number] = row
        old = None if before is None else self._text(before)
        if old != text:
            if old is not None:
                self.words.remove(number, old)
                self._characters -= len(old)
            self.words.add(number, [text])
            self._characters += len(text)
        self.vectors.put(number, vector)
        return number, before

    def _text(self, row: RowT) -> str:
        raise NotImplementedError


class FactTable(NamedTable[FactRow]):
    """Facts by row number; also by the entities that they connect."""

    def __init__(self, analyzer: Analyzer, lock: threading.RLock) -> None:
        super().__init__(analyzer, lock)
        self._touching: dict[str, list[int]] = {}
        self._invalid_ms = Column(INT64)
        self._since_ms = Column(INT64)

    @property
    def since_ms(self) -> NDArray[np.int64]:
        """Since when each row holds, or else when it was told, Unix milliseconds; unknown: 0."""
        return self._since_ms.values

    def valid(self, now_ms: int) -> NDArray[np.bool_]:
        """Return which rows are neither superseded nor invalid by *now_ms*."""
        return self._invalid_ms.values > now_ms

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
        # A superseded fact is not shown, whenever that was found out.
        invalid_ms = -NEVER_MS if row.expired_at else to_ms(row.invalid_at)
        since = row.valid_at or row.reference_time
        since_ms = to_ms(since) if since else 0
        with self._lock:
            if (stored := self._store(row, row.fact, vector)) is None:
                return
            number, before = stored
            if before is None:
                for uuid in dict.fromkeys((row.source_uuid, row.target_uuid)):
                    self._touching.setdefault(uuid, []).append(number)
            self._invalid_ms[number] = invalid_ms
            self._since_ms[number] = since_ms

    def _text(self, row: FactRow) -> str:
        return row.fact


class EntityTable(NamedTable[EntityRow]):
    """Entities by row number; also by name."""

    def __init__(self, analyzer: Analyzer, lock: threading.RLock) -> None:
        super().__init__(analyzer, lock)
        self._named: dict[str, list[int]] = {}

    def by_name(self, name: str) -> list[EntityRow]:
        """Return the entities of that name; case and blanks around it do not count."""
        with self._lock:
            return [self._rows[number] for number in self._named.get(_key(name), ())]

    def put(self, row: EntityRow, vector: str | None) -> None:
        """Add a row, or replace the one of the same uuid unless that is newer."""
        with self._lock:
            if (stored := self._store(row, self._text(row), vector)) is None:
                return
            number, before = stored
            if before is not None:
                self._named[_key(before.name)].remove(number)
            self._named.setdefault(_key(row.name), []).append(number)

    def _text(self, row: EntityRow) -> str:
        return f"{row.name}: {row.summary}"


def _key(name: str) -> str:
    return name.strip().casefold()
