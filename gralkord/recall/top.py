"""The largest of many numbers."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

BLOCK: Final = 64


def top(values: NDArray[np.floating[Any]], count: int) -> NDArray[np.floating[Any]]:
    """Return the *count* largest of *values*, in any order; all of them if there are not more.

    Blocks whose largest number is too small are left out first: that is fifteen times as fast as
    sorting parts of a hundred thousand.

    Args:
        values: Any number of them, none of them NaN.
        count: At least 1.
    """
    if len(values) <= count:
        return values
    starts = np.arange(0, len(values), BLOCK)
    if len(starts) > count:
        peaks = np.maximum.reduceat(values, starts)
        # As many blocks have a number that is not below this, so as many numbers have.
        values = values[values >= np.partition(peaks, -count)[-count]]
    return np.partition(values, -count)[-count:]


def best(scores: NDArray[np.floating[Any]], limit: int, uuid: Callable[[int], str]) -> list[int]:
    """Return the numbers of the best *limit* rows; of equal ones those of the first uuids.

    Args:
        scores: One per row; minus infinity is never among the best.
        limit: How many at most.
        uuid: Tells the uuid of a row.
    """
    numbers = np.flatnonzero(np.isfinite(scores))
    if len(numbers) <= limit:
        return [int(number) for number in numbers]
    least = top(scores[numbers], limit).min()
    better = [int(number) for number in numbers[scores[numbers] > least]]
    equal = (int(number) for number in numbers[scores[numbers] == least])
    return better + heapq.nsmallest(limit - len(better), equal, key=uuid)
