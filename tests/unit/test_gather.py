"""Group commit, by itself."""

from __future__ import annotations

import asyncio
import random

import pytest

from gralkord.errors import BackendUnavailable
from gralkord.intake.gather import Gatherer, Written


def written(*names):
    return [Written((name,), name.encode()) for name in names]


@pytest.mark.parametrize("seed", range(5))
async def test_every_request_is_answered_with_its_own(seed):
    """Whatever is cancelled or fails, nobody waits for ever or gets what belongs to another."""
    dice = random.Random(seed)
    sizes = []

    async def send(turns):
        sizes.append(len(turns))
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)
        if dice.random() < 0.1:
            raise BackendUnavailable
        return [turn.data for turn in turns]

    gatherer = Gatherer(send, most_turns=8)

    async def ask(number):
        for _ in range(dice.randrange(40)):
            await asyncio.sleep(0)
        turns = written(*(f"{number}.{n}" for n in range(dice.randrange(1, 4))))
        try:
            async with asyncio.timeout(0 if dice.random() < 0.1 else 5):
                answers = await gatherer.put(turns)
        except BackendUnavailable:
            return "outage"
        except TimeoutError:
            return "cancelled"
        assert answers == [turn.data for turn in turns]
        return "stored"

    ends = await asyncio.gather(*(ask(number) for number in range(300)))
    assert {"stored", "outage", "cancelled"} == set(ends)
    assert max(sizes) <= 8
    assert not gatherer._waiting


async def test_an_error_of_our_own_ends_nothing(caplog):
    """A fault in sending is raised where it is waited for, and the next request is served."""
    faults = [ZeroDivisionError()]

    async def send(turns):
        if faults:
            raise faults.pop()
        return [turn.data for turn in turns]

    gatherer = Gatherer(send)
    with pytest.raises(ZeroDivisionError):
        await gatherer.put(written("a"))
    assert await gatherer.put(written("b")) == [b"b"]
