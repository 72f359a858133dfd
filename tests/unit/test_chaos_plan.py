"""What `make chaos` does is drawn from its seed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.processes import Shape
from chaos.violence import KINDS, plan

SHAPE = Shape(seed=5)


def test_the_same_seed_does_the_same_deeds():
    """A run can be repeated; another seed is another run."""
    assert plan(SHAPE, 60, 2) == plan(SHAPE, 60, 2)
    assert plan(SHAPE, 60, 2) != plan(replace(SHAPE, seed=6), 60, 2)


@pytest.mark.parametrize("seconds", [5, 60, 600])
def test_every_kind_of_violence_is_done(seconds):
    """However short a run is, it leaves no kind out."""
    assert {act.kind for act in plan(SHAPE, seconds, 3)} == set(KINDS)


def test_deeds_follow_one_another_within_the_time():
    """They are done in the order of the plan, and none after its end."""
    moments = [act.at for act in plan(SHAPE, 60, 2)]
    assert moments == sorted(moments)
    assert 0 <= moments[0] <= moments[-1] <= 60


def test_most_freezes_last_longer_than_the_lease():
    """Only then does somebody else take the work over."""
    freezes = [act for act in plan(SHAPE, 600, 1) if act.kind == "freeze worker"]
    longer = [act for act in freezes if act.seconds > SHAPE.understand_seconds]
    assert len(longer) > len(freezes) / 2
