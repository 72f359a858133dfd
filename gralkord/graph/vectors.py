"""Vectors as int8: how they are stored, and an exact search over those of a table."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from gralkord.graph.columns import FLAG, Column

log = structlog.get_logger(__name__)

# Numbers turned to float32 at once: they stay in the processor's cache, and a product of this size
# is not handed to several threads, which costs more than it gains beside other work.
BLOCK_NUMBERS: Final = 262_144
# From so many numbers on a second thread takes half of them, if it is free.
SHARED_NUMBERS: Final = 8_000_000

_SECOND: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vectors")


def encode(rows: NDArray[np.float32]) -> list[str]:
    """Return each row as base64 text of int8 numbers, its largest number scaled to 127.

    Args:
        rows: Shape (n, d), finite; a row of zeros stays one.
    """
    if not len(rows):
        return []
    peak = np.abs(rows).max(axis=1, keepdims=True)
    scale = np.divide(127.0, peak, out=np.zeros_like(peak), where=peak > 0)
    small = np.rint(rows * scale).astype(np.int8)
    return [base64.b64encode(row.tobytes()).decode("ascii") for row in small]


def decode(texts: Sequence[str]) -> NDArray[np.int8]:
    """Return what `encode` made texts of: shape (n, d), each row known up to its length.

    Raises:
        ValueError: A text is not base64, or the rows are not all of one length.
    """
    rows = [_bytes(text) for text in texts]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("vectors of different lengths")
    numbers = np.frombuffer(b"".join(rows), dtype=np.int8)
    return numbers.reshape(len(rows), -1) if rows else numbers.reshape(0, 0)


class VectorMatrix:
    """The vectors of a table's rows; a row may have none.

    The first vector decides the dimension.
    """

    def __init__(self) -> None:
        self.dimension: int | None = None
        self._data = bytearray()
        self._present = Column(FLAG)
        # One over the length of each vector, for the rows that are not in `_changed`.
        self._scales: NDArray[np.float32] = np.zeros(0, dtype=np.float32)
        self._changed: set[int] = set()

    @property
    def nbytes(self) -> int:
        """Bytes that the vectors take."""
        return len(self._data) + self._present.nbytes + self._scales.nbytes

    def put(self, row: int, text: str | None) -> None:
        """Set, replace or with None remove the vector of *row*, which is at most one new row.

        A text that is no vector, or one of another dimension, counts as none and is logged.
        """
        numbers = None if text is None else self._read(row, text)
        self._present[row] = numbers is not None
        if numbers is None:
            return
        if self.dimension is None:
            self.dimension = len(numbers)
        start = row * self.dimension
        if start > len(self._data):
            self._data.extend(bytes(start - len(self._data)))
        self._data[start : start + self.dimension] = numbers
        if row < len(self._scales):
            self._changed.add(row)

    def present(self, size: int) -> NDArray[np.bool_]:
        """Return which of the first *size* rows have a vector."""
        return np.asarray(self._present.values[:size])

    def cosines(self, query: NDArray[np.float32], size: int) -> NDArray[np.float32]:
        """Return the cosine of *query* to each of the first *size* rows; without a vector, 0.

        Args:
            query: Shape (d,), of any length but zero.
            size: Number of rows of the table.
        """
        found = np.zeros(size, dtype=np.float32)
        norm = float(np.linalg.norm(query))
        if len(query) != self.dimension or not norm:
            return found
        rows, unit = self._rows(), (query / norm).astype(np.float32)
        self._measure(rows)
        if rows.size < SHARED_NUMBERS:
            _products(rows, unit, found[: len(rows)])
        else:
            half = len(rows) // 2
            other = _SECOND.submit(_products, rows[:half], unit, found[:half])
            _products(rows[half:], unit, found[half : len(rows)])
            if other.cancel():  # the thread was busy with another search
                _products(rows[:half], unit, found[:half])
            else:
                other.result()
        found[: len(rows)] *= self._scales * self._present.values[: len(rows)]
        return found

    def _rows(self) -> NDArray[np.int8]:
        # The bytes cannot grow while an array looks at them, so none is kept.
        return np.frombuffer(self._data, dtype=np.int8).reshape(-1, self.dimension or 1)

    def _read(self, row: int, text: str) -> bytes | None:
        try:
            numbers = _bytes(text)
        except ValueError as error:
            log.warning("vector_unreadable", row=row, reason=str(error))
            return None
        if self.dimension not in {None, len(numbers)}:
            log.warning("vector_of_other_dimension", row=row, dimension=len(numbers))
            return None
        return numbers or None

    def _measure(self, rows: NDArray[np.int8]) -> None:
        """Work out the lengths of vectors that have come or changed, all at once."""
        known = len(self._scales)
        if known == len(rows) and not self._changed:
            return
        scales = np.zeros(len(rows), dtype=np.float32)
        scales[:known] = self._scales
        step = max(1, BLOCK_NUMBERS // rows.shape[1])
        for numbers in (np.fromiter(self._changed, np.intp), np.arange(known, len(rows))):
            for start in range(0, len(numbers), step):
                some = numbers[start : start + step]
                lengths = np.linalg.norm(rows[some].astype(np.float32), axis=1)
                scales[some] = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        self._scales = scales
        self._changed.clear()


def _products(
    rows: NDArray[np.int8], unit: NDArray[np.float32], found: NDArray[np.float32]
) -> None:
    """Put the product of each row and *unit* into *found*."""
    step = max(1, BLOCK_NUMBERS // len(unit))
    block = np.empty((min(step, len(rows)), len(unit)), dtype=np.float32)
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        np.copyto(block[: len(part)], part)
        np.dot(block[: len(part)], unit, out=found[start : start + len(part)])


def _bytes(text: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error as error:
        raise ValueError(f"not a vector: {error}") from None
