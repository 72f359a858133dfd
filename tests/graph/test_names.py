"""Which names are one entity, without a vector or a model being asked."""

from __future__ import annotations

import pytest
from fakes import FakeModel, entities, facts
from groups_of_tests import ANN, only
from memories_of_tests import WHEN

from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.episodes import EpisodeWriter


async def understand(graph, model, uuid):
    """Add one episode; no vector can help."""
    pool = CachePool(graph, 2**30)
    draft = EpisodeDraft(
        uuid=uuid, name="n", body="Ann: hello", reference_time=WHEN, source_description="d"
    )
    await EpisodeWriter(graph, pool, model, None).add(ANN, 1, draft)
    await pool.close()


SAME = [
    ("Ann Smith", "  ann   SMITH "),
    ("Straße", "STRASSE"),
    ("Straße", "STRAẞE"),
    ("İstanbul", "i̇stanbul"),
    ("ACME", "ＡＣＭＥ"),
    ("José", "Jose\u0301"),
    ("ΣΊΣΥΦΟΣ", "σίσυφος"),
    ("ﬁre", "FIRE"),
    ("Ann\u200bSmith", "annsmith"),
    ("ガス", "ｶﾞｽ"),
]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("one", "other"), SAME)
async def test_exact_duplicates_cannot_appear(graph, one, other, together):
    """A name in another case, width, spacing or encoding is the same entity, whatever vectors say."""
    model = FakeModel()
    spellings = ([one, other],) if together else ([one], [other])
    for number, names in enumerate(spellings):
        model.answers["ExtractedEntities"] = entities(*names, "Acme Corp")
        model.answers["ExtractedEdges"] = facts(
            *((name, "LIKES", "Acme Corp", f"It likes {name}.", "2024-01-01") for name in names)
        )
        await understand(graph, model, f"e{number}")
    assert await only(graph, ANN, "MATCH (n:Entity) RETURN count(n)") == 2
    assert "dedupe_nodes.nodes" not in model.stages


@pytest.mark.parametrize(
    ("one", "other"), [("Istanbul", "ıstanbul"), ("Jose", "José"), ("a", "aa")]
)
async def test_other_letters_are_other_names(graph, one, other):
    """A dotless i, an accent or one letter more is another name; only a model may say otherwise."""
    await understand(graph, FakeModel(ExtractedEntities=entities(one)), "e1")
    await understand(graph, FakeModel(ExtractedEntities=entities(other)), "e2")
    assert await only(graph, ANN, "MATCH (n:Entity) RETURN count(n)") == 2


@pytest.mark.parametrize("name", ["", " ", "\u200b", "\u2060\ufeff", "\x00\x07", "\u00ad"])
async def test_names_that_cannot_be_seen_are_none(graph, name):
    """A name of blanks, control characters or invisible signs makes no entity and no fact."""
    model = FakeModel(
        ExtractedEntities=entities(name, "Acme Corp"),
        ExtractedEdges=facts((name, "KNOWS", "Acme Corp", "something", "2024-01-01")),
    )
    await understand(graph, model, "e1")
    assert await graph.read(ANN, "MATCH (n:Entity) RETURN n.name") == [["Acme Corp"]]
