"""Dead letters: found, retried in order, dropped; each tenant its own."""

from __future__ import annotations

import orjson
import pytest

from gralkord.errors import InvalidInput, NotFound
from gralkord.groups import Group
from gralkord.mailbox.dead import DeadLetters
from gralkord.mailbox.items import Item
from gralkord.models import Capture
from gralkord.models.letters import DeadFilter, DeadQuery

ANN = Group("default", "ann", "default").id
BOB = Group("default", "bob", "work").id
EVE = Group("other", "eve", "default").id


@pytest.fixture
def dead(queue, keys):
    """The dead letters of a daemon with a model."""
    return DeadLetters(queue, keys, understanding=True)


def turn(name, **fields):
    body = {"ordinal": 1714555800123456, "kind": "turn", "turn_id": name, "session": "s"}
    return Item(name, body | {"operator": "ann", "agent": "Ada"} | fields)


def episode(name, *turns, **fields):
    return Item(name, {"kind": "understand", "home": ANN, "turns": list(turns), **fields})


async def bury(mailbox, *items, lane="understand", group=ANN, reason="poison"):
    """Let the items become dead letters, one after the other."""
    await mailbox.deliver((lane, group, item) for item in items)
    for item in items:
        lease = await mailbox.acquire(lane, group, most=1)
        await mailbox.fail(
            lease, item.id, verdict="bury", delay_ms=0, reason=reason, detail="it is bad"
        )


async def written(queue, **fields):
    """Put a malformed entry onto the intake stream; return its id."""
    return (await queue.xadd("gk:intake:default", fields)).decode()


async def route_all(router, rings, queue):
    while await queue.xlen("gk:intake:default"):
        await router.route(rings)


async def listed(dead, tenant="default", **query):
    return [letter.item for letter in (await dead.page(tenant, DeadQuery(**query))).letters]


async def drain(mailbox, lane="understand", group=ANN):
    """Do everything that waits; return the items."""
    found = []
    while lease := await mailbox.acquire(lane, group, most=64):
        found += lease.items
        await mailbox.commit(lease, [item.id for item in lease.items])
    return found


async def test_letters_are_listed_by_reason_lane_and_operator(mailbox, dead):
    """Filters and pages find letters of the tenant, without their words, in both orders."""
    await bury(mailbox, episode("a", "t1"), episode("b", "t2"), reason="poison")
    await bury(mailbox, turn("c", operator="bob"), lane="index", group=BOB, reason="odd")
    await bury(mailbox, turn("d", operator="eve"), lane="index", group=EVE)
    assert await listed(dead) == ["c", "b", "a"]
    assert await listed(dead, order="oldest", reason="poison") == ["a", "b"]
    assert await listed(dead, lane="index") == ["c"]
    assert await listed(dead, operator="bob", reason="odd") == ["c"]
    assert await listed(dead, tenant="other") == ["d"]
    first = await dead.page("default", DeadQuery(limit=2))
    assert await listed(dead, after=first.next) == ["a"]
    assert (await dead.page("default", DeadQuery(limit=3))).next is None
    assert {letter.body for letter in first.letters} == {None}
    [shown] = (await dead.page("default", DeadQuery(operator="bob"))).letters
    assert (shown.lens, shown.session, shown.turns, shown.attempts) == ("work", "s", ["c"], 1)


@pytest.mark.parametrize(
    ("order", "after"), [("newest", "00-0"), ("oldest", f"{2**64 - 1}-{2**64 - 1}")]
)
async def test_behind_the_last_id_there_is_no_letter(mailbox, dead, order, after):
    """A page may begin at any id, also at one that nothing can stand behind."""
    await bury(mailbox, episode("a", "t1"))
    assert await listed(dead, order=order, after=after) == []


async def test_a_letter_is_shown_whole_to_its_tenant_only(mailbox, dead):
    """Its body is there for the tenant; for another one there is no such letter."""
    await bury(mailbox, episode("a", "t1"))
    [letter] = (await dead.page("default", DeadQuery())).letters
    shown = await dead.show("default", letter.id)
    assert shown.body["turns"] == shown.turns == ["t1"]
    assert (shown.operator, shown.reason, shown.detail) == ("ann", "poison", "it is bad")
    with pytest.raises(NotFound):
        await dead.show("other", letter.id)
    with pytest.raises(NotFound):
        await dead.show("default", "1-1")
    with pytest.raises(InvalidInput, match="looks like"):
        await dead.show("default", "nonsense")


async def test_retried_letters_stand_at_the_tail_in_their_order(mailbox, dead, queue):
    """They come after what waits, oldest first, with no attempt used and nothing else left."""
    await bury(mailbox, episode("a", "t1"), episode("b", "t2"))
    await mailbox.deliver([("understand", ANN, episode("c", "t3"))])
    ids = await dead.select("default", DeadFilter())
    outcomes, rings = await dead.retry("default", ids[::-1])
    assert outcomes == dict.fromkeys(ids, "retried")
    assert await queue.exists("gk:buried") == 0
    lease = await mailbox.acquire("understand", ANN, most=64)
    assert [item.id for item in lease.items] == ["c", "a", "b"]
    assert (lease.crashes, lease.failures, rings) == (0, 0, [])
    await mailbox.commit(lease, ["c", "a", "b"])
    assert await mailbox.depths() == {"understand": 0}
    assert await queue.hget("gk:counters", "dead_retried") == b"2"


async def test_a_letter_is_retried_once(mailbox, dead):
    """Retried or dropped again it is not found, and nothing is added."""
    await bury(mailbox, episode("a", "t1"))
    [letter] = await dead.select("default", DeadFilter())
    assert (await dead.retry("default", [letter, letter]))[0] == {letter: "retried"}
    assert (await dead.retry("default", [letter])) == ({letter: "not_found"}, [])
    assert await dead.drop("default", [letter]) == {letter: "not_found"}
    assert len(await drain(mailbox)) == 1


async def test_another_tenants_letters_are_left_alone(mailbox, dead, queue):
    """By their ids they are not found, also if the tenant's name begins like the other's."""
    await bury(mailbox, turn("a"), lane="index", group=EVE)
    [letter] = await dead.select("other", DeadFilter())
    for tenant in ("default", "othe", "other_", "o"):
        assert (await dead.retry(tenant, [letter]))[0] == {letter: "not_found"}
        assert await dead.drop(tenant, [letter]) == {letter: "not_found"}
        assert await dead.select(tenant, DeadFilter()) == []
    assert await queue.hexists("gk:buried", f"{EVE} a")
    assert await dead.drop("other", [letter]) == {letter: "dropped"}


async def test_dropped_letters_are_gone_and_counted(mailbox, dead, queue):
    """Nothing of them is left, and what is not there does not hinder the others."""
    await bury(mailbox, episode("a", "t1"), turn("b"))
    ids = await dead.select("default", DeadFilter())
    outcomes = await dead.drop("default", [*ids, "7-0"])
    assert outcomes == {"7-0": "not_found", **dict.fromkeys(ids, "dropped")}
    assert await queue.xlen("gk:dead") == await queue.exists("gk:buried") == 0
    assert await queue.hget("gk:counters", "dead_dropped") == b"2"
    assert await drain(mailbox) == []
    with pytest.raises(InvalidInput):
        await dead.drop("default", ["7"])


async def test_a_retried_item_keeps_its_body_and_serves_no_flush(mailbox, dead, queue):
    """Its flush was answered when it died, so it is stripped; numbers keep every digit."""
    await queue.sadd("gk:open:understand:default:1-0", f"{ANN} a")
    await queue.hset("gk:flush:default:1-0", "routed", 1)
    body = {"ordinal": 1714555800123456, "text": 'says "flushes":["x"], and more'}
    await bury(mailbox, episode("a", "t1", flushes=["default:1-0"], **body))
    assert await queue.hget("gk:flush:default:1-0", "dead") == b"1"
    await dead.retry("default", await dead.select("default", DeadFilter()))
    [item] = await drain(mailbox)
    assert item.body == {"kind": "understand", "home": ANN, "turns": ["t1"], **body}


async def test_a_retried_turn_is_understood_too(mailbox, dead):
    """A turn whose words come late is queued to be understood where it was to be."""
    await bury(mailbox, turn("5-0", turn_id="t/1"), lane="index")
    _, rings = await dead.retry("default", await dead.select("default", DeadFilter()))
    assert rings == [("index", ANN), ("understand", ANN)]
    assert [item.id for item in await drain(mailbox, "index")] == ["5-0"]
    [item] = await drain(mailbox)
    assert item.body == {
        "kind": "understand",
        "home": ANN,
        "turns": ["t/1"],
        "operator": "ann",
        "agent": "Ada",
        "session": "s",
    }


async def test_a_retried_turn_that_is_still_buffered_waits_for_its_flush(
    producer, make_router, mailbox, dead, queue, rings
):
    """While its session's buffer holds it, it is understood with the turns around it."""
    said = {"session": "s", "operator": "ann", "agent": "Ada", "user": "Ann", "turn_id": "t1"}
    capture = Capture.model_validate(said | {"turn": [{"role": "user", "content": "hello"}]})
    await producer.capture("default", [capture])
    await route_all(await make_router(), rings, queue)
    lease = await mailbox.acquire("index", ANN, most=1)
    await mailbox.fail(
        lease, lease.items[0].id, verdict="bury", delay_ms=0, reason="poison", detail=""
    )
    await dead.retry("default", await dead.select("default", DeadFilter()))
    assert len(await drain(mailbox, "index")) == 1
    assert await drain(mailbox) == []


async def test_a_shared_lens_gets_a_retried_turn_too(
    producer, make_router, mailbox, dead, queue, rings
):
    """What was to be understood into the global group is, besides the home's own."""
    said = {"session": "s", "operator": "ann", "agent": "Ada", "user": "Ann", "turn_id": "t1"}
    said |= {"lenses": ["default", "shared"], "turn": [{"role": "user", "content": "hello"}]}
    await producer.capture("default", [Capture.model_validate(said)])
    await route_all(await make_router(flush_turns=1), rings, queue)
    everywhere = [ANN, Group("default").id]
    assert [len(await drain(mailbox, group=group)) for group in everywhere] == [1, 1]
    lease = await mailbox.acquire("index", ANN, most=1)
    await mailbox.fail(
        lease, lease.items[0].id, verdict="bury", delay_ms=0, reason="poison", detail=""
    )
    await dead.retry("default", await dead.select("default", DeadFilter()))
    assert [len(await drain(mailbox, group=group)) for group in everywhere] == [1, 1]


async def test_what_a_model_wrote_is_shown_with_its_letter_only(mailbox, dead, queue):
    """Kept when the work is given up, told to who asks for the one letter, gone with it."""
    await mailbox.deliver([("understand", ANN, Item("1", {"kind": "understand", "turns": ["t"]}))])
    lease = await mailbox.acquire("understand", ANN, most=1)
    failed = {"delay_ms": 0, "reason": "malformed_output", "detail": "cut off"}
    await mailbox.fail(lease, "1", verdict="count", answer="the first \ud800", **failed)
    assert not await queue.exists("gk:answers")
    lease = await mailbox.acquire("understand", ANN, most=1)
    await mailbox.fail(lease, "1", verdict="bury", answer='{"edges": [', **failed)
    [letter] = (await dead.page("default", DeadQuery())).letters
    assert letter.answer is None
    assert (await dead.show("default", letter.id)).answer == '{"edges": ['
    await dead.retry("default", [letter.id])
    assert not await queue.exists("gk:answers")


async def test_an_intake_letter_goes_back_as_it_was(make_router, dead, queue, rings):
    """Its fields, with all their bytes, stand in the stream again; its receipt leads there."""
    fields = {"kind": "turn", "data": b'{\n "a=b": 1\nc=d\xff}', "more": ""}
    old = await written(queue, **fields)
    await route_all(await make_router(), rings, queue)
    [letter] = await dead.select("default", DeadFilter(lane="intake"))
    shown = await dead.show("default", letter)
    assert (shown.item, shown.reason, shown.group) == (old, "malformed", "default")
    assert "a=b" in shown.raw
    assert (await dead.retry("other", [letter]))[0] == {letter: "not_found"}
    assert (await dead.retry("default", [letter]))[0] == {letter: "retried"}
    [(new, again)] = await queue.xrange("gk:intake:default")
    assert again == {
        name.encode(): value if isinstance(value, bytes) else value.encode()
        for name, value in fields.items()
    }
    hour = int(old.split("-")[0]) // 3_600_000
    assert orjson.loads(await queue.hget(f"gk:jobs:default:{hour}", old)) == ["seen", new.decode()]
    assert await dead.select("default", DeadFilter()) == []


@pytest.mark.parametrize(
    "known_by", [{"turn_id": "t:1"}, {"source": "n.md", "offset": "4"}], ids=["id", "place"]
)
async def test_a_retried_turn_is_not_taken_for_a_resend_of_itself(
    producer, make_router, mailbox, dead, queue, rings, known_by
):
    """Its own capture has noted it; after the retry it is routed all the same, once."""
    said = {"session": "s", "operator": "ann.b", "agent": "Ada", "user": "Ann"} | known_by
    capture = Capture.model_validate(said | {"turn": [{"role": "user", "content": "hello"}]})
    [receipt] = await producer.capture("default", [capture])
    await queue.hset("gk:session:default:s", "agent", "Eva")
    router = await make_router()
    await route_all(router, rings, queue)
    [letter] = (await dead.page("default", DeadQuery())).letters
    assert (letter.reason, letter.item) == ("session_conflict", receipt.receipt)
    assert (letter.operator, letter.turns) == ("ann.b", [receipt.turn_id])
    await queue.hset("gk:session:default:s", "agent", "Ada")
    await dead.retry("default", [letter.id])
    await route_all(router, rings, queue)
    [item] = await drain(mailbox, "index", Group("default", "ann.b", "default").id)
    assert item.body["turn_id"] == receipt.turn_id
    [again] = await producer.capture("default", [capture])
    assert again.duplicate


async def test_an_entry_of_unknown_shape_stays_dead(dead, queue):
    """A letter that does not say where its fields end is left as it is."""
    fields = {"lane": "intake", "group": "default", "item": "1-0 kind=turn", "reason": "malformed"}
    letter = (await queue.xadd("gk:dead", fields)).decode()
    assert (await dead.retry("default", [letter]))[0] == {letter: "unreadable"}
    assert await dead.select("default", DeadFilter()) == [letter]
