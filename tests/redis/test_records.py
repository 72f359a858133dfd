"""What the queue keeps beside the work: takeovers, the last failure, receipts, who was buried."""

from __future__ import annotations

import asyncio

import orjson

from gralkord.groups import Group
from gralkord.mailbox.items import Item
from gralkord.models import Capture

ANN, BOB = (Group("default", name, "default").id for name in ("ann", "bob"))


def turn_item(turn_id, **body):
    return Item(f"item-{turn_id}", {"kind": "turn", "turn_id": turn_id} | body)


async def put(mailbox, *items, group=ANN, lane="understand"):
    await mailbox.deliver((lane, group, item) for item in items)


async def take(mailbox, group=ANN, lane="understand"):
    return await mailbox.acquire(lane, group, most=1)


async def expire(mailbox, queue, group=ANN):
    await queue.zadd("gk:leased:understand", {group: 0})
    await mailbox.sweep("understand")


async def fail(mailbox, lease, verdict="bury", reason="broken"):
    await mailbox.fail(
        lease, lease.items[0].id, verdict=verdict, delay_ms=0, reason=reason, detail="how"
    )


def capture(turn_id, operator="ann", session="s", **fields):
    fields |= {"agent": "Ada", "user": "Ann", "turn": [{"role": "user", "content": "hello"}]}
    return Capture(session=session, operator=operator, turn_id=turn_id, **fields)


async def jobs(queue, tenant="default"):
    [key] = await queue.keys(f"gk:jobs:{tenant}:*")
    assert 0 < await queue.pttl(key) <= (7 * 24 + 1) * 3600 * 1000
    return {
        name.decode(): orjson.loads(record) for name, record in (await queue.hgetall(key)).items()
    }


async def test_a_takeover_is_counted_with_the_time_it_took(mailbox, queue):
    """The time runs from the last sign of life of the holder that was lost."""
    await put(mailbox, turn_item("a"))
    lease = await take(mailbox)
    await asyncio.sleep(0.05)
    await mailbox.renew(lease)
    await asyncio.sleep(0.02)
    await expire(mailbox, queue)
    await take(mailbox)
    counters = await queue.hgetall("gk:counters")
    assert counters[b"takeovers"] == b"1"
    assert 20 <= int(counters[b"worst_takeover_ms"]) < 5_000


async def test_what_was_given_back_is_no_takeover(mailbox, queue):
    """Neither a release, nor a failure, nor a commit makes the next holder one who takes over."""
    await put(mailbox, turn_item("a"), turn_item("b"))
    await mailbox.release(await take(mailbox))
    await fail(mailbox, await take(mailbox), verdict="wait")
    await mailbox.commit(await take(mailbox), ["item-a"])
    await take(mailbox)
    assert b"takeovers" not in await queue.hgetall("gk:counters")


async def test_the_last_failure_is_known_until_the_item_is_done(mailbox, queue):
    """A mailbox says why its head waits, and forgets it with the head."""
    meta = f"gk:meta:understand:{ANN}"
    await put(mailbox, turn_item("a"), turn_item("b"))
    await fail(mailbox, await take(mailbox), verdict="wait", reason="model_outage")
    kept = await queue.hgetall(meta)
    assert (kept[b"reason"], kept[b"detail"]) == (b"model_outage", b"how")
    assert int(kept[b"failed_ms"]) > 0
    await mailbox.commit(await take(mailbox), ["item-a"])
    assert b"reason" not in await queue.hgetall(meta)


async def test_who_was_buried_can_be_found_by_group_and_turn(mailbox, queue):
    """Each turn of a dead letter points at it, in its own group only."""
    await put(mailbox, turn_item("a"), lane="index")
    await put(mailbox, Item("x", {"kind": "understand", "turns": ["a", "b"]}), group=BOB)
    await fail(mailbox, await take(mailbox, lane="index"))
    await fail(mailbox, await take(mailbox, group=BOB))
    first, second = [name for name, _ in await queue.xrange("gk:dead")]
    assert await queue.hgetall("gk:buried") == {
        f"{ANN} a".encode(): first,
        f"{BOB} a".encode(): second,
        f"{BOB} b".encode(): second,
    }
    assert (await queue.hgetall("gk:counters"))[b"dead_buried"] == b"2"


async def test_a_dead_letter_says_how_often_its_item_was_tried(mailbox, queue):
    """The attempts stand beside the reason."""
    await put(mailbox, turn_item("a"))
    for _ in range(4):
        await fail(mailbox, await take(mailbox), verdict="count")
    [(_, letter)] = await queue.xrange("gk:dead")
    assert letter[b"attempts"] == b"4"


async def test_a_flush_says_how_many_of_its_items_died(
    producer, make_router, mailbox, queue, flushes, rings
):
    """A flush that waited for a dead letter ends, and does not call itself complete."""
    await producer.capture("default", [capture("t1")])
    flush = await producer.flush("default", "s", None)
    await (await make_router()).route(rings)
    await fail(mailbox, await take(mailbox, lane="index"))
    await mailbox.commit(lease := await take(mailbox, lane="index"), [lease.items[0].id])
    await fail(mailbox, await take(mailbox))
    result = await flushes.wait("default", flush, "understood", 5)
    assert (result.complete, result.reason, result.dead) == (False, "dead_letters", 1)


async def test_a_receipt_can_be_followed_after_its_entry_is_gone(
    producer, make_router, queue, rings
):
    """Routing leaves, by entry, whose turn it was and which groups it went to."""
    [receipt] = await producer.capture("default", [capture("t1", lenses=["shared"])])
    await (await make_router()).route(rings)
    operator, session, turn_id, routed_ms, homes, understood = (await jobs(queue))[receipt.receipt]
    assert (operator, session, turn_id, homes) == ("ann", "s", "t1", [ANN])
    assert understood == [Group("default").id]
    assert routed_ms > 0


async def test_receipts_of_tenants_are_apart(producer, make_router, queue, rings):
    """A receipt is known within its tenant only."""
    router = await make_router()
    # Ids are given by stream, so that two tenants may have the same one.
    await producer.capture("default", [capture("t1", session="ours")])
    [receipt] = await producer.capture("other", [capture("t1", session="theirs")])
    while await queue.xlen("gk:intake:default") + await queue.xlen("gk:intake:other"):
        await router.route(rings)
    assert [job[1] for job in (await jobs(queue)).values()] == ["ours"]
    assert (await jobs(queue, "other"))[receipt.receipt][1] == "theirs"


async def test_a_resend_points_at_the_first_and_a_dead_entry_at_its_letter(
    producer, make_router, queue, rings
):
    """What became of an entry is known also when nothing was made of it."""
    [first] = await producer.capture("default", [capture("t1")])
    data = capture("t1").model_dump_json(exclude_none=True)
    again = await queue.xadd("gk:intake:default", {"kind": "turn", "data": data})
    bad = await queue.xadd("gk:intake:default", {"kind": "turn", "data": "{"})
    await (await make_router()).route(rings)
    [(letter, _)] = await queue.xrange("gk:dead")
    known = await jobs(queue)
    assert known[again.decode()] == ["seen", first.receipt]
    assert known[bad.decode()] == ["dead", letter.decode()]
