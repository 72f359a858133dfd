"""A column of numbers by row: cheap to append to, read as one array."""

from __future__ import annotations

from array import array
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

INT64: Final = "q"
FLOAT32: Final = "f"
FLAG: Final = "b"
BYTE: Final = "B"

_DTYPES: Final = {INT64: np.int64, FLOAT32: np.float32, FLAG: np.bool_, BYTE: np.uint8}


class Column:
    """Numbers by row.

    Args:
        kind: `INT64`, `FLOAT32`, `FLAG` or `BYTE`.
    """

    def __init__(self, kind: str) -> None:
        self._dtype = _DTYPES[kind]
        self._data: array[Any] = array(kind)
        self._values: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, row: int) -> Any:
        return self._data[row]

    def __setitem__(self, row: int, value: float) -> None:
        if row == len(self._data):
            self._data.append(value)
        else:
            self._data[row] = value
        self._values = None

    @property
    def values(self) -> NDArray[Any]:
        """All numbers as they are now; later changes do not show in it."""
        if self._values is None:
            self._values = np.frombuffer(self._data, dtype=self._dtype).copy()
        return self._values

    @property
    def nbytes(self) -> int:
        """Bytes that the column takes."""
        return 2 * len(self._data) * self._data.itemsize
