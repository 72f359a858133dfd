"""What agents did, from capture to learnings: router, both lanes, HTTP model."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from groups_of_tests import ANN, BOB
from path_of_tests import Path
from test_lenses import queue, server  # noqa: F401 - fixtures

from gralkord.agents import turn_of
from gralkord.clock import SystemClock
from gralkord.config import Models
from gralkord.errors import ModelOutage
from gralkord.graph.invalidation import Invalidations
from gralkord.graph.notes import NoteFinder
from gralkord.graph.validity import View
from gralkord.lenses.registry import LensRegistry
from gralkord.providers.build import build_model
from gralkord.providers.embedders.choice import Embedders
from gralkord.providers.local import LocalEmbedder

EPISODES = "MATCH (e:Episodic) RETURN e.content"
LEARNINGS = (
    "MATCH (n:Learning)-[f:RELATES_TO]->(n) RETURN n.name, f.success, f.turn ORDER BY f.turn"
)
SHED = (
    {"role": "system", "content": "Obey nobody but the maker."},
    {"role": "user", "content": "Where is my bike?"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"id": "1", "function": {"name": "look", "arguments": '{"place": "shed"}'}},
            {"id": "2", "function": {"name": "memory_search", "arguments": '{"query": "bike"}'}},
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "one bike"},
    {
        "role": "tool",
        "tool_call_id": "2",
        "content": '<gralkord-memory trust="untrusted">Ann sold her bike</gralkord-memory>',
    },
    {"role": "assistant", "content": "In the shed."},
)


@pytest.fixture
async def path(queue, graph, server):  # noqa: F811
    """All parts between a capture and its learnings."""
    server.forget()
    model = build_model(Models(llm=server.spec), {})
    path = Path(queue, graph, model, LensRegistry({}))
    yield path
    await path.close()
    await model.close()


def turn(trace=SHED, failure=None):
    """Return the messages of a turn, as a plain capture has them."""
    messages = turn_of(trace, "openai-chat", failure=failure)
    return [message.model_dump(exclude_none=True) for message in messages]


async def known(path, group):
    """Return the turns of the learnings that may be shown."""
    cache = await path.caches.fresh(group)
    view = View(int(SystemClock().now().timestamp() * 1000))
    shown = cache.shown_facts(view)
    rows = [row for row in cache.facts.rows() if row.note_kind == "learning"]
    for row in rows:
        assert cache.ending(row, view).hides(view) != shown[cache.facts.number(row.uuid)]
    return {row.turn for row in rows if shown[cache.facts.number(row.uuid)]}


async def test_what_an_agent_did_is_a_line_of_its_episode_and_a_learning(path, graph, server):  # noqa: F811
    """One call does for all turns; it holds no system text, and nothing that was recalled."""
    await path.say(turn(), turn="t1")
    await path.say(turn([{"role": "user", "content": "And my car?"}], "no"), turn="t2")
    await path.say("I like tea.", turn="t3")
    await path.remember("I like cake.", operator="bob", turn="t4")
    await path._send("flush", {"session": "ann"})
    await path.work()
    [[content]] = await graph.read(ANN, EPISODES)
    assert content.splitlines() == [
        "Ann: Where is my bike?",
        "bot: (behaviour: I used look and then memory_search.)",
        "bot: In the shed.",
        "Ann: And my car?",
        "bot: (behaviour: I thought about it. In the end I failed.)",
        "Ann: I like tea.",
    ]
    assert await graph.read(ANN, LEARNINGS) == [
        ["Where is my bike", True, "t1"],
        ["And my car", False, "t2"],
    ]
    assert await graph.read(BOB, LEARNINGS) == []
    assert await graph.read(BOB, EPISODES) == [["Bob: I like cake."]]
    assert Counter(entry.schema for entry in server.requests)["DistilledTurns"] == 1
    finder = NoteFinder(path.caches, Embedders.of(LocalEmbedder()), SystemClock())
    [found] = await finder.near(ANN, ["Where may a bike be?"], ["learning"], 1)
    assert found[0].row.attributes["lesson"] == "Do the same the next time."
    assert await finder.near(BOB, ["Where may a bike be?"], ["learning"], 1) == [[]]
    prompts = "".join(entry.prompt for entry in server.requests)
    assert "Obey nobody" not in prompts
    assert "sold her bike" not in prompts


async def test_a_turn_that_is_withdrawn_takes_its_learning_with_it(path, graph):
    """The learnings of the other turns of its episode stay."""
    await path.say(turn(), turn="t1")
    await path.remember(turn(), turn="t2")
    assert await known(path, ANN) == {"t1", "t2"}
    uuids = await graph.read(ANN, "MATCH (p:Passage) WHERE p.turn_id = 't1' RETURN p.uuid")
    gone = [uuid for (uuid,) in uuids]
    marks = Invalidations(path.parts.passages._connection)
    await marks.mark(ANN, "passage", gone[:1], at="2024-05-02T00:00:00Z", until=None, reason=None)
    assert await known(path, ANN) == {"t1", "t2"}
    await marks.mark(ANN, "passage", gone, at="2024-05-02T00:00:00Z", until=None, reason=None)
    assert await known(path, ANN) == {"t2"}
    await marks.clear(ANN, "passage", gone)
    assert await known(path, ANN) == {"t1", "t2"}


class OutOfOrder:
    """A model that is out for the first two calls."""

    name = "out"

    def __init__(self, model, look):
        self.model, self.look, self.seen = model, look, []

    async def complete(self, *args, **options):
        """Fail, and note what the graph holds."""
        if len(self.seen) < 2:
            self.seen.append(await self.look())
            raise ModelOutage("out", retry_after=0.001)
        return await self.model.complete(*args, **options)


async def test_turns_wait_while_the_model_is_out(path, graph):
    """Nothing is written without what they did, and in the end there is one episode."""
    model = OutOfOrder(path.parts.model, lambda: graph.read(ANN, EPISODES))
    path.parts = replace(path.parts, model=model)
    await path.remember(turn())
    assert model.seen == [[], []]
    [[content]] = await graph.read(ANN, EPISODES)
    assert "(behaviour: I used look" in content
    assert len(await graph.read(ANN, LEARNINGS)) == 1
