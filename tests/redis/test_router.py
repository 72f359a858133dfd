"""From the intake stream to mailboxes and session buffers."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from gralkord.errors import InvalidInput, SessionConflict, UnknownLens
from gralkord.groups import Group
from gralkord.models import Capture

ANN = Group("default", "ann", "default").id


def said(text="hello", **fields):
    base = {
        "session": "s",
        "operator": "ann",
        "agent": "Ada",
        "user": "Ann",
        "turn": [{"role": "user", "content": text}],
    }
    return Capture.model_validate(base | fields)


async def route_all(router, rings, queue, tenant="default"):
    while await queue.xlen(f"gk:intake:{tenant}"):
        await router.route(rings)


async def bodies(mailbox, lane, group):
    found = []
    while lease := await mailbox.acquire(lane, group, most=64):
        found += [dict(item.body) for item in lease.items]
        await mailbox.commit(lease, [item.id for item in lease.items])
    return found


async def letters(queue):
    return [
        {key.decode(): value.decode(errors="replace") for key, value in fields.items()}
        for _, fields in await queue.xrange("gk:dead")
    ]


async def test_a_captured_turn_is_indexed_and_buffered(
    producer, make_router, mailbox, queue, rings
):
    """A routed turn stands in the index mailbox of its group and in its session's buffer."""
    [receipt] = await producer.capture("default", [said(turn_id="t1")])
    await route_all(await make_router(), rings, queue)
    assert rings == [("index", ANN)]
    [body] = await bodies(mailbox, "index", ANN)
    assert body["turn_id"] == receipt.turn_id == "t1"
    assert body["messages"] == [{"role": "user", "content": "hello"}]
    assert await queue.llen("gk:buffer:default:s") == 1


async def test_ordinals_grow_within_a_session(producer, make_router, mailbox, queue, rings):
    """Each message has a greater ordinal than those before it."""
    two = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    await producer.capture("default", [said(turn=two), said("c"), said("d")])
    await route_all(await make_router(), rings, queue)
    ordinals = [body["ordinal"] for body in await bodies(mailbox, "index", ANN)]
    assert ordinals[0] + 2 <= ordinals[1] < ordinals[2]


async def test_a_resent_turn_is_one_turn(producer, make_router, mailbox, queue, rings):
    """The same turn id is taken once, whether it comes by the producer or by plain XADD."""
    [first] = await producer.capture("default", [said(turn_id="t1")])
    [again] = await producer.capture("default", [said(turn_id="t1")])
    data = said(turn_id="t1").model_dump_json(exclude_none=True)
    await queue.xadd("gk:intake:default", {"kind": "turn", "data": data})
    await route_all(await make_router(), rings, queue)
    assert (again.duplicate, again.receipt) == (True, first.receipt)
    assert len(await bodies(mailbox, "index", ANN)) == 1


async def test_the_same_words_twice_are_two_turns(producer, make_router, mailbox, queue, rings):
    """Turns without an id are never taken for each other."""
    await producer.capture("default", [said(), said()])
    await route_all(await make_router(), rings, queue)
    assert len(await bodies(mailbox, "index", ANN)) == 2


async def test_turn_ids_of_two_tenants_are_two_turns(producer, make_router, mailbox, queue, rings):
    """A turn id is known within its tenant only."""
    router = await make_router()
    await producer.capture("default", [said(turn_id="t1")])
    await producer.capture("other", [said(turn_id="t1")])
    await route_all(router, rings, queue)
    await route_all(router, rings, queue, "other")
    for tenant in ("default", "other"):
        assert len(await bodies(mailbox, "index", Group(tenant, "ann", "default").id)) == 1


async def test_turn_ids_of_two_operators_are_two_turns(
    producer, make_router, mailbox, queue, rings
):
    """An operator's turn is never taken for another's, by the producer or by plain XADD."""
    bob = said(turn_id="t1", session="b", operator="bob")
    eve = said(turn_id="t1", session="e", operator="eve").model_dump_json(exclude_none=True)
    receipts = await producer.capture("default", [said(turn_id="t1"), bob])
    await queue.xadd("gk:intake:default", {"kind": "turn", "data": eve})
    await route_all(await make_router(), rings, queue)
    assert [receipt.duplicate for receipt in receipts] == [False, False]
    for operator in ("ann", "bob", "eve"):
        group = Group("default", operator, "default").id
        assert len(await bodies(mailbox, "index", group)) == 1


async def test_a_session_keeps_its_operator(producer, queue):
    """A capture that names another operator is refused with both values, and stores nothing."""
    await producer.capture("default", [said()])
    [refusal] = await producer.capture("default", [said(operator="bob")])
    assert isinstance(refusal, SessionConflict)
    assert "'ann'" in refusal.message
    assert "'bob'" in refusal.message
    assert await queue.xlen("gk:intake:default") == 1


async def test_a_conflict_in_the_stream_is_a_dead_letter_with_the_whole_entry(
    make_router, queue, rings, mailbox
):
    """A plain XADD that breaks the session's binding is kept as a dead letter."""
    for operator in ("ann", "bob"):
        data = said("precious words", operator=operator).model_dump_json(exclude_none=True)
        await queue.xadd("gk:intake:default", {"kind": "turn", "data": data})
    await route_all(await make_router(), rings, queue)
    [letter] = await letters(queue)
    assert letter["reason"] == "session_conflict"
    assert "operator ann" in letter["detail"]
    assert "precious words" in letter["item"]
    assert await bodies(mailbox, "index", Group("default", "bob", "default").id) == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "turn", "data": "not json"}, "is not JSON"),
        ({"kind": "turn", "data": b"\xff\xfe"}, "byte 1 is not valid UTF-8"),
        ({"kind": "song", "data": "{}"}, "unknown kind 'song'"),
        ({"other": "field"}, "unknown kind"),
        ({"kind": "turn", "data": "{}"}, "session"),
        ({"kind": "turn", "data": "[]"}, "must be a JSON object"),
        (
            {"kind": "turn", "data": said().model_dump_json()[:-1] + ',"extra":1}'},
            "extra: no such field",
        ),
        (
            {"kind": "turn", "data": said(lenses=["nope"]).model_dump_json(exclude_none=True)},
            "no lens is named 'nope'",
        ),
        (
            {
                "kind": "turn",
                "data": said(event_time="9999-01-01T00:00:00").model_dump_json(exclude_none=True),
            },
            "in the future",
        ),
    ],
)
async def test_an_unreadable_entry_is_a_dead_letter(
    make_router, queue, rings, mailbox, producer, fields, reason
):
    """What cannot be read is kept with its reason, and what follows it is routed."""
    await queue.xadd("gk:intake:default", fields)
    await producer.capture("default", [said("after")])
    await route_all(await make_router(), rings, queue)
    [letter] = await letters(queue)
    assert letter["reason"] in {"invalid_input", "unknown_lens", "malformed"}
    assert reason in letter["detail"]
    assert len(await bodies(mailbox, "index", ANN)) == 1


async def test_an_entry_with_an_id_of_the_far_future_arrived_now(
    make_router, mailbox, queue, rings
):
    """An id that somebody chose is no time to believe, and holds up nothing after it."""
    data = said().model_dump_json(exclude_none=True)
    before = datetime.now(UTC)
    await queue.xadd("gk:intake:default", {"kind": "turn", "data": data}, "9" * 19 + "-1")
    await queue.xadd("gk:intake:default", {"kind": "turn", "data": data})
    await route_all(await make_router(), rings, queue)
    found = await bodies(mailbox, "index", ANN)
    assert len(found) == 2
    for body in found:
        assert abs(datetime.fromisoformat(body["event_time"]) - before) < timedelta(minutes=1)


async def test_the_last_id_there_is_ends_no_stream(producer, make_router, mailbox, queue, rings):
    """Who writes the largest of all ids holds up nobody once that entry is routed."""
    data = said().model_dump_json(exclude_none=True)
    last = f"{2**64 - 1}-{2**64 - 1}"
    await queue.xadd("gk:intake:default", {"kind": "turn", "data": data}, last)
    await route_all(await make_router(), rings, queue)
    [receipt] = await producer.capture("default", [said("after")])
    assert int(receipt.receipt.partition("-")[0]) < 2**48
    await route_all(await make_router(), rings, queue)
    assert len(await bodies(mailbox, "index", ANN)) == 2


async def test_an_entry_that_breaks_the_planner_is_a_dead_letter(
    make_router, queue, rings, monkeypatch
):
    """A fault of ours with one entry does not hold up the others."""
    monkeypatch.setattr("gralkord.intake.plan.check_event_time", None)
    data = said().model_dump_json(exclude_none=True)
    await queue.xadd("gk:intake:default", {"kind": "turn", "data": data})
    await route_all(await make_router(), rings, queue)
    assert [letter["reason"] for letter in await letters(queue)] == ["internal"]


async def test_an_unknown_lens_is_refused_at_capture(producer, queue):
    """A capture through an unknown lens stores nothing; the good ones of its batch are stored."""
    answers = await producer.capture("default", [said(lenses=["nope"]), said("good")])
    assert isinstance(answers[0], UnknownLens)
    assert await queue.xlen("gk:intake:default") == 1


async def test_a_turn_of_the_far_future_is_refused(producer, queue):
    """An event time more than a day ahead is refused with the latest that is accepted."""
    later = datetime.now(UTC) + timedelta(days=2)
    [refusal] = await producer.capture("default", [said(event_time=later)])
    assert isinstance(refusal, InvalidInput)
    assert refusal.field == "event_time"
    assert await queue.xlen("gk:intake:default") == 0


async def test_a_lens_has_its_own_group_and_a_global_one_holds_no_passages(
    producer, make_router, mailbox, queue, rings
):
    """Passages go to operator lenses; a turn for a global lens keeps them in the default group."""
    await producer.capture("default", [said("a", lenses=["work"]), said("b", lenses=["shared"])])
    await route_all(await make_router(), rings, queue)
    assert len(await bodies(mailbox, "index", Group("default", "ann", "work").id)) == 1
    assert len(await bodies(mailbox, "index", ANN)) == 1
    assert await bodies(mailbox, "index", Group("default").id) == []


async def test_a_router_that_lost_its_lease_changes_nothing(
    producer, make_router, mailbox, queue, rings
):
    """A router whose lease another process holds takes no entry, whatever it has read."""
    old = await make_router("old")
    await queue.hset("gk:router", "expires", 0)
    new = await make_router("new")
    await producer.capture("default", [said()])
    assert await old.route(rings) == 0
    assert await new.route(rings) == 1
    assert not await old.lead()


async def test_fighting_routers_keep_the_order(producer, make_router, mailbox, queue, rings):
    """Whoever routes, turns come to the mailbox once and in the order they were captured."""
    await producer.capture("default", [said(str(n), turn_id=f"t{n}") for n in range(500)])
    routers = [await make_router(f"r{n}") for n in range(3)]
    chance = random.Random(7)

    async def fight(router):
        while await queue.xlen("gk:intake:default"):
            await queue.hset("gk:router", "expires", 0)
            await router.lead()
            await router.route(rings)
            await asyncio.sleep(chance.random() / 200)

    await asyncio.gather(*(fight(router) for router in routers))
    texts = [body["messages"][0]["content"] for body in await bodies(mailbox, "index", ANN)]
    assert texts == [str(n) for n in range(500)]


async def test_a_flush_hands_the_buffer_over_and_is_told_when_it_is_understood(
    producer, make_router, mailbox, queue, rings, flushes
):
    """A flush is indexed when the index lane is through, understood when its items are done."""
    await producer.capture("default", [said("a", turn_id="t1"), said("b", turn_id="t2")])
    flush = await producer.flush("default", "s", "ann")
    await route_all(await make_router(), rings, queue)
    assert (await flushes.read("default", flush)).state == "queued"
    await bodies(mailbox, "index", ANN)
    state = await flushes.read("default", flush)
    assert (state.state, state.turns) == ("indexed", 2)
    [item] = await bodies(mailbox, "understand", ANN)
    assert item["turns"] == ["t1", "t2"]
    assert (await flushes.read("default", flush)).state == "understood"
    assert await queue.llen("gk:buffer:default:s") == 0


async def test_without_a_model_a_flush_answers_at_indexed_and_says_so(
    producer, make_router, mailbox, queue, rings, flushes
):
    """With no model nothing is queued for understanding."""
    await producer.capture("default", [said()])
    flush = await producer.flush("default", "s", None)
    await route_all(await make_router(understanding=False), rings, queue)
    await bodies(mailbox, "index", ANN)
    result = await flushes.wait("default", flush, "understood", 1)
    assert (result.state, result.complete, result.reason) == ("indexed", True, "no_model")
    assert await bodies(mailbox, "understand", ANN) == []


async def test_a_flush_waits_for_what_an_earlier_flush_handed_over(
    producer, make_router, mailbox, queue, rings, flushes
):
    """With an empty buffer a flush is understood when the session's earlier items are."""
    router = await make_router(flush_turns=1)
    await producer.capture("default", [said()])
    flush = await producer.flush("default", "s", None)
    await route_all(router, rings, queue)
    await bodies(mailbox, "index", ANN)
    assert (await flushes.read("default", flush)).state == "indexed"
    await bodies(mailbox, "understand", ANN)
    assert (await flushes.read("default", flush)).state == "understood"


async def test_a_flush_of_an_unknown_session_is_done_at_once(
    producer, make_router, queue, rings, flushes
):
    """There is nothing to wait for in a session that nobody has used."""
    flush = await producer.flush("default", "nobody", None)
    await route_all(await make_router(), rings, queue)
    assert (await flushes.wait("default", flush, "understood", 1)).turns == 0


async def test_a_waiter_is_woken_by_the_event_not_by_the_clock(
    producer, make_router, mailbox, queue, rings, flushes
):
    """Whoever waits for a flush is answered when it is done."""
    follower = asyncio.create_task(flushes.follow())
    await producer.capture("default", [said()])
    flush = await producer.flush("default", "s", None)
    waiter = asyncio.create_task(flushes.wait("default", flush, "understood", 30))
    await route_all(await make_router(), rings, queue)
    await bodies(mailbox, "index", ANN)
    await bodies(mailbox, "understand", ANN)
    async with asyncio.timeout(4):
        assert (await waiter).state == "understood"
    follower.cancel()


async def test_a_wait_ends_at_its_deadline_and_the_work_goes_on(
    producer, make_router, queue, rings, flushes
):
    """At the deadline a flush answers how far it is; nothing is lost."""
    await producer.capture("default", [said()])
    flush = await producer.flush("default", "s", None)
    await route_all(await make_router(), rings, queue)
    result = await flushes.wait("default", flush, "understood", 0.05)
    assert (result.complete, result.reason) == (False, "timeout")
    assert int(await queue.hget("gk:depth", "understand")) == 1


async def test_a_flush_that_names_another_operator_is_refused(producer):
    """The operator of a flush must be the session's."""
    await producer.capture("default", [said()])
    with pytest.raises(SessionConflict):
        await producer.flush("default", "s", "bob")


async def test_size_flushes_a_session(producer, make_router, mailbox, queue, rings):
    """So many turns, or so many bytes, are handed over without being asked."""
    await producer.capture("default", [said(str(n), turn_id=f"t{n}") for n in range(5)])
    await route_all(await make_router(flush_turns=2), rings, queue)
    handed = [body["turns"] for body in await bodies(mailbox, "understand", ANN)]
    assert handed == [["t0", "t1"], ["t2", "t3"]]
    await producer.capture("default", [said("x" * 1000, session="long")])
    await route_all(await make_router(flush_bytes=1000), rings, queue)
    assert len(await bodies(mailbox, "understand", ANN)) == 1


async def test_an_idle_session_is_flushed_and_a_busy_one_is_not(
    producer, make_router, mailbox, queue, rings
):
    """A session is handed over when it has been idle for the configured time."""
    router = await make_router(idle_seconds=60)
    await producer.capture("default", [said(session="old"), said(session="new")])
    await route_all(router, rings, queue)
    await queue.zadd("gk:idle", {"default:old": 0})
    assert await router.flush_due(rings) == 1
    [item] = await bodies(mailbox, "understand", ANN)
    assert item["session"] == "old"


async def test_shutdown_flushes_every_session_even_if_idle_never_does(
    producer, make_router, queue, rings
):
    """All buffers are handed over at shutdown."""
    router = await make_router(idle_seconds=0)
    await producer.capture("default", [said(session="a"), said(session="b")])
    await route_all(router, rings, queue)
    assert await router.flush_due(rings) == 0
    assert await router.flush_due(rings, everything=True) == 2
    assert await queue.keys("gk:buffer:*") == []


async def test_long_or_long_separated_turns_become_several_items(
    producer, make_router, mailbox, queue, rings
):
    """An item holds what one episode should: no more than a stretch of one conversation."""
    days = [f"2024-05-0{day}T10:00:00Z" for day in (1, 1, 3)]
    await producer.capture(
        "default", [said(str(n), turn_id=f"t{n}", event_time=day) for n, day in enumerate(days)]
    )
    await producer.flush("default", "s", None)
    await route_all(await make_router(), rings, queue)
    handed = [body["turns"] for body in await bodies(mailbox, "understand", ANN)]
    assert handed == [["t0", "t1"], ["t2"]]


async def test_a_wait_keeps_its_deadline_while_the_queue_hangs(
    producer, make_router, queue, rings, flushes, monkeypatch
):
    """A queue that does not answer costs the waiter no more than the time it gave."""
    flush = await producer.flush("default", "s", None)

    async def hang(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(flushes, "read", hang)
    async with asyncio.timeout(2):
        result = await flushes.wait("default", flush, "understood", 0.05)
    assert (result.complete, result.reason) == (False, "timeout")


async def test_a_global_lens_gets_an_item_in_the_group_of_all_and_the_flush_joins_both(
    producer, make_router, mailbox, queue, rings, flushes
):
    """A flush is understood when every group that its lenses write to is done."""
    await producer.capture("default", [said(lenses=["work", "shared"])])
    flush = await producer.flush("default", "s", None)
    await route_all(await make_router(), rings, queue)
    work, shared = Group("default", "ann", "work").id, Group("default").id
    await bodies(mailbox, "index", work)
    await bodies(mailbox, "understand", work)
    assert (await flushes.read("default", flush)).state == "indexed"
    [item] = await bodies(mailbox, "understand", shared)
    assert item["home"] == work
    assert (await flushes.read("default", flush)).state == "understood"


async def test_a_flush_waits_for_what_an_earlier_one_handed_over_in_the_group_of_all(
    producer, make_router, mailbox, queue, rings, flushes
):
    """With an empty buffer a flush is a join of every group that the session has written to."""
    await producer.capture("default", [said(lenses=["work", "shared"])])
    flush = await producer.flush("default", "s", None)
    await route_all(await make_router(flush_turns=1), rings, queue)
    work, shared = Group("default", "ann", "work").id, Group("default").id
    for lane in ("index", "understand"):
        await bodies(mailbox, lane, work)
    assert (await flushes.read("default", flush)).state == "indexed"
    await bodies(mailbox, "understand", shared)
    assert (await flushes.read("default", flush)).state == "understood"


@pytest.mark.parametrize(
    "name", ["0b7e-uuid-like", "a@b.example", "a/b", "😀", "עברית", " lead", "the", "a:b", "_"]
)
async def test_any_id_simply_works(producer, make_router, mailbox, queue, rings, flushes, name):
    """Operators and sessions may be named as people and systems name things."""
    turn = said(session=name, operator=name, turn_id=name)
    await producer.capture("default", [turn, said(session=name + "2", operator=name)])
    flush = await producer.flush("default", name, name)
    await route_all(await make_router(), rings, queue)
    group = Group("default", name, "default").id
    indexed = await bodies(mailbox, "index", group)
    assert [body["kind"] for body in indexed] == ["turn", "turn", "barrier"]
    await bodies(mailbox, "understand", group)
    assert (await flushes.read("default", flush)).state == "understood"


async def test_every_key_in_the_queue_is_in_the_key_table(
    producer, make_router, mailbox, queue, rings, flushes
):
    """After all kinds of work, no key exists that the table of keys does not name."""
    from fnmatch import fnmatch

    from gralkord.mailbox.keys import KEY_TABLE

    router = await make_router(flush_turns=2)
    await queue.xadd("gk:intake:default", {"kind": "bad"})
    await producer.capture("default", [said(str(n), turn_id=f"t{n}") for n in range(3)])
    await producer.flush("default", "s", None)
    await route_all(router, rings, queue)
    await mailbox.acquire("index", ANN, most=1)
    patterns = ["gk:" + __import__("re").sub(r"\{\w+\}", "*", row.pattern) for row in KEY_TABLE]
    unknown = [
        key.decode()
        for key in await queue.keys("*")
        if not any(fnmatch(key.decode(), pattern) for pattern in patterns)
    ]
    assert unknown == []
    assert orjson.loads(await queue.lindex("gk:buffer:default:s", 0) or b"{}") is not None


async def test_whoever_awaits_a_flush_is_answered_when_the_process_ends(producer, flushes):
    """At shutdown a waiter is told what is known, and that the wait ended for that reason."""
    flush = await producer.flush("default", "s", None)
    waiting = asyncio.create_task(flushes.wait("default", flush, "understood", 60))
    await asyncio.sleep(0)
    flushes.close()
    result = await asyncio.wait_for(waiting, 5)
    assert (result.state, result.complete, result.reason) == ("queued", False, "stopping")
