"""Which row comes before and after which in its session, in whatever order the rows came."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gralkord.graph.columns import INT64, Column

Rows = NDArray[np.intp]

NONE = -1


@dataclass(frozen=True, slots=True)
class Order:
    """The neighbours of all rows.

    Attributes:
        links: For each row the row before it, after it, before that one and after that one; -1
            where there is none. One more number, -1, ends each, so that -1 leads to -1.
        session: Number of the session of each row.
        sessions: How many sessions there are.
    """

    links: tuple[Rows, Rows, Rows, Rows]
    session: Rows
    sessions: int

    def nearby(self, values: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
        """Return each row's value plus *weight* times those of its two neighbours.

        Args:
            values: One per row.
            weight: Share of a neighbour.
        """
        padded = np.append(values, np.float32(0))
        beside = padded[self.links[0][:-1]] + padded[self.links[1][:-1]]
        return np.asarray(values + np.float32(weight) * beside)


class Neighbours:
    """The rows of each session, linked in the order of their places."""

    def __init__(self) -> None:
        self._before = Column(INT64)
        self._after = Column(INT64)
        self._session = Column(INT64)
        self._numbers: dict[str, int] = {}
        self._places: list[list[tuple[int, int, int]]] = []
        self._order: Order | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, about."""
        # The links, those of two steps, and an entry in the list of its session.
        return 2 * (self._before.nbytes + self._after.nbytes) + 120 * len(self._session)

    def place(self, row: int, session: str, ordinal: int, part: int) -> None:
        """Put a new row into its session; those of one place stand in the order of their rows.

        Args:
            row: Number of the row, never placed before.
            session: The session's name.
            ordinal: Place in the session.
            part: Place within that.
        """
        number = self._numbers.setdefault(session, len(self._numbers))
        if number == len(self._places):
            self._places.append([])
        places, entry = self._places[number], (ordinal, part, row)
        at = len(places)
        if places and entry < places[-1]:
            at = bisect_left(places, entry)
        places.insert(at, entry)
        before = places[at - 1][2] if at else NONE
        after = places[at + 1][2] if at + 1 < len(places) else NONE
        self._session[row] = number
        self._before[row], self._after[row] = before, after
        if before != NONE:
            self._after[before] = row
        if after != NONE:
            self._before[after] = row
        self._order = None

    def of_session(self, session: str) -> list[int]:
        """Return the rows of a session, in their order."""
        number = self._numbers.get(session)
        return [] if number is None else [row for _, _, row in self._places[number]]

    def order(self) -> Order:
        """Return the neighbours as they are now."""
        if self._order is None:
            before = np.append(self._before.values, NONE)
            after = np.append(self._after.values, NONE)
            self._order = Order(
                links=(before, after, before[before], after[after]),
                session=self._session.values,
                sessions=len(self._places),
            )
        return self._order
