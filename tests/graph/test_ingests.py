"""What is ingested, from its entry to passages and episodes: router, both lanes, HTTP model."""

from __future__ import annotations

import json

import pytest
from groups_of_tests import ANN, BOB
from path_of_tests import ALL, WORK, Path
from test_lenses import queue, server  # noqa: F401 - fixtures

from gralkord.config import Agent, Lens, Models
from gralkord.lenses.registry import LensRegistry
from gralkord.providers.build import build_model
from gralkord.turns.backfill import backfill_group

EPISODES = "MATCH (e:Episodic) RETURN e.content, e.source, e.source_description ORDER BY e.seq"
PASSAGES = (
    "MATCH (p:Passage) RETURN p.offset, p.withdrawn_at IS NOT NULL, p.form, p.description "
    "ORDER BY p.offset, p.created_ms"
)
FACTS = "MATCH ()-[f:RELATES_TO]->() RETURN f.fact ORDER BY f.fact"
LONG = "# Tea\n" + "Leaves are green. " * 400
OTHER = "# Milk\n" + "Cows are white. " * 400


@pytest.fixture
async def path(queue, graph, server):  # noqa: F811
    """All parts between an entry and what is understood of it."""
    server.forget()
    model = build_model(Models(llm=server.spec), {})
    lenses = LensRegistry(
        {"work": Lens(), "people": Lens(scope="global"), "files": Lens(ingestion="index")},
        agents={"clerk": Agent(default_lens="work")},
    )
    path = Path(queue, graph, model, lenses)
    yield path
    await path.close()
    await model.close()


async def ingest(path, content, description="a note", *, work=True, **fields):
    """Hand something over, and work until nothing is left."""
    await path._send(
        "ingest",
        {"operator": "ann", "content": content, "source_description": description} | fields,
    )
    if work:
        await path.work()


async def test_each_kind_is_understood_as_what_it_is(path, graph, server):  # noqa: F811
    """A talk has speakers, a document and a record have none; the model reads where they are from."""
    await ingest(path, "Ann: I like tea.\nBob: I like cake.", "a call", kind="conversation")
    await ingest(path, "Ada works at Acme.", "the staff list", event_time="2024-05-01T00:00:00Z")
    record = {"name": "Eve", "note": "Eve works at Initech."}
    await ingest(path, record, "the registry", kind="structured_record", operator="bob")
    assert await graph.read(ANN, EPISODES) == [
        ["Ann: I like tea.\nBob: I like cake.", "message", "a call"],
        ["Ada works at Acme.", "text", "the staff list"],
    ]
    assert ["2024-05-01T00:00:00Z"] in await graph.read(ANN, "MATCH (e:Episodic) RETURN e.valid_at")
    text = '{"name":"Eve","note":"Eve works at Initech."}'
    [[content, source, description]] = await graph.read(BOB, EPISODES)
    assert (json.loads(content), source, description) == (record, "json", "the registry")
    assert await graph.read(BOB, FACTS) == [["Eve works at Initech."]]
    assert ["Ada works at Acme."] in await graph.read(ANN, FACTS)
    prompts = [entry.prompt for entry in server.requests if entry.schema == "ExtractedEntities"]
    assert "<TEXT>\nAda works at Acme.\n</TEXT>" in prompts[1]
    assert "<SOURCE DESCRIPTION>\nthe registry\n</SOURCE DESCRIPTION>" in prompts[2]
    assert text not in "".join(prompts[:2])


async def test_a_new_version_withdraws_what_it_has_no_more(path, graph, server):  # noqa: F811
    """A shorter one ends the last turns; when they come back they hold again, and cost nothing."""
    await ingest(path, LONG + OTHER, source="k.md")
    await ingest(path, LONG + OTHER, source="other.md")
    await ingest(path, LONG + OTHER, source="k.md", operator="bob")
    kept = [["#1", False, "document", "a note"], ["#2", False, "document", "a note"]]
    assert await of_source(graph, "k.md") == kept
    assert len(await graph.read(ANN, EPISODES)) == 4
    await ingest(path, "# Tea\nNone.", source="k.md")
    assert await of_source(graph, "k.md") == [
        ["#1", True, "document", "a note"],
        ["#1", False, "document", "a note"],
        ["#2", True, "document", "a note"],
    ]
    assert await of_source(graph, "other.md") == kept
    assert await of_source(graph, "k.md", BOB) == kept
    asked = len(server.requests)
    await ingest(path, LONG + OTHER, source="k.md")
    held = [row[:2] for row in await of_source(graph, "k.md")]
    assert held == [["#1", False], ["#1", True], ["#2", False]]
    assert len(server.requests) == asked


async def test_versions_that_are_indexed_together_end_with_the_last(path, graph):
    """What a longer version brings is not withdrawn by the shorter one before it."""
    for content in (LONG + OTHER, "# Tea\nNone.", LONG + OTHER):
        await ingest(path, content, source="k.md", work=False)
    await path.work()
    held = [row[:2] for row in await of_source(graph, "k.md")]
    assert held == [["#1", False], ["#1", True], ["#2", False]]


async def test_it_goes_where_its_lens_or_its_agent_says(path, graph):
    """A named lens, else the agent's own, else the default one; a global lens shares no words."""
    await ingest(path, "Ada works at Acme.", lens="people")
    await ingest(path, "Eve works at Initech.", agent="clerk")
    await ingest(path, "Bob works at Hooli.", agent="clerk", lens="files")
    assert await graph.read(ALL, EPISODES) == [["Ada works at Acme.", "text", "a note"]]
    assert await graph.read(WORK, EPISODES) == [["Eve works at Initech.", "text", "a note"]]
    assert await graph.read(ALL, PASSAGES) == []
    assert [row[2] for row in await graph.read(ANN, PASSAGES)] == ["document"]
    assert await graph.read(ANN, EPISODES) == []
    assert not await path.parts.episodes.origins(ANN, ["x"], lens="default", but="")


async def test_what_waits_is_understood_later_as_what_it_is(path, graph):
    """A backfill cuts where the kind or the description changes, within one session, too."""
    await ingest(path, "Ada works at Acme.", "one", source="k.md", work=False)
    await ingest(path, ["Eve works at Initech."], "two", kind="structured_record", source="k.md",
                 offset="2", work=False)  # fmt: skip
    await ingest(path, "Bob works at Hooli.", "three", source="k.md", offset="3", work=False)
    planner = path.router._planner
    path.router._planner = type(planner)(planner.lenses, planner.capture, understanding=False)
    await path.work()
    assert await graph.read(ANN, EPISODES) == []
    parts = path.parts
    done, _ = await backfill_group(parts.passages, path.mailbox, parts.lenses, ANN)
    assert (done.items, done.turns) == (3, 3)
    await path.work()
    found = {(row[1], row[2]) for row in await graph.read(ANN, EPISODES)}
    assert found == {("text", "one"), ("json", "two"), ("text", "three")}


async def of_source(graph, source, group=ANN):
    query = PASSAGES.replace(" RETURN", " WHERE p.source = $source AND p.part = 0 RETURN", 1)
    return await graph.read(group, query, {"source": source})
