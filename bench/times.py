"""CPU that reading the times in a question takes, of usual questions and of the longest."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime
from time import thread_time
from typing import TYPE_CHECKING

from figures import Figure, main

from gralkord.recall.times import find_periods

if TYPE_CHECKING:
    import argparse

NOW = datetime(2026, 3, 4, 15, tzinfo=UTC)
LONGEST = 8_000
QUESTIONS = {
    "a question without a time": "Where does my sister keep the spare keys?",
    "a question with a time": "What did we say about the garden two weeks after May 7, 2023?",
}
PIECES = (
    *("may ", "1 ", "the week before ", "first week of ", "x-y/z.", "May 7, ", "7/7 ", "1.2 7"),
    "it may be that we spoke about the tea and the kettle of the night. ",
)


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Return the median of each question, and the worst text's least."""
    usual = [
        Figure(name, statistics.median(_times(text, options.repeats)) * 1e6, "us", 400)
        for name, text in QUESTIONS.items()
    ]
    worst = max(min(_times((piece * LONGEST)[:LONGEST], 25)) for piece in PIECES)
    return [*usual, Figure("the slowest of 8,000 characters", worst * 1e3, "ms", 10)]


def _times(text: str, repeats: int) -> list[float]:
    took = []
    for _ in range(repeats):
        began = thread_time()
        find_periods(text, NOW)
        took.append(thread_time() - began)
    return took


if __name__ == "__main__":
    main(__doc__ or "", measure, repeats=500)
