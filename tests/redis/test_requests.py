"""Requests: work from outside the lanes that is done once, in its turn, and answered."""

from __future__ import annotations

import asyncio

import pytest

from gralkord.clock import SystemClock
from gralkord.config import Server
from gralkord.errors import InternalError, InvalidInput, NotFound, QueueFull, UnknownLens
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.items import Item
from gralkord.mailbox.mailbox import Mailbox
from gralkord.mailbox.requests import Requests

ANN, BOB = "op__default__ann__default", "op__other__bob__default"


@pytest.fixture
def make_requests(queue, keys, flushes, rings):
    """Make the asking side, with a limit of items that may wait."""

    def make(limit=100):
        return Requests(queue, keys, SystemClock(), flushes, rings, backlog_limit=limit)

    return make


@pytest.fixture
def requests(make_requests):
    """The asking side."""
    return make_requests()


async def ask(requests, group=ANN, tenant="default", seconds=0.0, **body):
    return await requests.ask(tenant, group, "triples", body, seconds)


async def answer(mailbox, content, group=ANN):
    """Take the group's next item, answer it as *content* and commit it."""
    lease = await mailbox.acquire("understand", group, most=1)
    item = lease.items[0]
    await mailbox.answer(lease, item.body["request"], content)
    await mailbox.commit(lease, [item.id])
    return item


async def test_a_request_waits_in_its_turn_and_is_answered(requests, mailbox, rings):
    """It stands at the tail, carries its body, rings, and who asks later gets the answer."""
    await mailbox.deliver([("understand", ANN, Item("first", {"kind": "understand"}))])
    reply = await ask(requests, n=[1])
    assert reply.answer is None
    await mailbox.commit(await mailbox.acquire("understand", ANN, most=1), ["first"])
    item = await answer(mailbox, {"answer": {"made": 1}})
    assert (item.kind, item.body["n"]) == ("triples", [1])
    assert (await requests.result("default", reply.id)).answer == {"made": 1}
    await ask(requests, BOB, "other")
    assert rings == [("understand", BOB)]  # the doorbell of the other group was in the air


async def test_who_waits_hears_of_the_answer_at_once(requests, mailbox, flushes):
    """The commit of the item wakes the caller."""
    following = asyncio.create_task(flushes.follow())
    asked = asyncio.create_task(ask(requests, seconds=20.0))
    while await mailbox.idle("understand", ANN):  # noqa: ASYNC110 - it is another process that knows
        await asyncio.sleep(0.01)
    await answer(mailbox, {"answer": {"made": 2}})
    async with asyncio.timeout(5):
        assert (await asked).answer == {"made": 2}
    following.cancel()


async def test_a_refusal_is_raised_where_it_was_asked_for(requests, mailbox):
    """An error in the answer is the caller's error, of its class."""
    reply = await ask(requests)
    error = UnknownLens("no lens is named 'x'", field="lens", hint="known: default")
    await answer(mailbox, {"error": error.to_dict()})
    with pytest.raises(UnknownLens) as raised:
        await requests.result("default", reply.id)
    assert raised.value.to_dict() == error.to_dict()


async def test_another_tenant_sees_no_answer(requests, mailbox):
    """An id is known to its own tenant only."""
    reply = await ask(requests)
    await answer(mailbox, {"answer": {}})
    with pytest.raises(NotFound):
        await requests.result("other", reply.id)
    with pytest.raises(InvalidInput):
        await requests.result("default", "no id")


async def test_the_first_answer_stays(requests, mailbox):
    """Work that was answered and is done again by the next holder does not change the answer."""
    reply = await ask(requests)
    lease = await mailbox.acquire("understand", ANN, most=1)
    name = lease.items[0].body["request"]
    await mailbox.answer(lease, name, {"answer": {"made": 1}})
    await mailbox.answer(lease, name, {"answer": {"made": 0}})
    assert (await requests.result("default", reply.id)).answer == {"made": 1}


async def test_who_has_lost_the_lease_answers_nothing(requests, mailbox, queue):
    """An answer is kept under the lease, like everything."""
    reply = await ask(requests)
    late = await mailbox.acquire("understand", ANN, most=1)
    await queue.zadd("gk:leased:understand", {ANN: 0})
    await mailbox.sweep("understand")
    with pytest.raises(Exception, match="Another process holds the lease"):
        await mailbox.answer(late, late.items[0].body["request"], {"answer": {}})
    assert (await requests.result("default", reply.id)).answer is None


async def test_one_that_was_given_up_says_so(requests, mailbox):
    """A dead letter is the end of the wait, and its reason is told."""
    reply = await ask(requests)
    lease = await mailbox.acquire("understand", ANN, most=1)
    failed = {"delay_ms": 0, "reason": "odd", "detail": "d"}
    await mailbox.fail(lease, lease.items[0].id, verdict="bury", **failed)
    with pytest.raises(InternalError, match="given up after several attempts: odd"):
        await requests.result("default", reply.id)


async def test_nothing_is_asked_while_the_way_in_is_closed(make_requests, queue, mailbox):
    """What refuses captures refuses requests: the guard, and a backlog."""
    await ask(make_requests(limit=1))
    with pytest.raises(QueueFull) as full:
        await ask(make_requests(limit=1))
    assert full.value.limit == 1
    await queue.set("gk:closed", "memory at 71 %")
    with pytest.raises(QueueFull, match="71 %"):
        await ask(make_requests(), BOB)
    assert await mailbox.idle("understand", BOB)


async def test_an_outage_of_the_model_holds_no_request_up(requests, mailbox, queue):
    """Requests ask no model, so they are given also while one is out."""
    await ask(requests)
    await queue.hset("gk:model:outage", mapping={"since": 1, "until": 2**50, "reason": "r"})
    await mailbox.deliver([("understand", BOB, Item("x", {"kind": "understand"}))])
    assert await mailbox.acquire("understand", BOB, most=1) is None
    assert await mailbox.acquire("understand", ANN, most=1)


async def test_at_the_memory_limit_nothing_new_is_asked_and_all_is_answered(queue_socket, keys):
    """A full queue refuses a request whole, and keeps the answers to those it has."""
    clock, client = SystemClock(), open_queue(Server(socket=queue_socket))
    flushes, mailbox = Flushes(client, keys, clock), Mailbox(client, keys)

    async def ring(_rings):
        pass

    requests = Requests(client, keys, clock, flushes, ring, backlog_limit=100)
    reply = await ask(requests)
    await client.config_set("maxmemory", 1)
    try:
        with pytest.raises(QueueFull):
            await ask(requests, BOB)
        await answer(mailbox, {"answer": {"made": 1}})
    finally:
        await client.config_set("maxmemory", 0)
    assert (await requests.result("default", reply.id)).answer == {"made": 1}
    assert await mailbox.idle("understand", BOB)
    assert len(await client.keys("gk:flush:*")) == 1
    await client.aclose()
