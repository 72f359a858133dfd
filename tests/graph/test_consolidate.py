"""The process ``consolidate``: turns through its lens, from capture to memories."""

from __future__ import annotations

import pytest
from groups_of_tests import ANN
from path_of_tests import ALL, WORK, Path
from test_lenses import queue, server  # noqa: F401 - fixtures

from gralkord.config import Lens, Models
from gralkord.lenses.registry import LensRegistry
from gralkord.providers.build import build_model

MEMORIES = (
    "MATCH (n:Memory)-[f:RELATES_TO]->(n) WHERE f.superseded_by IS NULL "
    "RETURN f.fact ORDER BY f.fact"
)
WHENCE = "MATCH (n:Memory)-[f:RELATES_TO]->(n) RETURN f.source, f.offset, f.metadata, f.valid_at"


@pytest.fixture
async def path(queue, graph, server):  # noqa: F811
    """All parts between a capture and its memories."""
    server.forget()
    model = build_model(Models(llm=server.spec), {})
    lenses = {
        "work": Lens(ingestion="consolidate"),
        "everybody": Lens(ingestion="consolidate", scope="global"),
    }
    path = Path(queue, graph, model, LensRegistry(lenses))
    yield path
    await path.close()
    await model.close()


async def facts(graph, group):
    """Return what a group's memories say."""
    return [text for (text,) in await graph.read(group, MEMORIES)]


async def test_turns_become_memories_of_the_lens_and_are_done(path, graph):
    """What the user states is kept once, with where it is from; the model is asked once."""
    place = {"source": "chat", "offset": "3", "metadata": {"room": "lab"}}
    await path.remember(
        [
            {"role": "user", "content": "I like green tea. Do you? Maybe I ski now."},
            {"role": "assistant", "content": "I like tea a lot."},
        ],
        "work",
        event_time="2024-05-01T09:30:00Z",
        **place,
    )
    assert await facts(graph, WORK) == ["Ann likes green tea."]
    [whence] = await graph.read(WORK, WHENCE)
    assert whence == ["chat", "3", '{"room":"lab"}', "2024-05-01T09:30:00Z"]
    # Neither entities nor facts: those are what the lens `store` makes.
    assert await graph.read(WORK, "MATCH (n:Entity) RETURN count(n)") == [[1]]
    assert await graph.read(WORK, "MATCH (p:Passage {waiting: true}) RETURN count(p)") == [[0]]
    assert await graph.read(ANN, "MATCH (n:Memory) RETURN n") == []


async def test_turns_of_which_nothing_is_kept_are_done_all_the_same(
    path,
    graph,
    server,  # noqa: F811
):
    """The episode is there, so that nothing is asked of them again."""
    await path.remember("Hello?", "work")
    asked = len(server.requests)
    await path.remember([{"role": "behaviour", "content": "tool look"}], "work", turn="t2")
    assert len(server.requests) == asked == 1  # nobody has said anything
    assert await facts(graph, WORK) == []
    assert await graph.read(WORK, "MATCH (e:Episodic) RETURN e.done") == [[True]] * 2


async def test_a_shared_lens_keeps_what_operators_say_once(path, graph):
    """What another operator has said already is known, and the words stay with each of them."""
    await path.remember("Ann likes green tea.", "everybody")
    await path.remember("Ann likes green tea.", "everybody", operator="bob", turn="t2")
    assert await facts(graph, ALL) == ["Ann likes green tea."]
    assert await graph.read(ALL, "MATCH (p:Passage) RETURN p") == []
    assert await graph.read(ALL, "MATCH (e:Episodic) RETURN e.lens") == [["everybody"]] * 2
