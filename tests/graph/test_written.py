"""What the graph tells of one turn, for its receipt."""

from __future__ import annotations

from fakes import FakeEmbedder, FakeModel, entities, facts
from groups_of_tests import ANN, BOB
from memories_of_tests import WHEN, remember

from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft, origin_key
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.written import Written, written_of
from gralkord.groups import Group

ALL = Group("default").id
ACME = ("Ann", "WORKS_AT", "Acme", "Ann works at Acme.", None)


def writer(graph):
    model = FakeModel(ExtractedEntities=entities("Ann", "Acme"), ExtractedEdges=facts(ACME))
    return EpisodeWriter(graph, CachePool(graph, 1 << 20), model, FakeEmbedder())


def draft(**more):
    return EpisodeDraft("e1", "session s", "Ann: I work at Acme.", WHEN, "a talk", **more)


async def test_a_turn_is_told_from_passages_to_episode(graph):
    """Its passages count at once, its facts when an episode holds it; other groups have nothing."""
    assert await written_of(graph, ANN, "s-0") == Written()
    uuids = await remember(graph, ANN, "I work at Acme.", "I like it.", embed=False)
    await remember(graph, BOB, "Hello.", embed=False)
    found = await written_of(graph, ANN, "s-0")
    assert found == Written(passages=1, indexed_ms=1)
    await writer(graph).add(ANN, 2, draft(passages=tuple(uuids[:1])))
    found = await written_of(graph, ANN, "s-0")
    assert (found.understood, found.episode, found.facts, found.entities) == (True, "e1", 1, 2)
    assert found.understood_at > WHEN
    for group, turn in ((ANN, "s-1"), (BOB, "s-0")):
        other = await written_of(graph, group, turn)
        assert (other.passages, other.understood, other.facts) == (1, False, 0)


async def test_a_turn_is_told_in_a_group_that_is_not_its_home(graph):
    """There it has no passages, and the episode that names its origin is its own only."""
    await writer(graph).add(ALL, 2, draft(origins=(origin_key(ANN, "s-0"),)))
    found = await written_of(graph, ALL, "s-0", home=ANN)
    assert (found.passages, found.understood, found.episode) == (0, True, "e1")
    assert await written_of(graph, ALL, "s-0", home=BOB) == Written()
