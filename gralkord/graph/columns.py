"""A column of numbers that grows at its end."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Column:
    """Numbers by row, in one array that doubles when it is full.

    Args:
        dtype: Type of the numbers.
        width: Numbers per row, or None for a plain column.
        fill: What rows hold until they are set.
    """

    def __init__(self, dtype: Any, *, width: int | None = None, fill: float = 0) -> None:
        self._fill = fill
        self._tail = () if width is None else (width,)
        self._data: NDArray[Any] = np.full((16, *self._tail), fill, dtype=dtype)
        self.size = 0

    def __len__(self) -> int:
        return self.size

    @property
    def values(self) -> NDArray[Any]:
        """The rows as a view: valid until the column grows."""
        return self._data[: self.size]

    @property
    def nbytes(self) -> int:
        """Bytes that the column takes."""
        return int(self._data.nbytes)

    def resize(self, size: int) -> None:
        """Grow to *size* rows; a smaller size changes nothing."""
        if size <= self.size:
            return
        if size > len(self._data):
            room = max(size, 2 * len(self._data))
            grown = np.full((room, *self._tail), self._fill, dtype=self._data.dtype)
            grown[: self.size] = self._data[: self.size]
            self._data = grown
        self.size = size

    def __setitem__(self, row: int, value: Any) -> None:
        if row >= self.size:
            self.resize(row + 1)
        self._data[row] = value
