"""What is ingested: one entry that becomes turns and their flush, however it came."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from test_erasures import scope
from test_router import ANN, bodies, letters, route_all

from gralkord.clock import SystemClock
from gralkord.config import Agent, Lens
from gralkord.daemon.jobs import Jobs
from gralkord.errors import QueueFull, UnknownLens
from gralkord.groups import Group
from gralkord.intake import router as router_module
from gralkord.intake.producer import Limits, Producer
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.dead import DeadLetters
from gralkord.mailbox.durability import Durability
from gralkord.mailbox.erasures import Erasures
from gralkord.mailbox.scripts import Scripts
from gralkord.memories.covered import Covered
from gralkord.models.ingest import Ingest
from gralkord.models.ingested import read_ingest
from gralkord.models.letters import DeadLetter

BOB = Group("default", "bob", "default").id
WORK = Group("default", "ann", "work").id
ALL = Group("default").id
LONG = "word " * 1_800


def thing(content="tea", **fields):
    """Return something to ingest."""
    base = {"operator": "ann", "source_description": "a note", "content": content, "id": "i1"}
    return Ingest.model_validate(base | fields)


def sourced(content="tea", **fields):
    """Return something to ingest that has a source."""
    return thing(content, **({"source": "n.md", "id": None} | fields))


async def plain(queue, ingest):
    """Write it to the stream without a producer."""
    data = ingest.model_dump_json(exclude_none=True)
    return (await queue.xadd("gk:intake:default", {"kind": "ingest", "data": data})).decode()


async def indexed(mailbox, group):
    """Do what waits to be indexed; return the ids of the turns."""
    found = await bodies(mailbox, "index", group)
    return [body["turn_id"] for body in found if body["kind"] == "turn"]


@pytest.mark.parametrize("direct", [False, True], ids=["producer", "plain"])
async def test_turns_and_their_flush_come_together(
    producer, make_router, mailbox, queue, rings, flushes, direct
):
    """One entry fills the index mailbox, and the understand mailbox with an item for each turn."""
    ingest = sourced(LONG)
    if direct:
        receipt = await plain(queue, ingest)
    else:
        answer = await producer.ingest("default", ingest)
        receipt = answer.receipt
        assert (answer.turns, answer.duplicate, answer.durability) == (2, False, "always")
    await route_all(await make_router(), rings, queue)
    found = await bodies(mailbox, "index", ANN)
    assert [(body["kind"], body.get("form")) for body in found] == [
        ("turn", "document"),
        ("turn", "document"),
        ("barrier", None),
    ]
    assert found[0]["ordinal"] < found[1]["ordinal"]
    assert [body.get("ends") for body in found] == [None, {"offset": "", "turns": 2}, None]
    items = await bodies(mailbox, "understand", ANN)
    assert [item["turns"] for item in items] == [[found[0]["turn_id"]], [found[1]["turn_id"]]]
    assert (await flushes.read("default", receipt)).reached("understood")
    assert set(rings) == {("index", ANN), ("understand", ANN)}


async def test_its_flush_takes_all_of_it_however_long_it_is(
    producer, make_router, queue, rings, flushes
):
    """What would fill a session's buffer is handed over by its own flush, not before."""
    answer = await producer.ingest("default", thing(LONG * 8))
    await producer.ingest("default", thing(LONG * 3, operator="bob"))
    await route_all(await make_router(flush_turns=2, flush_bytes=100), rings, queue)
    record = await flushes.read("default", answer.receipt)
    open_items = await queue.scard(f"gk:open:understand:default:{answer.receipt}")
    assert record.turns == answer.turns == open_items > 8


async def test_the_same_id_is_ingested_once_for_each_operator(
    producer, make_router, mailbox, queue, rings
):
    """Whatever its words and way; another operator's is another, and another tenant's."""
    first = await producer.ingest("default", thing())
    again = await producer.ingest("default", thing("milk"))
    assert (again.receipt, again.duplicate) == (first.receipt, True)
    assert not (await producer.ingest("other", thing())).duplicate
    await plain(queue, thing("milk"))
    await plain(queue, thing("beer", operator="bob"))
    await plain(queue, thing("wine", operator="bob"))
    await route_all(await make_router(), rings, queue)
    for group, words in ((ANN, "tea"), (BOB, "beer")):
        turns = [body for body in await bodies(mailbox, "index", group) if body["kind"] == "turn"]
        assert [body["messages"][0]["content"] for body in turns] == [words]


@pytest.mark.parametrize("direct", [False, True], ids=["producer", "plain"])
async def test_a_source_is_ingested_anew_when_its_words_change(
    producer, make_router, mailbox, queue, rings, direct
):
    """The same words of a source are one ingest, also beside an id; those before may come back."""
    router = await make_router()
    for text in ("tea", "tea", "milk", "tea"):
        if direct:
            await plain(queue, sourced(text))
        else:
            await producer.ingest("default", sourced(text))
        await route_all(router, rings, queue)
    again = await producer.ingest("default", sourced(id="other"))
    work = await producer.ingest("default", sourced(lens="work"))
    assert (again.duplicate, work.duplicate) == (True, False)
    await route_all(router, rings, queue)
    turns = [body for body in await bodies(mailbox, "index", ANN) if body["kind"] == "turn"]
    assert [body["messages"][0]["content"] for body in turns] == ["tea", "milk", "tea"]
    assert turns[0]["turn_id"] == turns[2]["turn_id"] != turns[1]["turn_id"]
    assert len(await bodies(mailbox, "index", WORK)) == 2


async def test_the_same_words_go_through_each_agents_own_lens(
    queue, keys, make_router, mailbox, rings
):
    """A source is known for the lenses that it has gone through, named or the agent's own."""
    lenses = LensRegistry({"work": Lens()}, agents={"clerk": Agent(default_lens="work")})
    producer = Producer(queue, keys, lenses, SystemClock(), Durability(queue, "always"))
    router = await make_router()
    router._planner = replace(router._planner, lenses=lenses)
    ways = [{}, {"agent": "clerk"}, {"agent": "clerk", "lens": "default"}, {"lens": "work"}]
    answers = [await producer.ingest("default", sourced(**way)) for way in ways]
    assert [one.duplicate for one in answers] == [False, False, True, True]
    await plain(queue, sourced(agent="clerk"))
    await route_all(router, rings, queue)
    assert [len(await indexed(mailbox, group)) for group in (ANN, WORK)] == [1, 1]


async def test_it_goes_through_its_lens(producer, make_router, mailbox, queue, rings):
    """A global lens understands what the operator's default group keeps; an unknown one is none."""
    await producer.ingest("default", thing(lens="shared"))
    with pytest.raises(UnknownLens) as refused:
        await producer.ingest("default", thing(lens="nope", id="i2"))
    assert refused.value.field == "lens"
    await route_all(await make_router(), rings, queue)
    assert len(await bodies(mailbox, "index", ANN)) == 2
    [item] = [body for body in await bodies(mailbox, "understand", ALL) if "turns" in body]
    assert (item["home"], item["lens"]) == (ANN, "shared")


async def test_a_full_queue_takes_nothing_of_it(queue, keys, lenses):
    """The limits of captures hold, and nothing is left behind that would know it."""
    producer = Producer(
        queue, keys, lenses, SystemClock(), Durability(queue, "always"), Limits(intake=1)
    )
    await producer.ingest("default", thing())
    with pytest.raises(QueueFull) as refusal:
        await producer.ingest("default", thing(id="i2"))
    assert refusal.value.limit == 1
    await queue.delete("gk:intake:default")
    assert not (await producer.ingest("default", thing(id="i2"))).duplicate


async def test_without_a_model_its_flush_ends_where_it_is_indexed(
    producer, make_router, mailbox, queue, rings, flushes
):
    """Nothing is queued to be understood, and the flush says why."""
    receipt = (await producer.ingest("default", thing())).receipt
    await route_all(await make_router(understanding=False), rings, queue)
    await bodies(mailbox, "index", ANN)
    state = await flushes.read("default", receipt)
    assert (state.state, state.reason, state.turns) == ("indexed", "no_model", 1)
    assert await queue.exists(f"gk:box:understand:{ANN}") == 0


async def test_its_receipt_tells_of_the_flush(producer, make_router, queue, keys, rings):
    """While it waits, when it is routed, and by the receipt of a repeat that a plain entry is."""
    jobs = Jobs(Scripts(queue, keys.prefix), None, SystemClock(), model=True)
    first = (await producer.ingest("default", thing())).receipt
    assert (await jobs.read("default", first)).state == "queued"
    again = await plain(queue, thing())
    await route_all(await make_router(), rings, queue)
    for receipt in (first, again):
        job = await jobs.read("default", receipt)
        assert (job.id, job.kind, job.turns, job.open) == (
            receipt,
            "flush",
            1,
            {"index": 1, "understand": 1},
        )


async def test_a_dead_letter_of_it_can_be_retried_and_sent_again(
    producer, make_router, mailbox, queue, keys, rings
):
    """What cannot be routed is kept whole; it is not known for that, and comes in once."""
    dead = DeadLetters(queue, keys, understanding=True)
    router = await make_router()
    await producer.ingest("default", thing())
    known, router._planner.lenses._lenses = router._planner.lenses._lenses, {}
    await route_all(router, rings, queue)
    router._planner.lenses._lenses = known
    assert [letter["reason"] for letter in await letters(queue)] == ["unknown_lens"]
    [entry] = [entry.decode() for entry, _ in await queue.xrange("gk:dead")]
    await dead.retry("default", [entry])
    again = await producer.ingest("default", thing())
    await route_all(router, rings, queue)
    assert not again.duplicate
    assert len([b for b in await bodies(mailbox, "index", ANN) if b["kind"] == "turn"]) == 1


async def test_what_is_erased_of_it_is_not_routed(
    producer, make_router, mailbox, queue, keys, rings, flushes
):
    """An erasure of one turn leaves the others, and another operator's; one of its source none."""
    erasures, router = Erasures(queue, keys), await make_router()
    first, second = read_ingest(sourced(LONG), "").turns
    receipts = [await producer.ingest("default", sourced(LONG))]
    receipts.append(await producer.ingest("default", sourced(LONG, operator="bob")))
    await erasures.open("default", "7-1", scope(turn=first.turn_id))
    await route_all(router, rings, queue)
    assert await indexed(mailbox, ANN) == [second.turn_id]
    assert len(await indexed(mailbox, BOB)) == 2
    await erasures.close("default", "7-1")
    await erasures.end("default", "7-1")
    receipts.append(await producer.ingest("default", sourced(f"more {LONG}")))
    await erasures.open("default", "7-2", scope(source="n.md"))
    await route_all(router, rings, queue)
    assert await indexed(mailbox, ANN) == []
    handed = [(await flushes.read("default", one.receipt)).turns for one in receipts]
    assert handed == [1, 2, 0]


@pytest.mark.parametrize(
    ("fields", "goes"),
    [
        ({}, True),
        ({"source": "n.md"}, True),
        ({"session": read_ingest(sourced(), "").session}, True),
        ({"turn": read_ingest(sourced(), "").turns[0].turn_id}, True),
        ({"lens": "default"}, True),
        ({"lens": "work"}, False),
        ({"source": "o.md"}, False),
        ({"operator": "bob", "source": "n.md"}, False),
    ],
)
def test_an_erasure_finds_it_before_it_is_routed(fields, goes):
    """By all that it will be, in the stream and in a dead letter."""
    data = sourced().model_dump_json(exclude_none=True).encode()
    covered = Covered(scope(**fields))
    assert covered.entry("5-0", {b"kind": b"ingest", b"data": data}) is goes
    letter = DeadLetter(
        id="1-0",
        lane="intake",
        group="default",
        item="5-0",
        reason="unknown_lens",
        detail="",
        attempts=1,
        at="2024-05-01T09:30:00Z",
        body=orjson.loads(data),
    )
    assert covered.letter(letter) is goes


async def test_long_entries_are_routed_a_few_at_a_time(
    producer, make_router, mailbox, queue, rings, monkeypatch
):
    """However much waits, one script is not given more than so many bytes, and order holds."""
    monkeypatch.setattr(router_module, "MOST_BYTES", 25_000)
    for number in range(5):
        await producer.ingest("default", thing(f"{number} {LONG}", id=str(number)))
    router = await make_router()
    sizes = []
    call = router._scripts.call

    async def counted(name, *args, **options):
        if name == "route":
            sizes.append(len(orjson.loads(args[2])))
        return await call(name, *args, **options)

    monkeypatch.setattr(router._scripts, "call", counted)
    await route_all(router, rings, queue)
    assert sizes == [2, 2, 1]
    turns = [body for body in await bodies(mailbox, "index", ANN) if body["kind"] == "turn"]
    assert [body["messages"][0]["content"][0] for body in turns[::2]] == list("01234")
