"""The way in: what is refused and what is not, and that requests do not disturb each other."""

from __future__ import annotations

import asyncio

import pytest
import redis.exceptions

from gralkord.clock import SystemClock
from gralkord.config import Server
from gralkord.errors import BackendUnavailable, QueueFull, SessionConflict, Transient
from gralkord.groups import Group
from gralkord.intake.producer import Limits, Producer
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.durability import Durability
from gralkord.models import Capture, CaptureReceipt

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


@pytest.fixture
def limited(queue, keys, lenses):
    """A producer that takes three entries of a tenant, and two items of a group."""
    durability = Durability(queue, "always")
    return Producer(queue, keys, lenses, SystemClock(), durability, Limits(intake=3, backlog=2))


@pytest.fixture
async def bounded(queue_socket):
    """The real server, whose memory the test bounds; without a bound afterwards."""
    client = open_queue(Server(socket=queue_socket))
    yield client
    await client.config_set("maxmemory", 0)
    await client.aclose()


async def texts(queue, tenant="default"):
    return [
        Capture.model_validate_json(fields[b"data"]).turn[0].content
        for _, fields in await queue.xrange(f"gk:intake:{tenant}")
    ]


def full(answer):
    assert isinstance(answer, QueueFull), answer
    assert 1 <= answer.retry_after <= 30
    return answer


async def test_a_full_intake_refuses_and_names_its_limit(limited, queue):
    """At the limit of entries the rest of a batch is refused, of this tenant only."""
    answers = await limited.capture("default", [said(str(n), session=str(n)) for n in range(5)])
    assert [isinstance(one, CaptureReceipt) for one in answers] == [True] * 3 + [False] * 2
    assert full(answers[3]).limit == 3
    assert "3 captures wait" in answers[4].message
    [other] = await limited.capture("other", [said()])
    assert isinstance(other, CaptureReceipt)
    assert await queue.xlen("gk:intake:default") == 3


@pytest.mark.parametrize("lane", ["index", "understand"])
async def test_a_backlog_refuses_its_operator_only(limited, queue, lane):
    """Two items in a mailbox of the home group close it; another operator is let in."""
    await queue.rpush(f"gk:box:{lane}:{ANN}", "1 {}", "2 {}")
    ann, bob = await limited.capture("default", [said(), said(operator="bob", session="b")])
    assert full(ann).limit == 2
    assert isinstance(bob, CaptureReceipt)
    assert await queue.exists("gk:session:default:s") == 0


async def test_a_backlog_counts_for_the_lens_that_is_written_to(limited, queue):
    """A group that is full does not close the operator's other lenses."""
    await queue.rpush(f"gk:box:index:{ANN}", "1 {}", "2 {}")
    [answer] = await limited.capture("default", [said(lenses=["work"])])
    assert isinstance(answer, CaptureReceipt)


async def test_a_session_stays_in_order_when_one_of_its_turns_is_refused(limited, queue):
    """After a refusal for now the session's later turns are refused too, whatever their lens."""
    await queue.rpush(f"gk:box:index:{ANN}", "1 {}", "2 {}")
    turns = [said("a"), said("b", lenses=["work"]), said("c", lenses=["work"], session="t")]
    answers = await limited.capture("default", turns)
    assert [isinstance(one, QueueFull) for one in answers] == [True, True, False]
    assert await texts(queue) == ["c"]


async def test_a_closed_intake_says_why_and_still_knows_resends(producer, queue):
    """While it is closed nothing new is stored; what is in already is answered with its receipt."""
    [first] = await producer.capture("default", [said(turn_id="t1")])
    await queue.set("gk:closed", "the memory of the queue is 71 % full")
    again, new = await producer.capture("default", [said(turn_id="t1"), said(turn_id="t2")])
    assert (again.receipt, again.duplicate) == (first.receipt, True)
    assert "71 % full" in full(new).message
    assert new.limit == "memory"
    assert await queue.xlen("gk:intake:default") == 1
    await queue.delete("gk:closed")
    [new] = await producer.capture("default", [said(turn_id="t2")])
    assert not new.duplicate


async def test_a_closed_intake_still_tells_whose_a_session_is(producer, queue):
    """What can never be taken is not told to come again later."""
    await producer.capture("default", [said()])
    await queue.set("gk:closed", "full")
    [answer] = await producer.capture("default", [said(operator="bob")])
    assert isinstance(answer, SessionConflict)


async def test_a_full_memory_refuses_turns_and_takes_flushes(bounded, keys, lenses):
    """At the server's own limit a turn leaves nothing behind, and a flush is stored all the same."""
    durability = Durability(bounded, "always")
    producer = Producer(bounded, keys, lenses, SystemClock(), durability)
    [first] = await producer.capture("default", [said(turn_id="t1")])
    await bounded.config_set("maxmemory", 1)
    again, new = await producer.capture("default", [said(turn_id="t1"), said(session="new")])
    assert again.receipt == first.receipt
    assert full(new).limit == "memory"
    assert await bounded.exists("gk:session:default:new") == 0
    await producer.flush("default", "s", "ann")
    kinds = [fields[b"kind"] for _, fields in await bounded.xrange("gk:intake:default")]
    assert kinds == [b"turn", b"flush"]


async def test_a_flush_checks_the_binding_and_leaves_nothing(producer, queue):
    """A flush for another operator is refused, one of an unknown session is taken."""
    await producer.capture("default", [said()])
    with pytest.raises(SessionConflict):
        await producer.flush("default", "s", "bob")
    assert await queue.xlen("gk:intake:default") == 1
    await producer.flush("other", "s", "bob")
    assert await queue.xlen("gk:intake:other") == 1


async def test_requests_at_once_share_commands_and_keep_their_order(producer, queue, monkeypatch):
    """Fifty requests need a few scripts, and each gets its own answers."""
    calls = []
    send = producer._scripts.call

    async def counted(name, *args, **options):
        calls.append(name)
        return await send(name, *args, **options)

    monkeypatch.setattr(producer._scripts, "call", counted)
    requests = [
        producer.capture("default", [said(f"{n}.{m}", turn_id=f"{n}.{m}") for m in range(2)])
        for n in range(50)
    ]
    answers = await asyncio.gather(*requests)
    assert len(calls) <= 5
    assert [[one.turn_id for one in pair] for pair in answers] == [
        [f"{n}.0", f"{n}.1"] for n in range(50)
    ]
    stored = await texts(queue)
    assert [stored.index(f"{n}.1") - stored.index(f"{n}.0") for n in range(50)] == [1] * 50
    assert len({one.receipt for pair in answers for one in pair}) == 100


async def test_a_request_that_is_refused_hits_no_other(producer, queue):
    """A session conflict and a broken key are the outcome of their own turns only."""
    await producer.capture("default", [said()])
    await queue.set("gk:session:default:broken", "no hash")
    good, conflict, broken, last = await asyncio.gather(
        producer.capture("default", [said(session="x")]),
        producer.capture("default", [said(operator="bob")]),
        producer.capture("default", [said(session="broken")]),
        producer.capture("other", [said()]),
    )
    assert isinstance(good[0], CaptureReceipt)
    assert isinstance(conflict[0], SessionConflict)
    assert isinstance(broken[0], Transient)
    assert isinstance(last[0], CaptureReceipt)


async def test_a_cancelled_request_takes_no_other_along(producer, queue):
    """Who gives up while the batch is under way neither stops it nor loses the others' turns."""
    under_way, go_on = asyncio.Event(), asyncio.Event()
    send = producer._gatherer._send

    async def slow(turns):
        under_way.set()
        await go_on.wait()
        return await send(turns)

    producer._gatherer._send = slow
    first = [asyncio.create_task(producer.capture("default", [said(str(n))])) for n in range(3)]
    await under_way.wait()
    later = [asyncio.create_task(producer.capture("default", [said(f"l{n}")])) for n in range(3)]
    await asyncio.sleep(0)
    first[0].cancel()
    later[1].cancel()
    go_on.set()
    done = await asyncio.gather(*first, *later, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in done] == [
        *(True, False, False),
        *(False, True, False),
    ]
    assert sorted(await texts(queue)) == ["0", "1", "2", "l0", "l2"]


async def test_an_outage_is_answered_to_all_who_wait(producer):
    """Whoever is in the batch or behind it hears of the outage; the next request is sent again."""
    send = producer._gatherer._send

    async def broken(turns):
        await asyncio.sleep(0)
        raise BackendUnavailable("the queue does not answer", retry_after=1)

    producer._gatherer._send = broken
    requests = [producer.capture("default", [said(str(n))]) for n in range(200)]
    done = await asyncio.gather(*requests, return_exceptions=True)
    assert all(isinstance(one, BackendUnavailable) for one in done)
    assert len({id(one) for one in done}) == 200
    producer._gatherer._send = send
    [receipt] = await producer.capture("default", [said()])
    assert isinstance(receipt, CaptureReceipt)


async def test_more_than_one_batch_in_a_request_keeps_its_order(producer, queue):
    """300 turns of a request are stored in order, whatever the bounds of a batch."""
    answers = await producer.capture("default", [said(str(n)) for n in range(300)])
    assert [one.receipt for one in answers] == [
        name.decode() for name, _ in await queue.xrange("gk:intake:default")
    ]
    assert await texts(queue) == [str(n) for n in range(300)]


async def test_the_rest_of_a_long_request_is_not_sent_after_a_refusal(limited, queue):
    """Once a part of it is refused for now, the parts after it are refused unsent."""
    answers = await limited.capture("default", [said(str(n), session=str(n)) for n in range(300)])
    assert sum(isinstance(one, CaptureReceipt) for one in answers) == 3
    assert all(isinstance(one, QueueFull) for one in answers[3:])


@pytest.mark.parametrize(
    ("said_by_server", "expected"),
    [
        ({"appendonly": "yes", "appendfsync": "always"}, "always"),
        ({"appendonly": "yes", "appendfsync": "everysec"}, "everysec"),
        ({"appendonly": "yes", "appendfsync": "no"}, "none"),
        ({"appendonly": "no", "appendfsync": "always"}, "none"),
        ({}, "always"),
        (redis.exceptions.NoPermissionError("NOPERM"), "always"),
    ],
)
async def test_receipts_tell_the_durability_that_the_server_has(
    producer, queue, monkeypatch, said_by_server, expected
):
    """What the server says goes before what is configured; a server that does not tell is trusted."""

    async def config_get(*names):
        if isinstance(said_by_server, Exception):
            raise said_by_server
        return said_by_server

    monkeypatch.setattr(queue, "config_get", config_get)
    await producer._durability.check()
    [receipt] = await producer.capture("default", [said()])
    assert receipt.durability == expected
