"""Lenses with a process of the user's own, from capture to the graph; and those that keep words only."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from groups_of_tests import ANN
from path_of_tests import ALL, WORK, Path

from gralkord.config import Agent, Lens, Models, Server
from gralkord.daemon.jobs import Jobs
from gralkord.groups import Group
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.dead import DeadLetters
from gralkord.mailbox.erasures import Erasures
from gralkord.mailbox.items import Item
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.purge import Purge
from gralkord.mailbox.scripts import Scripts
from gralkord.memories.covered import Covered
from gralkord.memories.erasing import EraserParts
from gralkord.memories.erasure import ErasureService
from gralkord.models.erasure import EraseRequest, EraseScope
from gralkord.providers.build import build_model
from gralkord.testing.model_server import ScriptedModelServer
from gralkord.turns.understand import understand

BOBS = Group("default", "bob", "work").id
GROUPS = (ANN, Group("default", "bob").id, WORK, BOBS, ALL)
EPISODES = (
    "MATCH (e:Episodic) OPTIONAL MATCH (o:Origin)-[:PART_OF]->(e) "
    "RETURN e.content, e.source_description, e.lens, count(o) ORDER BY e.content"
)
FACTS = "MATCH ()-[f:RELATES_TO]->() RETURN f.fact ORDER BY f.fact"


@pytest.fixture(scope="module")
def server():
    """A scripted model."""
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture
async def queue(queue_socket):
    """A client of an empty queue Redis."""
    client = open_queue(Server(socket=queue_socket))
    yield client
    await client.aclose()


@pytest.fixture
async def opened(queue, graph, server):
    """Return how the path of turns through lenses is made, each with a process by its name."""
    paths = []

    def open_path(process, **lenses):
        lenses = lenses or {"work": Lens(ingestion="shop:notes")}
        registry = LensRegistry(lenses, processes=dict.fromkeys(lenses, process))
        model = build_model(Models(llm=server.spec), {})
        paths.append((Path(queue, graph, model, registry, GROUPS), model))
        return paths[-1][0]

    yield open_path
    for path, model in paths:
        await path.close()
        await model.close()


async def test_what_a_process_adds_is_understood_in_its_lens_alone(opened, queue, graph):
    """One text, one episode, in order, in the operator's own group; what is sent again is known."""
    asked = []

    async def process(request, store):
        asked.append((request, [each.text for each in await store.search("live")]))
        await store.add(f"{request.operator.capitalize()}: I live in Oslo.")
        await store.add("Zoe: I live in Rome.", "a list")

    path = opened(process)
    await path.remember("I live in Bern.", "default", "work")
    await path.remember("I like tea.", "default", "work", operator="bob", turn="t2")
    described = "conversation of bot in session ann"
    assert await graph.read(WORK, EPISODES) == [
        ["", described, "work", 1],
        ["Ann: I live in Oslo.", described, "work", 1],
        ["Zoe: I live in Rome.", "a list", "work", 1],
    ]
    assert await graph.read(WORK, FACTS) == [["Ann lives in Oslo."], ["Zoe lives in Rome."]]
    assert await graph.read(BOBS, FACTS) == [["Bob lives in Oslo."], ["Zoe lives in Rome."]]
    assert await graph.read(ANN, FACTS) == [["Ann lives in Bern."]]
    # It has searched its own lens only, where there was nothing yet.
    assert [(each.content, found) for each, found in asked] == [
        ("Ann: I live in Bern.", []),
        ("Bob: I like tea.", []),
    ]
    await queue.delete(*await queue.keys("gk:seen:*"))
    await path.remember("I live in Bern.", "default", "work")
    assert len(asked) == 2
    did = {"role": "behaviour", "content": "tool look_up(juice)"}
    words = [{"role": "user", "content": "I like juice."}, did]
    await path.remember(words, "default", "work", turn="t3")
    first, second = asked[2][0].content.splitlines()
    assert first == "Ann: I like juice."
    assert second.startswith("bot: (behaviour: ")
    assert set(asked[2][1]) == {"Ann lives in Oslo.", "Zoe lives in Rome."}


async def test_the_only_lens_of_a_turn_keeps_its_words(opened, graph):
    """Also if nothing is added; earlier words are found, not its own, and facts lead back to them."""

    def process(request, store):
        seen.append([each.text for each in store.search("tea")])
        if "green" in request.content:
            store.add("Ann: I live in Oslo.")

    seen = []
    path = opened(process)
    await path.remember("I like tea.", "work")
    await path.remember("I like green tea.", "work", turn="t2")
    assert seen == [[], ["I like tea."]]
    known = await path.caches.fresh(WORK)
    [row] = known.facts.rows()
    assert row.fact == "Ann lives in Oslo."
    [episode] = row.episodes
    assert [each.text for each in known.passages.of_episode(episode)] == ["I like green tea."]
    query = "MATCH (p:Passage) RETURN p.text, p.waiting ORDER BY p.text"
    assert await graph.read(WORK, query) == [["I like green tea.", None], ["I like tea.", None]]
    assert await path.parts.passages.waiting(WORK, 5) == []


async def test_a_process_that_fails_writes_nothing_until_it_succeeds(opened, queue, graph):
    """Its runs count as attempts; after the last one the item is a dead letter, and can be retried."""
    failures = ["one", "two", "three", "four"]

    def process(request, store):
        store.add("Ann: I like milk.")
        if failures:
            raise RuntimeError(failures.pop())

    path = opened(process)
    await path.say("I like tea.", "work")
    await path.flush()
    while failures:
        await queue.zadd("gk:ready:understand", {WORK: 0})  # it need not wait
        await path.work(settled=False)
    assert await graph.read(WORK, EPISODES) == []
    dead = DeadLetters(queue, Keys(), understanding=True)
    [letter] = [each async for each in dead.whole("default")]
    assert (letter.reason, letter.attempts) == ("process_failed", 4)
    await dead.retry("default", [letter.id])
    await path.work()
    assert [row[0] for row in await graph.read(WORK, EPISODES)] == ["", "Ann: I like milk."]


async def test_a_thousand_texts_are_a_thousand_items_in_one_step(opened, queue, graph):
    """Each waits for the model by itself, in order, and before whatever came later."""

    def process(_request, store):
        for number in range(1_000):
            store.add(f"Ann: Number {number} is here.")

    path = opened(process)
    await path.say("I like tea.", "default", "work")
    await path.flush()
    path.groups = (ANN,)
    await path.work()
    assert await understand(path.parts, WORK)
    items = [Item.decode(raw) for raw in await queue.lrange(f"gk:box:understand:{WORK}", 0, -1)]
    assert [each.body.get("number") for each in items] == [None, *range(1_000)]
    assert len({each.id for each in items}) == 1_001
    assert await graph.read(WORK, EPISODES) == []


async def test_a_text_of_erased_turns_is_not_written(opened, graph):
    """Also where it waits already."""
    path = opened(None)
    await path.remember("I like tea.", "default")
    body = {"kind": "add", "home": ANN, "session": "ann", "agent": "bot", "operator": "ann"}
    made = {"number": 0, "content": "Ann: I like milk.", "source_description": "a test"}
    for number, turns in enumerate((["t1", "gone"], ["t1"])):
        item = Item(f"17.{number}", {**body, **made, "turns": turns})
        await path.mailbox.deliver([("understand", WORK, item)])
        await path.work()
        assert len(await graph.read(WORK, EPISODES)) == number


async def test_words_of_an_index_lens_are_found_and_never_understood(opened, queue, graph):
    """Its receipt is final when they are indexed; another lens of the turn goes on."""
    path = opened(None, work=Lens(ingestion="index"), all=Lens(scope="global"))
    await path.remember("I like tea.", "work")
    await path.remember("I live in Oslo.", "work", "all", turn="t2")
    assert await graph.read(WORK, "MATCH (p:Passage) RETURN p.text ORDER BY p.text") == [
        ["I like tea."],
        ["I live in Oslo."],
    ]
    assert await graph.read(WORK, EPISODES) == []
    assert await graph.read(ALL, FACTS) == [["Ann lives in Oslo."]]
    jobs = Jobs(Scripts(queue, "gk:"), graph, path.parts.clock, model=True)
    found = [await jobs.read("default", each.decode()) for each in path.sent]
    turns = [(each.state, each.reason, each.final) for each in found if each.kind == "turn"]
    assert turns == [("indexed", "index_lens", True), ("understood", None, True)]


@pytest.mark.parametrize("named", [["default", "work"], ["work"]])
async def test_what_was_made_of_an_erased_turn_goes_with_it(opened, queue, graph, named):
    """The process handles the turns that are left anew; another operator's are untouched."""
    calls = []

    def process(request, store):
        calls.append(request.content.splitlines())
        for line in calls[-1]:
            store.add(line)

    path = opened(process)
    await path.say("I live in Oslo.", *named)
    await path.say("I work at Acme.", *named, turn="t2")
    await path.say("I live in Oslo.", *named, operator="bob")
    await path.flush("bob")
    await path.flush("ann")
    await path.work()
    assert await graph.read(WORK, FACTS) == [["Ann lives in Oslo."], ["Ann works at Acme."]]
    parts = EraserParts(
        purge=Purge(queue, Keys()),
        erasures=Erasures(queue, Keys()),
        mailbox=path.mailbox,
        dead=DeadLetters(queue, Keys(), understanding=True),
        graph=graph,
        lenses=path.parts.lenses,
        caches=path.caches,
        clock=path.parts.clock,
        understanding=True,
    )
    eraser = ErasureService(parts, queue, ["default"])
    done = await eraser.erase("default", EraseRequest(operator="ann", turn="t1", timeout_ms=30_000))
    assert done.state == "done"
    assert await graph.read(WORK, FACTS) == []
    await path.work()
    assert await graph.read(WORK, FACTS) == [["Ann works at Acme."]]
    assert calls[-1] == ["Ann: I work at Acme."]
    assert await graph.read(BOBS, FACTS) == [["Bob lives in Oslo."]]
    await eraser.close()


ADD = {"kind": "add", "home": ANN, "operator": "ann", "session": "s", "turns": ["t1", "t2"]}
TEXT = Item("1", {**ADD, "number": 0, "content": "a text"})
MARK = Item("0", ADD)


@pytest.mark.parametrize(
    ("scope", "turns", "left"),
    [
        (EraseScope(operator="ann", turn="t1"), [], ["t2"]),
        (EraseScope(operator="ann", source="a.md"), ["t2"], ["t1"]),
        (EraseScope(operator="ann", ids=["x"]), ["t1"], ["t1", "t2"]),
        (EraseScope(operator="ann", session="s"), [], None),
    ],
)
def test_texts_that_wait_go_with_the_turns_they_were_made_of(scope, turns, left):
    """What is left of the turns is handled anew."""
    covered = Covered(scope).with_turns(turns)
    assert covered.item("understand", WORK, TEXT) is None
    mark = covered.item("understand", WORK, MARK)
    assert (mark and (mark.kind, mark.body["turns"])) == (left and ("understand", left))


def test_texts_of_other_turns_and_other_operators_stay():
    """They are not even written anew."""
    scope = EraseScope(operator="ann", turn="t3")
    bobs = SimpleNamespace(id="2", kind="add", body={**TEXT.body, "operator": "bob"})
    for item in (TEXT, MARK, bobs):
        assert Covered(scope).item("understand", BOBS, item) is item
    assert Covered(EraseScope(operator="ann", turn="t1")).item("understand", BOBS, bobs) is bobs


@pytest.mark.parametrize(
    ("lens", "agent", "named", "gone"),
    [
        ("work", "bot", [], True),
        ("default", "bot", [], False),
        ("default", "other", [], True),
        ("work", "bot", ["default"], False),
        ("work", "both", [], False),
    ],
)
def test_an_entry_goes_with_the_lens_that_its_agent_writes_to(lens, agent, named, gone):
    """It names none itself; what goes through another lens as well stays, and is routed there."""
    agents = {
        "bot": Agent(default_lens="work"),
        "both": Agent(default_lens="work", generalise_lens="all"),
    }
    lenses = LensRegistry({"work": Lens(), "all": Lens(scope="global")}, agents=agents)
    turn = [{"role": "user", "content": "I like tea."}]
    said = {"session": "s", "operator": "ann", "agent": agent, "user": "Ann", "turn": turn}
    fields = {b"kind": b"turn", b"data": json.dumps(said | {"lenses": named}).encode()}
    for operator in ("ann", "bob"):
        covered = Covered(EraseScope(operator=operator, lens=lens), lenses=lenses)
        assert covered.entry("1-1", fields) is (gone and operator == "ann")
