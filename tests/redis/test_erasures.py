"""Erasing in the queue: marks that keep entries from being routed, and what is taken out where."""

from __future__ import annotations

import orjson
import pytest

from gralkord.errors import LeaseLost
from gralkord.groups import Group
from gralkord.mailbox.erasures import Erasures
from gralkord.mailbox.items import Item
from gralkord.mailbox.purge import Purge
from gralkord.mailbox.scripts import Scripts
from gralkord.models import Capture
from gralkord.models.erasure import EraseScope

ANN = Group("default", "ann", "default").id
BOB = Group("default", "bob", "default").id
WORK = Group("default", "ann", "work").id
ALL = Group("default").id


@pytest.fixture
def erasures(queue, keys):
    """The marks and records."""
    return Erasures(queue, keys)


@pytest.fixture
def purge(queue, keys):
    """What takes out."""
    return Purge(queue, keys)


async def capture(producer, turn, *, tenant="default", **fields):
    values = {"session": "s", "operator": "ann", "agent": "Ada", "user": "Ann", "turn_id": turn}
    said = [{"role": "user", "content": f"words of {turn}"}]
    one = Capture.model_validate(values | {"turn": said} | fields)
    [receipt] = await producer.capture(tenant, [one])
    return receipt


async def route_all(router, rings, queue):
    for tenant in ("default", "other"):
        while await queue.xlen(f"gk:intake:{tenant}"):
            await router.route(rings)


async def turns(mailbox, group, lane="index"):
    """Do what waits; return the turns."""
    found = []
    while lease := await mailbox.acquire(lane, group, most=64):
        found += [item.body.get("turn_id") or item.body.get("turns") for item in lease.items]
        await mailbox.commit(lease, [item.id for item in lease.items])
    return found


def scope(**fields):
    return EraseScope.model_validate({"operator": "ann"} | fields)


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({}, []),
        ({"session": "s"}, ["t2", "t3"]),
        ({"turn": "t2"}, ["t1", "t3"]),
        ({"source": "book"}, ["t1", "t2"]),
        ({"session": "other"}, ["t1", "t2", "t3"]),
        ({"operator": "bob"}, ["t1", "t2", "t3"]),
    ],
)
async def test_what_waits_in_the_stream_is_not_routed(
    erasures, producer, make_router, mailbox, queue, rings, fields, left
):
    """Entries of the scope go nowhere; all others do, of other operators and tenants as well."""
    router = await make_router()
    await capture(producer, "t1")
    await capture(producer, "t2", session="two")
    await capture(producer, "t3", session="two", source="book")
    await capture(producer, "b1", operator="bob", session="b")
    await capture(producer, "t1", tenant="other")
    await erasures.open("default", "7-1", scope(**fields))
    await route_all(router, rings, queue)
    assert await turns(mailbox, ANN) == left
    assert await turns(mailbox, BOB) == ([] if fields.get("operator") == "bob" else ["b1"])
    assert await turns(mailbox, Group("other", "ann", "default").id) == ["t1"]


async def test_what_comes_later_is_routed(erasures, producer, make_router, mailbox, queue, rings):
    """While it is open all of the scope is held back, once it is closed only what came before."""
    router = await make_router()
    await route_all(router, rings, queue)
    assert await erasures.open("default", "7-1", scope()) == "0-0"
    first = await capture(producer, "t1")
    await route_all(router, rings, queue)
    second = await capture(producer, "t2")
    assert await erasures.renew("default", "7-1") == second.receipt
    assert await erasures.close("default", "7-1") == second.receipt
    await capture(producer, "t3")
    await route_all(router, rings, queue)
    assert await turns(mailbox, ANN) == ["t3"]
    again = await capture(producer, "t1")
    assert (again.duplicate, again.receipt) == (True, first.receipt)
    jobs = await queue.hgetall((await queue.keys("gk:jobs:default:*"))[0])
    assert orjson.loads(jobs[first.receipt.encode()]) == ["erased"]
    said = await Scripts(queue, "gk:").call("job", "default", first.receipt, 100, 10_000)
    assert not orjson.loads(said)


async def test_a_lens_is_taken_out_of_a_turn(
    erasures, producer, make_router, mailbox, queue, rings
):
    """A turn that goes through several lenses keeps the others."""
    router = await make_router()
    await capture(producer, "t1", lenses=["default", "work", "shared"])
    await capture(producer, "t2", lenses=["work"])
    await erasures.open("default", "7-1", scope(lens="work"))
    await erasures.close("default", "7-1")
    await erasures.end("default", "7-1")
    await erasures.open("default", "7-2", scope(lens="shared"))
    await route_all(router, rings, queue)
    await router.flush_due(rings, everything=True)
    assert await turns(mailbox, ANN) == ["t1"]
    assert await turns(mailbox, WORK) == []
    assert await turns(mailbox, ALL, "understand") == []


async def test_one_erasure_of_a_tenant_at_a_time(erasures, queue):
    """Another one waits until the first has ended, or has not been renewed; tenants do not wait."""
    assert await erasures.open("default", "7-1", scope()) is not None
    assert await erasures.open("default", "7-1", scope()) is not None
    assert await erasures.open("default", "7-2", scope()) is None
    assert await erasures.open("other", "7-3", scope()) is not None
    with pytest.raises(LeaseLost):
        await erasures.renew("default", "7-2")
    assert await erasures.current("default") == "7-1"
    await queue.delete("gk:erasing:default")
    assert await erasures.open("default", "7-2", scope()) is not None
    with pytest.raises(LeaseLost):
        await erasures.close("default", "7-1")
    await erasures.end("default", "7-1")
    assert await erasures.current("default") == "7-2"


async def test_marks_that_cover_nothing_any_more_go(erasures, producer, queue):
    """A closed mark goes with the next erasure, once no entry in the stream is older."""
    await capture(producer, "t1")
    for number in (1, 2):
        await erasures.open("default", f"7-{number}", scope())
        await erasures.close("default", f"7-{number}")
        await erasures.end("default", f"7-{number}")
    assert {b"7-1", b"7-2"} < set(await queue.hkeys("gk:erased:default"))
    await queue.xtrim("gk:intake:default", maxlen=0)
    await erasures.open("default", "7-3", scope())
    assert set(await queue.hkeys("gk:erased:default")) == {b"version", b"7-3"}
    assert await queue.ttl("gk:erased:default") > 6 * 24 * 3600


async def test_entries_are_deleted_up_to_an_id(purge, producer, queue):
    """Those that are judged so go, and their receipts say it; later ones are not looked at."""
    receipts = [(await capture(producer, f"t{number}")).receipt for number in range(3)]
    asked = []

    def doomed(entry, fields):
        asked.append(entry)
        return b"t0" in fields[b"data"]

    assert await purge.entries("default", receipts[1], doomed, dry=True) == 1
    assert await queue.xlen("gk:intake:default") == 3
    assert await purge.entries("default", receipts[1], doomed, dry=False) == 1
    assert asked == receipts[:2] * 2
    assert await queue.xlen("gk:intake:default") == 2


def item(number, **body):
    return Item(f"{number}-0", {"kind": "turn", "turn_id": f"t{number}", "session": "s"} | body)


async def test_items_are_taken_out_of_a_mailbox_in_place(purge, mailbox, queue):
    """Out of what waits and what was begun; the rest keeps its order, and one is written anew."""
    await mailbox.deliver(("index", ANN, item(number)) for number in range(250))
    await mailbox.deliver([("index", BOB, item(1))])
    lease = await mailbox.acquire("index", ANN, most=3)
    taken = await purge.seize("index", ANN, 10_000)
    with pytest.raises(LeaseLost):
        await mailbox.commit(lease, ["0-0"])

    def judge(one):
        number = int(one.body["turn_id"][1:])
        if number == 7:
            return Item(one.id, one.body | {"turn_id": "t7-less"})
        return None if number % 2 else one

    assert (await purge.items("index", ANN, judge, None)).items == 124
    gone = await purge.items("index", ANN, judge, taken)
    assert (gone.items, gone.sessions) == (124, {"s"})
    assert "t7" not in gone.turns
    await mailbox.release(taken)
    assert await mailbox.depths() == {"index": 127}
    left = [f"t{number}" for number in range(0, 250, 2)]
    left.insert(4, "t7-less")
    assert await turns(mailbox, ANN) == left
    assert await turns(mailbox, BOB) == ["t1"]


async def test_a_seized_lane_is_given_back_as_it_was(purge, mailbox, queue):
    """Nothing counts as a crash, an idle group leaves no key, and a late one changes nothing."""
    await mailbox.deliver([("index", ANN, item(1))])
    lease = await mailbox.acquire("index", ANN, most=1)
    taken = await purge.seize("index", ANN, 10_000)
    assert taken.epoch > lease.epoch
    assert await mailbox.acquire("index", ANN, most=1) is None
    await mailbox.renew(taken)
    later = await purge.seize("index", ANN, 10_000)
    with pytest.raises(LeaseLost):
        await purge.items("index", ANN, lambda _: None, taken)
    await mailbox.release(later)
    again = await mailbox.acquire("index", ANN, most=1)
    assert (again.crashes, [one.id for one in again.items]) == (0, ["1-0"])
    idle = await purge.seize("understand", BOB, 10_000)
    await mailbox.release(idle)
    assert await queue.exists(f"gk:meta:understand:{BOB}") == 0
    assert await queue.zcard("gk:leased:understand") == 0


async def test_a_flush_does_not_wait_for_what_was_taken_out(
    purge, producer, make_router, mailbox, queue, rings, flushes
):
    """Items that are gone are done for the flush that they belong to."""
    router = await make_router()
    await capture(producer, "t1")
    flush = await producer.flush("default", "s", "ann")
    await route_all(router, rings, queue)
    for lane in ("index", "understand"):
        lease = await purge.seize(lane, ANN, 10_000)
        await purge.items(lane, ANN, lambda _: None, lease)
        await mailbox.release(lease)
    state = await flushes.read("default", flush)
    assert (state.indexed, state.understood, state.dead) == (True, True, 0)
    assert await mailbox.depths() == {"index": 0, "understand": 0}


async def test_turns_are_taken_out_of_a_buffer(purge, producer, make_router, mailbox, queue, rings):
    """The others are flushed as they would have been, with the bytes that are left."""
    router = await make_router()
    for turn in ("t1", "t2", "t3"):
        await capture(producer, turn, lenses=["default", "work"])
    await route_all(router, rings, queue)
    assert await purge.unbuffer("default:s", {"t2", "t9"}, dry=True) == 1
    assert await purge.unbuffer("default:s", {"t2", "t9"}, dry=False) == 1
    assert await queue.hget("gk:session:default:s", "bytes") == b"22"
    await purge.unbuffer_group("default:s", WORK)
    await router.flush_due(rings, everything=True)
    assert await turns(mailbox, ANN, "understand") == [["t1", "t3"]]
    assert await turns(mailbox, WORK, "understand") == []


async def test_a_session_is_forgotten(purge, producer, make_router, queue, rings):
    """It is nobody's any more, and nothing of it is flushed; other sessions stay."""
    router = await make_router()
    await capture(producer, "t1")
    await capture(producer, "b1", operator="bob", session="b")
    await route_all(router, rings, queue)
    assert {one.id async for one in purge.sessions("default")} == {"s", "b"}
    assert await purge.forget_session("default:s", dry=True) == 1
    assert await purge.forget_session("default:s", dry=False) == 1
    assert [one.operator async for one in purge.sessions("default")] == ["bob"]
    assert await queue.zrange("gk:idle", 0, -1) == [b"default:b"]
    assert await purge.receipts("default", lambda job: job[0] == "ann", dry=False) == 1
    assert await purge.receipts("default", lambda job: job[0] == "ann", dry=False) == 0


async def test_a_stream_is_written_anew_with_the_same_entries(purge, queue, request):
    """Order, ids and fields stay, deleted entries are in memory no more, and ids go on growing."""
    if "fake" in request.node.callspec.id:
        pytest.skip("fakeredis keeps no blocks of memory, and knows no XSETID")
    await queue.config_set("rdbcompression", "no")
    ids = [await queue.xadd("gk:intake:default", {"a": f"word{number}"}) for number in range(9)]
    await queue.xdel("gk:intake:default", ids[0], ids[4], ids[8])
    assert b"word4" in await queue.dump("gk:intake:default")
    assert await purge.restream("default") == []
    assert b"word4" not in await queue.dump("gk:intake:default")
    entries = await queue.xrange("gk:intake:default")
    assert [entry for entry, _ in entries] == [ids[n] for n in (1, 2, 3, 5, 6, 7)]
    assert entries[-1][1] == {b"a": b"word7"}
    info = await queue.xinfo_stream("gk:intake:default")
    assert info["last-generated-id"] == ids[8]


async def test_seen_turns_are_soon_new_ones(purge, producer, queue):
    """A turn of the operator that is sent again much later is taken; others' are known as before."""
    await capture(producer, "t1")
    await capture(producer, "b1", operator="bob", session="b")
    await purge.forget_seen("default", "ann")
    assert 0 < await queue.pttl("gk:seen:default:ann:t1") <= 120_000
    assert await queue.pttl("gk:seen:default:bob:b1") > 120_000


async def test_answers_and_names_of_sessions_are_forgotten(
    purge, producer, make_router, queue, rings
):
    """Answers to requests of the groups go with their records; other flushes lose only a name.

    A request that nobody has answered yet stays where what it asks for stays.
    """
    router = await make_router()
    for session in ("s", "b"):
        await capture(producer, "t1", session=session, operator=session)
        await producer.flush("default", session, None)
    await route_all(router, rings, queue)
    scripts = Scripts(queue, "gk:")
    for request, group in (("5-1", ANN), ("5-2", BOB)):
        body = b'{"kind":"triples"}'
        await scripts.call("request", f"default:{request}", group, ".q", body, 10)
        await queue.set(f"gk:result:default:{request}", "words")
    await scripts.call("request", "default:5-3", ANN, ".q", b'{"kind":"triples"}', 10)
    await purge.forget_flushes("default", {"s"}, {ANN}, open_too=False)
    assert await queue.exists("gk:flush:default:5-3")
    await purge.forget_flushes("default", {"s"}, {ANN})
    assert not await queue.exists("gk:flush:default:5-3")
    assert set(await queue.keys("gk:result:*")) == {b"gk:result:default:5-2"}
    records = [await queue.hgetall(key) for key in await queue.keys("gk:flush:*")]
    assert sorted(record.get(b"session", b"") for record in records) == [b"", b"", b"b"]
