from __future__ import annotations

import numpy as np
import pytest

from gralkord.recall.top import BLOCK, top


@pytest.mark.parametrize("size", [0, 1, 5, BLOCK, 3 * BLOCK - 1, 40 * BLOCK + 7, 2_000])
@pytest.mark.parametrize("count", [1, 5, 50])
def test_the_largest_are_those_that_sorting_finds(size, count):
    """Whatever the length, with many equal ones and with minus infinity among them."""
    dice = np.random.default_rng(size)
    for values in (
        dice.normal(size=size).astype(np.float32),
        dice.integers(0, 4, size=size).astype(np.float32),
        np.where(dice.random(size) < 0.98, -np.inf, dice.random(size)),
    ):
        assert sorted(top(values, count)) == sorted(values)[-count:]
