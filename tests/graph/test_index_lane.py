"""The index lane on a real queue and a real graph."""

from __future__ import annotations

import asyncio

import pytest

from gralkord.clock import SystemClock
from gralkord.config import Server
from gralkord.errors import BackendUnavailable, InvalidInput, LeaseLost
from gralkord.graph.passages import PassageStore
from gralkord.groups import Group
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.items import Item
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.turns.index import IndexLane, IndexParts

ANN = Group("default", "ann", "default").id
BOB = Group("other", "ann", "default").id


@pytest.fixture
async def queue(queue_socket):
    """A client of an empty queue Redis."""
    client = open_queue(Server(socket=queue_socket))
    yield client
    await client.aclose()


@pytest.fixture
def mailbox(queue):
    """The mailboxes."""
    return Mailbox(queue, Keys())


@pytest.fixture
def store(graph):
    """The passages."""
    return PassageStore(graph)


@pytest.fixture
async def make_lane(mailbox, graph):
    """Make an index lane over a given store; it is closed after the test."""
    lanes = []

    def make(store):
        lanes.append(IndexLane(IndexParts(mailbox, graph, store, None, SystemClock())))
        return lanes[-1]

    yield make
    for lane in lanes:
        await lane.close()


def turn(number, text=None):
    return Item(
        f"{number}-0",
        {
            "kind": "turn",
            "turn_id": f"t{number}",
            "session": "s",
            "operator": "ann",
            "agent": "Ada",
            "user": "Ann",
            "event_time": "2024-05-01T09:30:00Z",
            "ordinal": 10 * number + 1,
            "source": None,
            "offset": None,
            "messages": [{"role": "user", "content": text or f"words {number}"}],
        },
    )


async def until_empty(mailbox, *groups):
    async with asyncio.timeout(20):
        for group in groups:
            while not await mailbox.idle("index", group):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def texts(store, group):
    return [passage.text for passage in await store.waiting(group, 1000)]


async def test_items_become_passages_in_order_each_in_its_group(mailbox, store, make_lane):
    """What stands in two mailboxes ends in two graphs, in order."""
    lane = make_lane(store)
    for group in (ANN, BOB):
        items = [turn(number, f"{group} {number:03}") for number in range(150)]
        await mailbox.deliver(("index", group, item) for item in items)
        lane.ring(group)
    await until_empty(mailbox, ANN, BOB)
    for group in (ANN, BOB):
        assert await texts(store, group) == [f"{group} {number:03}" for number in range(150)]


async def test_an_item_that_comes_while_the_lane_holds_the_group_is_taken(
    mailbox, store, make_lane
):
    """A holder that waits for the disk writes what comes meanwhile."""
    lane = make_lane(store)
    for number in range(5):
        for lane_name, group in await mailbox.deliver([("index", ANN, turn(number))]):
            assert lane_name == "index"
            lane.ring(group)
        async with asyncio.timeout(0.9):  # less than the graph's file takes to be synced
            while len(await texts(store, ANN)) <= number:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    await until_empty(mailbox, ANN)


class Failing(PassageStore):
    """A store that fails for one text."""

    def __init__(self, connection, error, times=1000):
        super().__init__(connection)
        self.error, self.times = error, times

    async def write(self, group, epoch, passages, **options):
        """Fail while told to, if the text is there."""
        if self.times and any(passage.text == "bad" for passage in passages):
            self.times -= 1
            raise self.error
        return await super().write(group, epoch, passages, **options)


async def test_one_item_that_can_never_be_written_does_not_take_its_neighbours_along(
    mailbox, graph, queue, make_lane, store
):
    """A poisoned item ends alone in the dead letters; those around it are written, in order."""
    lane = make_lane(Failing(graph, InvalidInput("no")))
    items = [turn(0), turn(1, "bad"), turn(2)]
    await mailbox.deliver(("index", ANN, item) for item in items)
    async with asyncio.timeout(20):
        while not await mailbox.idle("index", ANN):
            lane.ring(ANN)
            await asyncio.sleep(0.01)
    assert await texts(store, ANN) == ["words 0", "words 2"]
    [(_, letter)] = await queue.xrange("gk:dead")
    assert letter[b"item"].startswith(b"1-0 ")


async def test_an_outage_of_the_graph_uses_no_attempt(mailbox, graph, queue, make_lane, store):
    """However often the graph is down, the item waits and is written in the end."""
    lane = make_lane(Failing(graph, BackendUnavailable(retry_after=0), times=12))
    await mailbox.deliver([("index", ANN, turn(0, "bad"))])
    async with asyncio.timeout(20):
        while not await mailbox.idle("index", ANN):
            lane.ring(ANN)
            await asyncio.sleep(0.01)
    assert await texts(store, ANN) == ["bad"]
    assert await queue.xlen("gk:dead") == 0


async def test_a_holder_that_was_frozen_writes_nothing(mailbox, graph, queue, store):
    """After a takeover the old holder's write is refused by the graph, its commit by the mailbox."""
    await mailbox.deliver([("index", ANN, turn(0))])
    old = await mailbox.acquire("index", ANN, most=1)
    await queue.zadd("gk:leased:index", {ANN: 0})
    await mailbox.sweep("index")
    lane = IndexLane(IndexParts(mailbox, graph, store, None, SystemClock()))
    lane.ring(ANN)
    await until_empty(mailbox, ANN)
    from gralkord.turns.passages import passages_of

    late = passages_of(ANN, turn(1, "late").body)
    with pytest.raises(LeaseLost):
        await store.write(ANN, old.epoch, late, created_ms=0, fingerprint="")
    with pytest.raises(LeaseLost):
        await mailbox.commit(old, ["0-0"])
    assert await texts(store, ANN) == ["words 0"]
    await lane.close()


async def test_the_two_lanes_of_a_group_do_not_fence_each_other(mailbox, graph, store):
    """A later epoch in the understand lane refuses no write of the index lane."""
    from gralkord.graph import schema
    from gralkord.turns.passages import passages_of

    await mailbox.deliver([("index", ANN, turn(0)), ("understand", ANN, turn(1))])
    index = await mailbox.acquire("index", ANN, most=1)
    later = await mailbox.acquire("understand", ANN, most=1)
    assert later.epoch > index.epoch
    await graph.ensure_group(ANN)
    fenced = schema.UNDERSTAND_FENCE + "RETURN m.seq"
    assert await graph.write(ANN, fenced, {"epoch": later.epoch})
    passages = passages_of(ANN, turn(0).body)
    assert await store.write(ANN, index.epoch, passages, created_ms=0, fingerprint="")


class Disk:
    """A graph whose disk, and a store whose third write, take as long as they are told to."""

    def __init__(self):
        self.happened, self.syncs = [], asyncio.Queue()
        self.third, self.may_end = asyncio.Event(), asyncio.Event()

    async def ensure_group(self, group):
        """Have every group."""

    async def known_run(self):
        """Never restart."""
        return "run"

    async def wait_durable(self, run):
        """Sync when it is let."""
        self.happened.append("sync")
        let = asyncio.Event()
        await self.syncs.put(let)
        await let.wait()

    async def write(self, group, epoch, passages, **options):
        """Write, the third time when it is let."""
        number = passages[0].turn_id
        if number == "t3":
            self.third.set()
            await self.may_end.wait()
        self.happened.append(number)
        return []


async def test_what_was_being_written_during_a_sync_waits_for_another(mailbox, queue):
    """A slice is committed after a sync that began when its write had ended."""
    disk = Disk()
    lane = IndexLane(IndexParts(mailbox, disk, disk, None, SystemClock()))

    async def put(number):
        await mailbox.deliver([("index", ANN, turn(number))])
        lane.ring(ANN)

    async with asyncio.timeout(20):
        await put(1)
        first = await disk.syncs.get()
        await put(2)
        while "t2" not in disk.happened:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await put(3)
        await disk.third.wait()
        first.set()
        (await disk.syncs.get()).set()  # covers the second, while the third is being written
        while (await mailbox.depths())["index"] > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        disk.may_end.set()
        (await disk.syncs.get()).set()
        await until_empty(mailbox, ANN)
    assert disk.happened == ["t1", "sync", "t2", "sync", "t3", "sync"]
    await lane.close()
