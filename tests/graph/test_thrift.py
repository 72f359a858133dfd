"""A scripted conversation, understood with few calls: what is known in the end, and what it cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from fakes import FakeEmbedder, FakeModel, entities, facts
from groups_of_tests import ANN, BOB, only
from pydantic import BaseModel
from test_episodes import draft as plain_draft
from test_episodes import writer as writer_of
from test_scripted_understanding import MAY, draft, server, writer  # noqa: F401 - fixtures

from gralkord.graph.library import EntityEdge, EntityNode
from gralkord.graph.llm import EpisodeEmbedder, EpisodeModel
from gralkord.graph.names import Spellings
from gralkord.graph.typed_facts import FactTypes
from gralkord.graph.typed_fields import fill

SESSIONS = (
    """Ann: I live in Rome. I work at Acme. Carl lives in Oslo.
Bob: I like Earl Grey.
Zoe: And what have you heard from the two?""",
    """Ann: I work at Acme. I moved to Paris.
Bob: I no longer like Earl Grey. Carl met Dora in Oslo.
Zoe: And what have they to do with that?""",
    """Ann: I moved to Berlin. I moved to Rome.
Bob: I like Earl Grey. Carl lives in Oslo.
Zoe: That is what they have said, and what you have said.""",
    """Ann: I live in Rome. I work at Acme.
Bob: Carl met Dora in Oslo.
Zoe: And that is what you have said.""",
)
# Whether each holds in the end. Rome and Earl Grey were left, and come back to.
KNOWN = {
    ("Ann lives in Rome.", False),
    ("Ann lives in Rome.", True),
    ("Ann works at Acme.", True),
    ("Carl lives in Oslo.", True),
    ("Bob likes Earl Grey.", False),
    ("Ann moved to Paris.", False),
    ("Bob no longer likes Earl Grey.", True),
    ("Carl met Dora in Oslo.", True),
    ("Ann moved to Berlin.", False),
    ("Ann moved to Rome.", True),
    ("Bob likes Earl Grey.", True),
}
STATE = "MATCH ()-[f:RELATES_TO]->() RETURN f.fact, f.invalid_at IS NULL"


async def test_few_calls_and_all_that_is_so(graph, writer, server):  # noqa: F811
    """Two calls read a session and one compares its facts, if any; none asks when they hold."""
    before = len(server.requests)
    for number, body in enumerate(SESSIONS):
        for group in (ANN, BOB):
            told = replace(draft(body, MAY + timedelta(days=number)), uuid=f"{group}-{number}")
            await writer.add(group, 1, told)
    for group in (ANN, BOB):
        assert {(fact, bool(holds)) for fact, holds in await graph.read(group, STATE)} == KNOWN
    asked = Counter(entry.schema for entry in server.requests[before:])
    assert asked["ExtractedEntities"] == asked["ExtractedEdges"] == 2 * len(SESSIONS)
    assert asked["FactVerdicts"] <= 2 * len(SESSIONS)
    assert asked["NodeResolutions"] <= 2 * len(SESSIONS)
    assert set(asked) <= {
        *("ExtractedEntities", "ExtractedEdges", "FactVerdicts", "NodeResolutions")
    }


async def test_an_entity_without_facts_is_summed_up_by_what_was_said_of_it(graph):
    """The lines that name it stand for a summary, without a call, until a fact is known."""
    body = "Ann Smith: Zeta has called.\nBob: Zetas?\nAnn Smith: zeta, you know."
    model = FakeModel(ExtractedEntities=entities("Zeta", "Nobody"))
    await writer_of(graph, model).add(ANN, 1, plain_draft(body=body))
    assert "extract_nodes.extract_summaries_batch" not in model.stages
    assert dict(await graph.read(ANN, "MATCH (n:Entity) RETURN n.name, n.summary")) == {
        "Zeta": "Ann Smith: Zeta has called.\nAnn Smith: zeta, you know.",
        "Nobody": "Nobody",
    }


async def test_names_that_are_known_are_not_embedded_again(graph):
    """A second episode about the same asks the embedder for what is new in it, and keeps the old."""
    said = ("Ann", "WORKS_AT", "Acme", "Ann works at Acme.", "2024-01-01")
    model = FakeModel(ExtractedEntities=entities("Ann", "Acme"), ExtractedEdges=facts(said))
    await writer_of(graph, model).add(ANN, 1, plain_draft())
    vectors = await graph.read(ANN, "MATCH (n:Entity) RETURN n.name, n.vector")
    embedder = FakeEmbedder()
    model.answers["ExtractedEntities"] = entities("Ann", "Acme", "Oslo")
    await writer_of(graph, model, embedder).add(ANN, 1, plain_draft("episode-2"))
    assert embedder.texts == ["Oslo"]
    after = await graph.read(ANN, "MATCH (n:Entity) RETURN n.name, n.vector")
    assert [row for row in after if row[0] != "Oslo"] == vectors
    assert await only(graph, ANN, "MATCH ()-[f:RELATES_TO]->() RETURN f.vector IS NOT NULL")


@pytest.mark.parametrize(
    ("one", "other"),
    [("Anna Lindgren", "Hanna Lindgren"), ("Иван Petrov", "Олег Petrov"), ("Lot 1017", "Lot 1018")],
)
async def test_names_that_look_alike_are_not_one_without_the_model(graph, one, other):
    """Only the model may say that two names mean one person; here it does not."""
    for number, name in enumerate((one, other)):
        model = FakeModel(ExtractedEntities=entities(name))
        await writer_of(graph, model).add(ANN, 1, plain_draft(f"episode-{number}"))
    assert await only(graph, ANN, "MATCH (n:Entity) RETURN count(n)") == 2


class Employment(BaseModel):
    """Somebody works somewhere."""

    role: str | None = None


def edge(name: str, source: str, target: str) -> EntityEdge:
    """Return a fact of that type."""
    return EntityEdge(
        source_node_uuid=source,
        target_node_uuid=target,
        name=name,
        fact=f"{source} {name} {target} as a cook",
        group_id=ANN,
        created_at=MAY,
    )


@pytest.mark.parametrize("strict", [True, False])
def test_facts_of_a_type_join_what_the_type_allows(strict):
    """A fact of a type between others is dropped by a strict ontology, else it is a plain one."""
    nodes = [
        EntityNode(uuid="ann", name="Ann", group_id=ANN, labels=["Entity", "Person"]),
        EntityNode(uuid="acme", name="Acme", group_id=ANN, labels=["Entity", "Firm"]),
    ]
    types = FactTypes({"EMPLOYED": Employment}, {("Person", "Firm"): ["EMPLOYED"]}, strict)
    right, wrong = edge("EMPLOYED", "ann", "acme"), edge("EMPLOYED", "acme", "ann")
    kept = types.fitting([right, wrong], nodes)
    assert [fact.name for fact in kept] == ["EMPLOYED", *([] if strict else ["RELATES_TO"])]


async def test_fields_of_typed_facts_are_read():
    """Facts of a type with fields get them in one call; others cost nothing."""
    cooks = [{"id": number, "fields": {"role": "cook"}} for number in (0, 1)]
    model = FakeModel(TypedFields={"fact_EMPLOYED": cooks})
    llm = EpisodeModel(model, Spellings(lambda _: ()))
    types = FactTypes({"EMPLOYED": Employment}, {}, strict=False)
    typed, plain, other = (edge(name, "ann", "acme") for name in ("EMPLOYED", "KNOWS", "EMPLOYED"))
    typed.attributes = {"superseded_by": "f1"}
    await fill(types.asked([typed, plain, other], MAY), "", llm)
    assert typed.attributes == {"superseded_by": "f1", "role": "cook"}
    assert (plain.attributes, other.attributes) == ({}, {"role": "cook"})
    assert model.stages == ["ontology.extract_fields"]


async def test_an_embedder_of_no_entities_embeds_all():
    """Who is told no entities makes every vector."""
    embedder = FakeEmbedder()
    await EpisodeEmbedder(embedder).create_batch(["Ann"])
    assert embedder.texts == ["Ann"]
