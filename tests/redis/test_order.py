"""Order of each group and lane, whoever works: many workers, some of which die or come too late."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict

from gralkord.errors import LeaseLost
from gralkord.groups import Group
from gralkord.mailbox.items import Item

GROUPS = [
    Group(tenant, operator, "default").id
    for tenant in ("default", "other")
    for operator in ("ann", "bob", "cid")
]
BOXES = [(lane, group) for lane in ("index", "understand") for group in GROUPS]
ITEMS = 15
WORKERS = 8


class Graph:
    """What the items do: noted in order, fenced as the real graph fences its writes."""

    def __init__(self) -> None:
        self.done = defaultdict(list)
        self._fences = defaultdict(int)

    def write(self, lease, items) -> None:
        """Note the items, each once.

        Raises:
            LeaseLost: Somebody with a later epoch has written.
        """
        box = (lease.lane, lease.group)
        if lease.epoch < self._fences[box]:
            raise LeaseLost
        self._fences[box] = lease.epoch
        self.done[box] += [item.id for item in items if item.id not in self.done[box]]


async def work(mailbox, graph, queue, dice, ended):
    """Take what there is and do it; now and then die, come too late, fail, or give back."""
    while not ended.is_set():
        lane, group = dice.choice(BOXES)
        lease = await mailbox.acquire(lane, group, most=dice.choice((1, 3, 8)))
        if lease is None:
            await asyncio.sleep(0)
            continue
        # A few, or after eight crashes the head would be a dead letter.
        mishap = dice.choice(("late", "dead", "wait", "release", *[""] * 16))
        try:
            if mishap in {"late", "dead"}:
                await queue.zadd(f"gk:leased:{lane}", {group: 0})  # it has been silent for so long
            if mishap == "late":
                await mailbox.sweep(lane)
                await asyncio.sleep(dice.uniform(0, 0.01))
            if mishap == "release":
                await mailbox.release(lease)
                continue
            graph.write(lease, lease.items)
            if mishap == "dead":
                continue
            if mishap == "wait":
                head = lease.items[0].id
                await mailbox.fail(lease, head, verdict="wait", delay_ms=1, reason="r", detail="d")
                continue
            await mailbox.commit(lease, [item.id for item in lease.items])
        except LeaseLost:
            continue


async def test_each_group_and_lane_is_worked_on_in_order_by_any_number_of_workers(mailbox, queue):
    """Eight workers over twelve mailboxes, with deaths and late holders: each in order, each once."""
    dice, graph, ended = random.Random(1), Graph(), asyncio.Event()
    names = {box: [f"{number}-0" for number in range(ITEMS)] for box in BOXES}
    await mailbox.deliver(
        (*box, Item(name, {"kind": "turn"})) for box in BOXES for name in names[box]
    )
    workers = [
        asyncio.create_task(work(mailbox, graph, queue, random.Random(dice.random()), ended))
        for _ in range(WORKERS)
    ]
    try:
        async with asyncio.timeout(30):
            while any((await mailbox.depths()).values()):
                for lane in ("index", "understand"):
                    await mailbox.sweep(lane)
                await asyncio.sleep(0.01)
    finally:
        ended.set()
        await asyncio.gather(*workers)
    assert graph.done == names
    assert await queue.xlen("gk:dead") == 0
