"""Vectors of texts that were embedded before, as many as fit into some memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_BYTES: Final = 16 * 1024 * 1024
# What an entry takes besides text and vector, in bytes, about.
ENTRY_BYTES: Final = 300


class Memo:
    """The vectors last used, by the text that was sent for them.

    Args:
        most_bytes: Memory for all together.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._nbytes = 0
        self._rows: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, text: str) -> NDArray[np.float32] | None:
        """Return the vector of *text*, if it is still known."""
        row = self._rows.get(text)
        if row is not None:
            self._rows.move_to_end(text)
        return row

    def put(self, text: str, row: NDArray[np.float32]) -> None:
        """Remember the vector of *text*; what was not used for longest makes room."""
        if text in self._rows:
            return
        self._rows[text] = row.copy()  # a view would keep its whole batch
        self._nbytes += _size(text, row)
        while self._nbytes > self._most_bytes:
            self._nbytes -= _size(*self._rows.popitem(last=False))


def _size(text: str, row: NDArray[np.float32]) -> int:
    return row.nbytes + 2 * len(text) + ENTRY_BYTES
