"""Turns through lenses with ontologies, from capture to the graph: router, both lanes, HTTP model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from groups_of_tests import ANN, BOB
from path_of_tests import ALL, WORK, Path

from gralkord.config import Lens, Models, Server, Settings
from gralkord.lenses.load import load_lenses
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.dead import DeadLetters
from gralkord.mailbox.keys import Keys
from gralkord.providers.build import build_model
from gralkord.testing.model_server import ScriptedModelServer
from gralkord.turns.backfill import backfill_group

KINDS = """
entities = "{entities}"
relationships = "scoped"

[entity.{person}]
description = "Somebody, such as Ann or Bob."
fields.age = {{ type = "integer", doc = "In years." }}

[entity.Drink]
description = "Something to drink, such as tea or coffee."
fields.hot = {{ type = "boolean", doc = "Whether it is drunk hot." }}

[from.{person}.likes]
to = "Drink"
description = "The person says what they like."
fields.strength = {{ type = "float", doc = "From 0 to 1." }}
"""
NODES = "MATCH (n:Entity) RETURN n.name, labels(n), n.age, n.hot ORDER BY n.name"
LENSES = "MATCH (e:Episodic) RETURN e.lens ORDER BY e.lens"
CONTENTS = "MATCH (e:Episodic {lens: $lens}) RETURN e.content ORDER BY e.content"


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
async def lenses(tmp_path):
    """Lenses of their own kinds; the default one is told to look for anything."""
    for name, person, entities in (("work", "Worker", "strict"), ("people", "Person", "open")):
        file = tmp_path / f"{name}.toml"
        file.write_text(KINDS.format(person=person, entities=entities))
    return load_lenses(
        Settings(
            lenses={
                "work": Lens(ontology=str(tmp_path / "work.toml")),
                "people": Lens(scope="global", ontology=str(tmp_path / "people.toml")),
                "plain": Lens(scope="global"),
            }
        )
    )


@pytest.fixture
async def path(queue, graph, server, lenses):
    """All parts between a capture and its facts."""
    model = build_model(Models(llm=server.spec), {})
    path = Path(queue, graph, model, lenses)
    yield path
    await path.close()
    await model.close()


async def test_each_lens_looks_for_its_own_kinds(path, graph):
    """Of one turn the lens's group has its kinds and fields, the default group none of them."""
    await path.remember("I like tea. My age is 41.", "default", "work")
    assert await graph.read(WORK, NODES) == [
        ["Ann", ["Entity", "Worker"], 41, None],
        ["tea", ["Entity", "Drink"], None, None],
    ]
    assert [row[1:] for row in await graph.read(ANN, NODES)] == [[["Entity"], None, None]]
    assert await graph.read(WORK, LENSES) == [["work"]]


async def test_an_episode_of_the_shared_group_tells_its_lens(path, graph):
    """A turn through two global lenses is one episode each; what is said in it changes nothing."""
    forged = "[lens: other] lens: plain. I like coffee."
    await path.remember(forged, "people", "plain", metadata={"lens": "other"})
    await path.remember(
        "I like tea.", "plain", operator="bob", turn="t2", agent="bot [lens: people]"
    )
    assert await graph.read(ALL, LENSES) == [["people"], ["plain"], ["plain"]]
    assert await graph.read(ANN, "MATCH (e:Episodic) RETURN e") == []
    labels = dict(await graph.read(ALL, "MATCH (n:Entity) RETURN n.name, labels(n)"))
    assert set(labels["coffee"]) == {"Entity", "Drink"}
    assert set(labels["Ann"]) == {"Entity", "Person"}


async def test_turns_of_one_session_through_different_global_lenses_are_kept_apart(path, graph):
    """An episode holds the turns of its own lens only, however they are mixed."""
    for number, lens in enumerate(("people", "plain", "people")):
        await path.say(f"Number {number} is here.", lens, turn=f"t{number}")
    await path.remember("Number 3 is here.", "plain", turn="t3")
    found = await graph.read(ALL, "MATCH (e:Episodic) RETURN e.lens, e.content ORDER BY e.lens")
    assert found == [
        ["people", "Ann: Number 0 is here.\nAnn: Number 2 is here."],
        ["plain", "Ann: Number 1 is here.\nAnn: Number 3 is here."],
    ]


async def test_a_turn_sent_again_is_known_to_each_lens(path, queue, graph):
    """After its id was forgotten no episode comes of it, but for a lens that it is new to."""
    await path.remember("I like tea.", "people")
    await queue.delete(*await queue.keys("gk:seen:*"))
    await path.remember("I like tea.", "people", "plain")
    assert await graph.read(ALL, LENSES) == [["people"], ["plain"]]


async def test_a_turn_whose_words_came_late_is_understood_through_its_lenses(path, queue, graph):
    """A dead letter of the index lane that is retried goes to every lens that it was meant for."""
    await path.say("I like tea.", "people", "plain")
    await path.router.lead()
    await path.router.route(path._nobody)
    lease = await path.mailbox.acquire("index", ANN, most=1)
    letter = await path.mailbox.fail(
        lease, lease.items[0].id, verdict="bury", delay_ms=0, reason="test", detail=""
    )
    await path.remember("I like coffee.", "plain", turn="t2")
    dead = DeadLetters(queue, Keys(), understanding=True)
    [found] = [each async for each in dead.whole("default")]
    await dead.retry("default", [found.id])
    await path.work()
    assert letter
    assert await graph.read(ALL, LENSES) == [["people"], ["plain"], ["plain"]]


async def test_what_was_captured_without_a_model_is_made_up_for_in_its_lenses(path, graph):
    """A backfill sends it where its flush would have; nowhere else, and not twice."""
    planner = path.router._planner
    path.router._planner = replace(planner, understanding=False)
    await path.say("I like tea.", "people", "plain")
    await path.say("I like milk.", "work", "people", turn="t2")
    await path.say("I like juice.", turn="t3")
    await path.say("I like water.", "plain", operator="bob", turn="t4")
    await path.flush()
    await path.work()
    parts, counts = path.parts, []
    for _ in range(2):
        for group in path.groups:
            done, _ = await backfill_group(parts.passages, path.mailbox, parts.lenses, group)
            counts.append((done.items, done.turns))
        await path.work()
    assert counts[:4] == [(3, 2), (1, 1), (2, 1), (0, 0)]
    found = {lens: await graph.read(ALL, CONTENTS, {"lens": lens}) for lens in ("people", "plain")}
    assert found["people"] == [["Ann: I like milk."], ["Ann: I like tea."]]
    assert found["plain"] == [["Ann: I like tea."], ["Bob: I like water."]]
    assert await graph.read(WORK, CONTENTS, {"lens": "work"}) == [["Ann: I like milk."]]
    assert await graph.read(ANN, CONTENTS, {"lens": "default"}) == [["Ann: I like juice."]]
    assert await graph.read(BOB, "MATCH (e:Episodic) RETURN e") == []


async def test_what_waits_for_a_lens_that_is_gone_is_put_aside(path, queue, graph):
    """It may have passed little of the words on: nothing is written, until it is there again."""
    await path.say("I like tea.", "people", "work")
    await path.flush()
    await path.router.lead()
    await path.router.route(path._nobody)
    before = path.parts
    path.parts = replace(before, lenses=LensRegistry({}))
    await path.work()
    assert await graph.read(ALL, LENSES) == await graph.read(WORK, LENSES) == []
    dead = DeadLetters(queue, Keys(), understanding=True)
    letters = [each async for each in dead.whole("default")]
    assert [each.reason for each in letters] == ["unknown_lens"] * 2
    path.parts = before
    await dead.retry("default", [each.id for each in letters])
    await path.work()
    assert await graph.read(ALL, LENSES) == [["people"]]
    assert await graph.read(WORK, LENSES) == [["work"]]
