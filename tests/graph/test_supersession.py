from __future__ import annotations

import pytest
from fakes import FakeEmbedder, FakeModel, entities, facts, verdict
from groups_of_tests import ANN
from test_episodes import MEGABYTE, draft

from gralkord.graph.cache import CachePool
from gralkord.graph.episodes import EpisodeWriter

OLD = ("Ann", "WORKS_AT", "Acme", "Ann works at Acme.", "2024-01-01T00:00:00Z")
STATE = (
    "MATCH ()-[f:RELATES_TO]->() RETURN f.fact, f.invalid_at, f.superseded_reason ORDER BY f.fact"
)


async def tell(graph, uuid, fact, **answers):
    """Add an episode that states one fact."""
    model = FakeModel(
        ExtractedEntities=entities(fact[0], fact[2]), ExtractedEdges=facts(fact), **answers
    )
    return await EpisodeWriter(graph, CachePool(graph, MEGABYTE), model, FakeEmbedder()).add(
        ANN, 1, draft(uuid)
    )


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (("Ann", "LEFT", "Acme", "Ann left Acme.", "2025-01-01"), "same_entities"),
        (("Acme", "FIRED", "Ann", "Acme fired Ann.", "2025-01-01"), "same_entities"),
        (
            ("Ann", "WORKS_AT", "Zeta", "Ann works at Zeta.", "2025-01-01"),
            "same_relation_and_source",
        ),
        (
            ("Bob", "WORKS_AT", "Acme", "Bob works at Acme.", "2025-01-01"),
            "same_relation_and_target",
        ),
        (("Ann", "LIKES", "Zeta", "Ann likes works at Zeta.", "2025-01-01"), None),
        (("Acme", "WORKS_AT", "Zeta", "Acme works at Zeta.", "2025-01-01"), None),
        (("Bob", "OWNS", "Zeta", "Bob works at Zeta.", "2025-01-01"), None),
    ],
)
async def test_a_fact_ends_only_what_it_can_be_about(graph, new, reason):
    """Whatever the model says, a fact ends another only if they share entities or relation and place."""
    await tell(graph, "e1", OLD)
    await tell(graph, "e2", new, FactVerdicts=verdict(made_false=(0,)))
    rows = {row[0]: row[1:] for row in await graph.read(ANN, STATE)}
    ended = "2025-01-01T00:00:00Z" if reason else None
    assert rows[OLD[3]] == [ended, reason]
    assert rows[new[3]] == [None, None]


async def test_a_supersession_can_be_traced(graph):
    """The fact that was ended names the fact that ended it."""
    await tell(graph, "e1", OLD)
    new = ("Ann", "WORKS_AT", "Zeta", "Ann works at Zeta.", "2025-01-01")
    await tell(graph, "e2", new, FactVerdicts=verdict(made_false=(0,)))
    assert await graph.read(
        ANN,
        "MATCH ()-[old:RELATES_TO]->() WHERE old.superseded_by IS NOT NULL "
        "MATCH ()-[new:RELATES_TO]->() WHERE new.uuid = old.superseded_by "
        "RETURN old.fact, new.fact",
    ) == [[OLD[3], new[3]]]


async def test_old_news_do_not_end_what_is_newer(graph):
    """A fact from before a known one that contradicts it is the one that ended."""
    await tell(graph, "e1", OLD)
    older = ("Ann", "WORKS_AT", "Zeta", "Ann works at Zeta.", "2020-01-01")
    await tell(graph, "e2", older, FactVerdicts=verdict(made_false=(0,)))
    assert await graph.read(ANN, STATE) == [
        [OLD[3], None, None],
        [older[3], OLD[4], "same_relation_and_source"],
    ]
