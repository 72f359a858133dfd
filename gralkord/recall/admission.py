"""How many recalls are under way, and what is done about too many of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gralkord.errors import TooMany

# So many times the limit are taken, those above it without what may be late.
MOST_TIMES: Final = 4
RETRY_SECONDS: Final = 1.0


class Admission:
    """Lets recalls in: first with everything, then without models that may be late, then not.

    Belongs to one event loop.

    Args:
        limit: How many have everything at the same time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._under_way = 0

    @contextmanager
    def enter(self) -> Iterator[bool]:
        """Count a recall while it is under way; give whether it is to do without slow arms.

        Raises:
            TooMany: There are too many already.
        """
        if self._under_way >= MOST_TIMES * self._limit:
            raise TooMany(
                f"{self._under_way} recalls are under way",
                limit=MOST_TIMES * self._limit,
                hint="come again, ask another process, or raise recall.concurrency",
                retry_after=RETRY_SECONDS,
            )
        lean = self._under_way >= self._limit
        self._under_way += 1
        try:
            yield lean
        finally:
            self._under_way -= 1
