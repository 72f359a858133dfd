"""Erasing each scope, on a real queue and a real graph, beside another operator's memory."""

from __future__ import annotations

import pytest
from erasures_of_tests import WHEN, World, servers
from groups_of_tests import ANN, BOB, only

from gralkord.config import Server
from gralkord.errors import LeaseLost, NotFound, TooMany
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.erasure import GroupEraser
from gralkord.graph.passages import Passage
from gralkord.groups import Group
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.items import Item
from gralkord.models.letters import DeadFilter
from gralkord.testing.model_server import ScriptedModelServer

ALL = Group("default").id
WORK = Group("default", "ann", "work").id
LESSONS = Group("default", "ann", "lessons").id
EVE = Group("other", "ann", "default").id


@pytest.fixture(scope="module")
def graph_server():
    """A graph that syncs each write, so that nobody waits a second for its disk."""
    with servers("graph") as (socket, _):
        yield socket


@pytest.fixture(scope="module")
def model():
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture
async def queue(queue_socket):
    """A client of an empty queue Redis."""
    client = open_queue(Server(socket=queue_socket))
    yield client
    await client.aclose()


@pytest.fixture
async def world(queue, graph, model):
    """All parts of a daemon and a worker."""
    world = World(queue, graph, model.spec)
    yield world
    await world.close()


async def bob_and_others(world):
    """Give others a memory; return what it is."""
    await world.say("bob", "b1", "I work at Initech.")
    await world.say("ann", "a1", "I live in Vienna.", tenant="other")
    await world.work()
    return await world.rows(BOB), await world.rows(EVE)


async def kept(world, before):
    """Whether the others' memory is what it was, to the last byte."""
    return before == (await world.rows(BOB), await world.rows(EVE))


async def test_a_session_goes_and_the_rest_stays(world):
    """Its passages, episodes, facts and entities are gone; other sessions and operators are not."""
    before = await bob_and_others(world)
    await world.say("ann", "t1", "I work at Acme.", session="one")
    await world.say("ann", "t2", "I live in Berlin.", session="two")
    await world.work()
    done = await world.erase(operator="ann", session="one")
    assert done.state == "done"
    assert done.counts["graph"] == {
        "groups": 1,
        "passages": 1,
        "episodes": 1,
        "facts": 1,
        "notes": 0,
        "facts_kept": 0,
        "facts_revived": 0,
        "entities": 1,
        "communities": 0,
        "summaries_rebuilt": 1,
        "passages_understood_again": 0,
    }
    assert await world.texts(ANN) == {"I live in Berlin."}
    assert await world.facts(ANN) == {"Ann lives in Berlin.": None}
    names = await world.graph.read(ANN, "MATCH (n:Entity) RETURN n.name, n.summary ORDER BY n.name")
    assert [name for name, _ in names] == ["Ann", "Berlin"]
    assert names[0][1] == "Ann lives in Berlin."
    assert await world.meta(ANN) == (1, 0)
    assert await kept(world, before)


@pytest.mark.parametrize("scope", [{"turn": "t1"}, {"source": "s1"}, {"ids": True}])
async def test_what_is_left_of_an_episode_is_understood_again(world, scope):
    """One turn of two goes, by its id, its source or its passage: the other one is kept."""
    before = await bob_and_others(world)
    await world.say("ann", "t1", "I work at Acme.", source="s1")
    await world.say("ann", "t2", "I live in Berlin.", source="s2")
    await world.work()
    assert await only(world.graph, ANN, "MATCH (e:Episodic) RETURN count(e)") == 1
    if "ids" in scope:
        uuid = await only(world.graph, ANN, "MATCH (p:Passage {turn_id: 't1'}) RETURN p.uuid")
        scope = {"ids": [uuid, "nonsense"]}
    done = await world.erase(operator="ann", **scope)
    assert done.counts["graph"]["passages_understood_again"] == 1
    assert done.missing == (["nonsense"] if "ids" in scope else [])
    assert await world.meta(ANN) == (1, 1)
    assert await world.facts(ANN) == {}
    await world.work()
    assert await world.meta(ANN) == (1, 0)
    assert await world.facts(ANN) == {"Ann lives in Berlin.": None}
    assert await only(world.graph, ANN, "MATCH (e:Episodic) RETURN e.content") == (
        "Ann: I live in Berlin."
    )
    assert await kept(world, before)


@pytest.mark.parametrize("scope", [{"turn": "t1"}, {"lens": "default"}])
async def test_what_another_lens_has_made_of_a_turn_goes_with_it(world, scope):
    """A lens that keeps no words has an episode of them all the same; what is left is done anew."""
    before = await bob_and_others(world)
    lenses = ["default", "lessons"]
    await world.say("ann", "t1", "I work at Acme.", lenses=lenses)
    await world.say("ann", "t2", "I live in Berlin.", lenses=lenses)
    await world.work()
    assert set(await world.facts(LESSONS)) == {"Ann works at Acme.", "Ann lives in Berlin."}
    await world.erase(operator="ann", **scope)
    assert await world.facts(LESSONS) == {}
    await world.work()
    left = {"Ann lives in Berlin.": None} if "turn" in scope else {}
    assert await world.facts(LESSONS) == await world.facts(ANN) == left
    assert await kept(world, before)


async def test_a_fact_with_another_source_stays_and_forgets_this_one(world):
    """What two sessions have said is still known when one of them goes."""
    await world.say("ann", "t1", "I work at Acme.", session="one")
    await world.work()
    await world.say("ann", "t2", "I work at Acme.", session="two")
    await world.work()
    episodes = "MATCH ()-[f:RELATES_TO]->() RETURN size(f.episodes)"
    assert await only(world.graph, ANN, episodes) == 2
    done = await world.erase(operator="ann", session="one")
    assert (done.counts["graph"]["facts"], done.counts["graph"]["facts_kept"]) == (0, 1)
    assert await only(world.graph, ANN, episodes) == 1
    assert await world.facts(ANN) == {"Ann works at Acme.": None}


async def test_a_fact_that_an_erased_one_has_ended_comes_back(world):
    """Without the move the old home is where somebody lives; what ended before does not change."""
    await world.say("ann", "t1", "I live in Berlin.", session="one")
    await world.work()
    await world.say("ann", "t2", "I moved to Rome.", session="two")
    await world.work()
    assert (await world.facts(ANN))["Ann lives in Berlin."] is not None
    done = await world.erase(operator="ann", session="two")
    assert done.counts["graph"]["facts_revived"] == 1
    assert await world.facts(ANN) == {"Ann lives in Berlin.": None}
    left = "MATCH ()-[f:RELATES_TO]->() RETURN f.expired_at, f.superseded_by, f.superseded_reason"
    assert await world.graph.read(ANN, left) == [[None, None, None]]


async def test_one_fact_goes_by_its_id(world):
    """The fact goes and what was said of it does not; its entities forget it."""
    before = await bob_and_others(world)
    await world.say("ann", "t1", "I work at Acme. I live in Berlin.")
    await world.work()
    query = "MATCH ()-[f:RELATES_TO]->() WHERE f.fact = 'Ann works at Acme.' RETURN f.uuid"
    fact = await only(world.graph, ANN, query)
    foreign = await only(world.graph, BOB, "MATCH ()-[f:RELATES_TO]->() RETURN f.uuid")
    done = await world.erase(operator="ann", ids=[fact, foreign])
    assert (done.counts["graph"]["facts"], done.counts["graph"]["episodes"]) == (1, 0)
    assert done.missing == [foreign]
    assert await world.facts(ANN) == {"Ann lives in Berlin.": None}
    assert await world.texts(ANN) == {"I work at Acme. I live in Berlin."}
    summary = await only(world.graph, ANN, "MATCH (n:Entity {name: 'Ann'}) RETURN n.summary")
    assert "Acme" not in summary
    assert await kept(world, before)


@pytest.mark.parametrize("scope", [{"operator": "ann"}, {"operator": "ann", "session": "one"}])
async def test_what_was_shared_goes_as_well(world, scope):
    """In the group of all operators the erased words leave nothing, those of others do."""
    await world.say("ann", "t1", "I work at Acme.", session="one", lenses=["default", "shared"])
    await world.say("bob", "b1", "I work at Initech.", lenses=["default", "shared"])
    await world.work()
    assert len(await world.facts(ALL)) == 2
    before = await world.rows(BOB)
    done = await world.erase(**scope)
    assert done.counts["graph"]["episodes"] == 2 if "session" in scope else done.state == "done"
    assert await world.facts(ALL) == {"Bob works at Initech.": None}
    assert await only(world.graph, ALL, "MATCH (o:Origin) RETURN count(o)") == 1
    assert await world.rows(BOB) == before
    assert await world.texts(ANN) == set()


async def test_what_is_left_of_a_shared_episode_is_understood_again(world):
    """A turn of two goes: in the shared group the other one makes an episode of its own."""
    await world.say("ann", "t1", "I work at Acme.", lenses=["default", "shared"])
    await world.say("ann", "t2", "I live in Berlin.", lenses=["default", "shared"])
    await world.work()
    await world.erase(operator="ann", turn="t1")
    assert await world.facts(ALL) == {}
    await world.work()
    assert await world.facts(ALL) == {"Ann lives in Berlin.": None}
    assert await world.facts(ANN) == {"Ann lives in Berlin.": None}


async def test_a_lens_goes_and_the_others_stay(world):
    """Only what was captured through the lens is gone, also what is still on its way."""
    before = await bob_and_others(world)
    await world.say("ann", "t1", "I work at Acme.", lenses=["default", "work"])
    await world.work()
    await world.say("ann", "t2", "I live in Berlin.", lenses=["default", "work"])
    own = await world.rows(ANN)
    await world.erase(operator="ann", lens="work")
    assert await world.rows(ANN) == own
    assert await world.texts(WORK) == set()
    await world.work()
    assert await world.texts(WORK) == set()
    assert await world.texts(ANN) == {"I work at Acme.", "I live in Berlin."}
    await world.say("ann", "t3", "I like tea.", lenses=["work"])
    await world.work()
    assert await world.texts(WORK) == {"I like tea."}
    assert await kept(world, before)


@pytest.mark.parametrize(("lens", "left"), [("default", set()), ("shared", {"I work at Acme."})])
async def test_the_words_of_a_global_lens_stay(world, lens, left):
    """By a lens that all share goes only what is shared; by the default one all words without one."""
    await world.say("ann", "t1", "I work at Acme.", lenses=["default", "shared"])
    await world.say("ann", "t2", "I live in Berlin.", lenses=["work"])
    await world.work()
    await world.say("ann", "t3", "I work at Acme.", lenses=["shared"])
    done = await world.erase(operator="ann", lens=lens)
    assert done.counts["queue"]["entries"] == 0
    await world.work()
    assert await world.texts(ANN) == left
    assert await world.facts(ALL) == {}
    assert await world.facts(WORK) == {"Ann lives in Berlin.": None}
    await world.say("ann", "t4", "I live in Rome.")
    assert (await world.erase(operator="ann", lens="default")).counts["queue"]["entries"] == 1


async def test_an_operator_goes_with_every_trace_in_the_queue(world, queue):
    """Groups, sessions, receipts and dead letters are gone, and a new turn is taken as new."""
    before = await bob_and_others(world)
    await world.say("ann", "t1", "I work at Acme.")
    await world.work()
    await world.say("ann", "t2", "I live in Berlin.")
    await world.route()
    done = await world.erase(operator="ann")
    assert done.counts["queue"] == {
        "entries": 0,
        "dead_letters": 0,
        "items": 1,
        "buffered": 1,
        "sessions": 1,
        "receipts": 2,
    }
    assert await world.rows(ANN) == [[], []]
    assert await queue.exists("gk:session:default:ann_2dsession") == 0
    assert b"ann" not in b"".join(await queue.hvals((await queue.keys("gk:jobs:default:*"))[0]))
    [ledger] = await queue.keys("gk:spenders:default:*")
    assert {name.split()[0] for name in await queue.hkeys(ledger)} == {b"*", b"bob"}
    assert await kept(world, before)
    await world.say("ann", "t3", "I live in Rome.")
    await world.work()
    assert await world.texts(ANN) == {"I live in Rome."}
    assert await world.facts(ANN) == {"Ann lives in Rome.": None}


async def test_a_tenant_goes_and_the_other_one_stays(world):
    """All operators and what they share are gone; another tenant has all it had."""
    await bob_and_others(world)
    await world.say("ann", "t1", "I work at Acme.", lenses=["default", "shared"])
    await world.work()
    await world.say("ann", "t2", "I live in Berlin.")
    before = await world.rows(EVE)
    done = await world.erase(everything=True)
    assert done.counts["graph"]["groups"] == 3
    assert done.counts["queue"]["entries"] == 1
    for group in (ANN, BOB, ALL):
        assert await world.rows(group) == [[], []]
    assert await world.rows(EVE) == before
    await world.work()
    assert await world.texts(ANN) == set()


@pytest.mark.parametrize(
    "scope",
    [{"session": "one"}, {"turn": "t2"}, {"source": "s1"}, {"lens": "work"}, {}, {"everything": 1}],
)
async def test_a_dry_run_counts_the_same_and_changes_nothing(world, queue, scope):
    """What it says would go is what then goes."""
    scope = {"everything": True} if "everything" in scope else {"operator": "ann", **scope}
    await bob_and_others(world)
    both = {"session": "one", "lenses": ["default", "work", "shared"], "source": "s1"}
    await world.say("ann", "t1", "I work at Acme.", **both)
    await world.work()
    await world.say("ann", "t2", "I live in Berlin.", **both)
    await world.route()
    await world.say("ann", "t3", "I like tea.", **both)
    before = await world.rows(ANN), await world.rows(ALL), await queue.dbsize()
    dry = await world.erase(dry_run=True, **scope)
    assert (await world.rows(ANN), await world.rows(ALL), await queue.dbsize()) == before
    done = await world.erase(**scope)
    assert (dry.counts, dry.state, dry.dry_run) == (done.counts, "done", True)
    again = await world.erase(dry_run=True, **scope)
    assert not any(again.counts["graph"].values())


async def test_one_erasure_at_a_time(world, queue):
    """A second one is refused while the first one runs; a third one is not."""
    await queue.set("gk:erasing:default", "another", px=30_000)
    with pytest.raises(TooMany):
        await world.erase(operator="ann")
    await queue.delete("gk:erasing:default")
    done = await world.erase(operator="ann")
    assert await world.eraser.read("default", done.id) == done
    again = await world.eraser.erase_scope("default", done.scope)
    listed = (await world.eraser.list_erasures("default")).erasures
    assert [one.id for one in listed] == [again.id, done.id]
    with pytest.raises(NotFound):
        await world.eraser.read("other", done.id)


async def test_an_interrupted_erasure_is_taken_up_again(world, monkeypatch):
    """What its process did not come to is done by the next one, under the same id."""

    async def lost(*_):
        raise LeaseLost

    await world.say("ann", "t1", "I work at Acme.")
    await world.work()
    with monkeypatch.context() as patched:
        patched.setattr(GroupEraser, "clear", lost)
        stopped = await world.erase(operator="ann")
    assert (stopped.state, stopped.finished_at) == ("interrupted", None)
    assert stopped.last_error.startswith("lease_lost")
    assert await world.eraser.resume("default") == 1
    done = await world.eraser.read("default", stopped.id)
    assert (done.state, done.last_error) == ("done", None)
    assert await world.rows(ANN) == [[], []]
    assert await world.eraser.resume("default") == 0


async def test_a_holder_that_wakes_late_writes_nothing(world):
    """Who was frozen with items in hand is refused by both lanes, also in a group that is gone."""
    await world.say("ann", "t0", "I work at Acme.", session="one")
    await world.work()
    await world.say("ann", "t1", "I live in Berlin.", session="one")
    await world.route()
    await world.flush()
    index = await world.mailbox.acquire("index", ANN, most=64)
    lane = await world.mailbox.acquire("understand", ANN, most=1)
    late = Passage("u", "I live in Berlin.", "Ann", "user", "bot", "one", 1, 0, WHEN, "t1")
    draft = EpisodeDraft("e", "late", "Ann: I live in Berlin.", WHEN, "a chat")
    for scope in ({"session": "one"}, {}):
        await world.erase(operator="ann", **scope)
        with pytest.raises(LeaseLost):
            await world.passages.write(ANN, index.epoch, [late], created_ms=1, fingerprint="")
        with pytest.raises(LeaseLost):
            await world.episodes.add(ANN, lane.epoch, draft)
        for lease in (index, lane):
            with pytest.raises(LeaseLost):
                await world.mailbox.commit(lease, [item.id for item in lease.items])
    await world.work()
    assert await world.rows(ANN) == [[], []]


async def test_a_grave_is_dropped_when_it_is_old(world, queue):
    """An emptied group is kept for a day; one that somebody has written to since stays."""
    for operator in ("ann", "bob"):
        await world.say(operator, "t1", "I work at Acme.")
        await world.work()
        await world.erase(operator=operator)
    await world.eraser.resume("default")
    assert {ANN, BOB} <= set(await world.graph.groups())
    await world.say("bob", "t2", "I live in Berlin.")
    await world.work()
    for group in (ANN, BOB):
        await queue.zadd("gk:graves", {group: 1})
    await world.eraser.resume("default")
    assert ANN not in await world.graph.groups()
    assert await world.texts(BOB) == {"I live in Berlin."}
    assert await queue.exists("gk:graves") == 0
    await world.say("ann", "t2", "I live in Rome.")
    await world.work()
    assert await world.texts(ANN) == {"I live in Rome."}


async def test_a_dead_letter_goes_wherever_it_died(world):
    """Letters of the session go from all lanes, and those of others can still be retried."""
    for operator in ("ann", "bob"):
        await world.say(operator, f"{operator}1", "I work at Acme.")
        await world.say(operator, f"{operator}2", "I live in Berlin.")
    await world.route()
    for group in (ANN, BOB):
        for lane in ("index", "understand"):
            await world.flush()
            lease = await world.mailbox.acquire(lane, group, most=1)
            await world.mailbox.fail(
                lease, lease.items[0].id, verdict="bury", delay_ms=0, reason="bad", detail=""
            )
    assert len(await world.dead.select("default", DeadFilter())) == 4
    done = await world.erase(operator="ann", session="ann-session")
    assert done.counts["queue"]["dead_letters"] == 2
    left = [letter async for letter in world.dead.whole("default")]
    assert {letter.operator for letter in left} == {"bob"}
    assert {key.split()[0] for key in await world.queue.hkeys("gk:buried")} == {BOB.encode()}


async def test_what_models_wrote_goes_with_any_erasure(world):
    """It was written with other turns in sight, so that no letter of the operator keeps it."""
    for operator in ("ann", "bob"):
        await world.say(operator, f"{operator}1", "I work at Acme.")
        await world.say(operator, f"{operator}2", "I live in Berlin.")
    await world.route()
    await world.flush()
    for group in (ANN, BOB):
        lease = await world.mailbox.acquire("understand", group, most=1)
        await world.mailbox.fail(
            lease,
            lease.items[0].id,
            verdict="bury",
            delay_ms=0,
            reason="malformed_output",
            detail="",
            answer="Ann works at Acme",
        )
    await world.erase(operator="ann", turn="ann1")
    letters = await world.dead.select("default", DeadFilter())
    shown = [await world.dead.show("default", letter) for letter in letters]
    assert {one.operator: one.answer for one in shown} == {"ann": None, "bob": "Ann works at Acme"}


async def test_triples_go_by_their_source(world):
    """Told from the source they go, those that wait as well; told from another one they stay."""
    facts = (
        "MATCH (a:Entity {name: 'Ann'}) MERGE (b:Entity {uuid: $uuid, name: $name}) "
        "CREATE (a)-[:RELATES_TO {uuid: $uuid, fact: $name, source: $source, episodes: [], seq: 1}]"
        "->(b) SET b.seq = 1"
    )
    await world.say("ann", "t1", "I work at Acme.")
    await world.work()
    for source in ("crm", "book"):
        params = {"uuid": f"u-{source}", "name": f"from {source}", "source": source}
        await world.graph.write(ANN, facts, params)
    triples = [{"subject": "Ann", "source": source} for source in ("crm", "book")]
    item = Item("9.q", {"kind": "triples", "request": "default:9-9", "triples": triples})
    await world.mailbox.deliver([("understand", ANN, item)])
    done = await world.erase(operator="ann", source="crm")
    assert (done.counts["graph"]["facts"], done.counts["graph"]["entities"]) == (1, 1)
    assert set(await world.facts(ANN)) == {"Ann works at Acme.", "from book"}
    lease = await world.mailbox.acquire("understand", ANN, most=1)
    assert lease.items[0].body["triples"] == triples[1:]
