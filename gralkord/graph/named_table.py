"""What the tables of facts and entities have in common: rows by number, searchable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.lexical import LexicalIndex
from gralkord.graph.passage_table import ROW_BYTES
from gralkord.graph.rows import EntityRow, FactRow
from gralkord.graph.vectors import VectorMatrix

# What an attribute takes besides its value, in bytes, about.
ATTRIBUTE_BYTES: Final = 120

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
        self._gathering = False
        self._gathered: list[str] = []

    def __len__(self) -> int:
        return len(self._rows)

    def put_all(self, rows: Iterable[tuple[RowT, str | None]]) -> None:
        """Do what `put` does with many rows: their texts are indexed together, which is cheaper."""
        with self._lock:
            self._gathering = True
            try:
                for row, vector in rows:
                    self.put(row, vector)
            finally:
                self._gathering = False
                self._index()

    @property
    def nbytes(self) -> int:
        """Bytes that the table takes, about."""
        parts = self.words.nbytes + self.vectors.nbytes
        return parts + len(self._rows) * ROW_BYTES + self._characters

    def row(self, number: int) -> RowT:
        """Return the row of that number."""
        return self._rows[number]

    def rows(self) -> list[RowT]:
        """Return all rows."""
        with self._lock:
            return list(self._rows)

    def uuid(self, number: int) -> str:
        """Return the uuid of the row of that number."""
        return self._rows[number].uuid

    def by_uuid(self, uuids: Iterable[str]) -> list[RowT]:
        """Return the rows of these uuids, in their order; unknown ones are left out."""
        with self._lock:
            return [self._rows[self._numbers[uuid]] for uuid in uuids if uuid in self._numbers]

    def has_vector(self, uuid: str) -> bool:
        """Return whether there is a row of that uuid, and it has a vector."""
        with self._lock:
            number = self._numbers.get(uuid)
            return number is not None and bool(self.vectors.present(len(self._rows))[number])

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
        if before is None:
            self._gathered.append(text)
            self._characters += len(text) + _more_bytes(row)
        elif (old := self._text(before)) != text:
            self._index()
            self.words.remove(number, old)
            self.words.add(number, [text])
            self._characters += len(text) - len(old)
        if before is not None:
            self._characters += _more_bytes(row) - _more_bytes(before)
        if not self._gathering:
            self._index()
        self.vectors.put(number, vector)
        return number, before

    def _index(self) -> None:
        """Index the texts that were gathered, which are those of the last rows."""
        self.words.add(len(self._rows) - len(self._gathered), self._gathered)
        self._gathered = []

    def put(self, row: RowT, vector: str | None) -> None:
        """Add a row, or replace the one of the same uuid unless that is newer."""
        raise NotImplementedError

    def _text(self, row: RowT) -> str:
        raise NotImplementedError


def _more_bytes(row: FactRow | EntityRow) -> int:
    """Return the bytes that a row takes besides the text that is searched, about."""
    unsearched = len(row.summary) if isinstance(row, EntityRow) and row.note_kind else 0
    if not row.attributes:
        return unsearched
    values = row.attributes.values()
    return unsearched + sum(ATTRIBUTE_BYTES + len(str(value)) for value in values)
