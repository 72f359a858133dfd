"""BM25 over the texts of a table, exact at every moment: a new row is found by the next query.

Postings are kept per term in arrays that grow, so there is nothing to commit or to merge, and a
removed row leaves nothing behind. The score of a window of neighbouring rows is that of the text
they make together.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.columns import FLOAT32, Column
from gralkord.graph.neighbours import Order

K1: Final = 1.2
B: Final = 0.75

# A posting is one number: the row, then eight bits of how often the term is in it.
_COUNT_BITS: Final = 8
_MAX_COUNT: Final = (1 << _COUNT_BITS) - 1
MAX_ROWS: Final = 1 << (32 - _COUNT_BITS)

# Below this a term tells nothing: it is in practically every text.
_NO_WEIGHT: Final = 0.01

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class WindowScores:
    """BM25 scores of all rows, alone and together with their neighbours.

    Attributes:
        turn: The row itself.
        one: The row with one neighbour on each side.
        two: The row with two neighbours on each side.
        session: The row's whole session.
    """

    turn: Scores
    one: Scores
    two: Scores
    session: Scores


@dataclass(frozen=True, slots=True)
class _Lengths:
    """What BM25 adds to a term's count, depending on the length of each text and window."""

    turn: Scores
    one: Scores
    two: Scores
    session: Scores


class _Memo(dict[str, int]):
    """Folded word to the id of its term; of a stop word, the id's complement."""

    def __init__(self, learn: Callable[[str], int]) -> None:
        super().__init__()
        self._learn = learn

    def __missing__(self, word: str) -> int:
        self[word] = number = self._learn(word)
        return number


class LexicalIndex:
    """An inverted index of numbered rows."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._ids: dict[str, int] = {}
        self._memo = _Memo(self._learn)
        self._postings: list[array[int]] = []
        self._lengths = Column(FLOAT32)
        self._total = 0
        self._rows = 0
        self._windows: tuple[Order, _Lengths] | None = None
        self._entry_count = 0

    @property
    def nbytes(self) -> int:
        """Bytes that the index takes, about."""
        return 5 * self._entry_count + 150 * len(self._ids) + 120 * len(self._memo)

    def add(self, first: int, texts: Sequence[str]) -> None:
        """Index the texts of some rows that are not in the index.

        Args:
            first: Number of the first row; it and the next ones are at most new at the end.
            texts: One per row.

        Raises:
            ValueError: There would be more rows than an index can hold.
        """
        if first + len(texts) > MAX_ROWS:
            raise ValueError(f"an index holds {MAX_ROWS} rows")
        terms, packed, lengths = self._entries(first, texts)
        starts = np.flatnonzero(np.diff(terms, prepend=-1))
        ends = np.append(starts, len(terms))[1:]
        runs = zip(terms[starts].tolist(), starts.tolist(), ends.tolist(), strict=True)
        for term, start, end in runs:
            self._postings[term].frombytes(packed[start:end].tobytes())
        for row, length in enumerate(lengths, first):
            self._lengths[row] = length
        self._total += sum(lengths)
        self._rows += len(texts)
        self._entry_count += len(terms)
        self._windows = None

    def remove(self, row: int, text: str) -> None:
        """Take a row out again.

        Args:
            row: Number of the row.
            text: The text that it was added with.
        """
        terms, _, lengths = self._entries(row, [text])
        for term in terms.tolist():
            postings = self._postings[term]
            rows = np.frombuffer(postings, dtype=np.uint32) >> _COUNT_BITS
            at = int(np.flatnonzero(rows == row)[0])
            postings[at] = postings[-1]
            postings.pop()
        self._lengths[row] = 0
        self._total -= sum(lengths)
        self._rows -= 1
        self._entry_count -= len(terms)
        self._windows = None

    def ideal(self, terms: Sequence[str]) -> float:
        """Return more than any row can score: every term, known or not, as often as it may be."""
        return (K1 + 1) * sum(_weight(self._rows, self._frequency(term)) for term in terms)

    def holding(self, terms: Sequence[str]) -> NDArray[np.intp]:
        """Return the rows that hold any of the terms; a row may come several times."""
        rows = [self._posting(self._ids[term])[0] for term in terms if term in self._ids]
        return np.concatenate(rows) if rows else np.zeros(0, dtype=np.intp)

    def scores(self, terms: Sequence[str]) -> Scores:
        """Return the BM25 score of each row.

        Args:
            terms: Different terms, in the order of `Analyzer.terms`.
        """
        size = len(self._lengths)
        found = np.zeros(size, dtype=np.float32)
        if not self._rows:
            return found
        base = _saturation(self._lengths.values, self._mean(self._rows))
        for term in terms:
            if (number := self._ids.get(term)) is not None:
                rows, counts = self._posting(number)
                weight = _weight(self._rows, len(rows))
                found[rows] += weight * (K1 + 1) * counts / (counts + base[rows])
        return found

    def window_scores(self, terms: Sequence[str], order: Order) -> WindowScores:
        """Return the BM25 scores of each row alone and of its windows.

        Args:
            terms: Different terms, in the order of `Analyzer.terms`.
            order: Neighbours of every row that was added.
        """
        size = len(self._lengths)
        turn, one, two = (np.zeros(size, dtype=np.float32) for _ in range(3))
        session = np.zeros(order.sessions, dtype=np.float32)
        if not self._rows:
            return WindowScores(turn, one, two, session[order.session])
        base = self._window_lengths(order)
        # One more than there are rows: a neighbour that does not exist is the last, always zero.
        tally = np.zeros(size + 1, dtype=np.float32)
        near = np.zeros(size + 1, dtype=np.bool_)
        for term in terms:
            if (number := self._ids.get(term)) is None:
                continue
            rows, counts = self._posting(number)
            if not len(rows):
                continue
            weight = _weight(self._rows, len(rows)) * (K1 + 1)
            turn[rows] += weight * counts / (counts + base.turn.take(rows))
            in_session = np.bincount(order.session.take(rows), counts, order.sessions)
            weight = _weight(order.sessions, int(np.count_nonzero(in_session))) * (K1 + 1)
            session += (weight * in_session / (in_session + base.session)).astype(np.float32)
            tally[rows] = counts
            near[rows] = True
            for radius, window, saturation in ((1, one, base.one), (2, two, base.two)):
                for link in order.links[2 * radius - 2 : 2 * radius]:
                    near[link.take(rows)] = True
                near[-1] = False
                hit = np.flatnonzero(near)
                weight = _weight(self._rows, len(hit)) * (K1 + 1)
                if weight > _NO_WEIGHT:
                    sums = tally.take(hit)
                    for link in order.links[: 2 * radius]:
                        sums += tally.take(link.take(hit), mode="wrap")
                    window[hit] += weight * sums / (sums + saturation.take(hit))
            tally[rows] = 0
            near[hit] = False
        return WindowScores(turn, one, two, session[order.session])

    def _entries(
        self, first: int, texts: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.uint32], list[int]]:
        """Return the terms in some texts, the posting of each, and the lengths of the texts.

        Terms and postings are sorted by term, then by row; a text's length is in content words.
        """
        words = [self._analyzer.words(text) for text in texts]
        found = np.fromiter(map(self._memo.__getitem__, chain.from_iterable(words)), np.int64)
        place = np.repeat(np.arange(len(texts)), [len(some) for some in words])
        lengths = np.bincount(place[found >= 0], minlength=len(texts)).tolist()
        keys = np.where(found < 0, ~found, found) * len(texts) + place
        keys, counts = np.unique(keys, return_counts=True)
        terms, places = np.divmod(keys, max(1, len(texts)))
        packed = (first + places) << _COUNT_BITS | np.minimum(counts, _MAX_COUNT)
        return terms, packed.astype(np.uint32), lengths

    def _learn(self, word: str) -> int:
        term, stop = self._analyzer.term(word)
        number = self._ids.setdefault(term, len(self._ids))
        if number == len(self._postings):
            self._postings.append(array("I"))
        return ~number if stop else number

    def _posting(self, number: int) -> tuple[NDArray[np.intp], Scores]:
        packed = np.frombuffer(self._postings[number], dtype=np.uint32)
        return (packed >> _COUNT_BITS).astype(np.intp), (packed & _MAX_COUNT).astype(np.float32)

    def _frequency(self, term: str) -> int:
        number = self._ids.get(term)
        return 0 if number is None else len(self._postings[number])

    def _mean(self, texts: int) -> float:
        return self._total / texts if self._total else 1.0

    def _window_lengths(self, order: Order) -> _Lengths:
        if self._windows is None or self._windows[0] is not order:
            turn = self._lengths.values
            padded = np.append(turn, np.float32(0))
            before, after, before2, after2 = (padded[link] for link in order.links)
            one = padded + before + after
            two = one + before2 + after2
            session = np.bincount(order.session, turn, order.sessions).astype(np.float32)
            lengths = _Lengths(
                turn=_saturation(turn, self._mean(self._rows)),
                one=_saturation(one[:-1], _mean(one[:-1])),
                two=_saturation(two[:-1], _mean(two[:-1])),
                session=_saturation(session, self._mean(order.sessions)),
            )
            self._windows = (order, lengths)
        return self._windows[1]


def _weight(texts: int, holding: int) -> float:
    """Return BM25's inverse document frequency: never negative."""
    return float(np.log1p((texts - holding + 0.5) / (holding + 0.5)))


def _saturation(lengths: Scores, mean: float) -> Scores:
    return (K1 * (1 - B + B * lengths / mean)).astype(np.float32)


def _mean(lengths: Scores) -> float:
    return float(lengths.mean(dtype=np.float64)) or 1.0
