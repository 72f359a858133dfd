"""One group with thousands of items does not hold up the others' index lane."""

from __future__ import annotations

import asyncio
import statistics
import time

from gralkord.clock import SystemClock
from gralkord.config import Server
from gralkord.graph.passages import PassageStore
from gralkord.groups import Group
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.items import Item
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.turns.index import IndexLane, IndexParts

NOISY = Group("default", "noisy", "default").id
OTHERS = [Group(("default", "other")[n % 2], f"op{n}", "default").id for n in range(20)]
NOISE = 4_000
ROUNDS = 3
# A slice of the noisy group is at most one of four writes under way, so that others wait for less
# than one slice; two processors shared with the servers leave room for doubt.
MOST_TIMES = 6


class Timed(PassageStore):
    """A store that notes when the turns of each group are written, thus recallable."""

    def __init__(self, connection) -> None:
        super().__init__(connection)
        self.written = {}

    async def write(self, group, epoch, passages, **options):
        """Write and note the time."""
        created = await super().write(group, epoch, passages, **options)
        for passage in passages:
            self.written[group, passage.turn_id] = time.monotonic()
        return created


def turn(number, group):
    body = {
        "kind": "turn",
        "turn_id": f"t{number}",
        "session": "s",
        "operator": "op",
        "agent": "Ada",
        "user": "Ann",
        "event_time": "2024-05-01T09:30:00Z",
        "ordinal": number + 1,
        "source": None,
        "offset": None,
        "messages": [{"role": "user", "content": f"words of {group} {number}"}],
    }
    return Item(f"{number}-0", body)


async def latencies(mailbox, lane, store, start):
    """Give each of the others a turn, round after round; return the seconds until each was written."""
    found = []
    for number in range(start, start + ROUNDS):
        began = time.monotonic()
        for group in OTHERS:
            await mailbox.deliver([("index", group, turn(number, group))])
            lane.ring(group)
        async with asyncio.timeout(20):
            while not all((group, f"t{number}") in store.written for group in OTHERS):  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        found += [store.written[group, f"t{number}"] - began for group in OTHERS]
    return found


async def test_a_noisy_group_does_not_delay_the_others(queue_socket, graph):
    """Twenty groups are indexed as soon beside one with thousands of items as without it."""
    queue = open_queue(Server(socket=queue_socket))
    mailbox, store = Mailbox(queue, Keys()), Timed(graph)
    lane = IndexLane(IndexParts(mailbox, graph, store, None, SystemClock()))
    await asyncio.gather(*(graph.ensure_group(group) for group in (NOISY, *OTHERS)))
    alone = await latencies(mailbox, lane, store, 0)

    await mailbox.deliver(("index", NOISY, turn(number, NOISY)) for number in range(NOISE))
    lane.ring(NOISY)
    beside = await latencies(mailbox, lane, store, ROUNDS)
    assert (NOISY, f"t{NOISE - 1}") not in store.written  # the noise went on all the time
    assert statistics.median(beside) < MOST_TIMES * statistics.median(alone)
    assert max(beside) < MOST_TIMES * max(alone)
    await lane.close()
    await queue.aclose()
