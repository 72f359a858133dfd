"""Episodes through an ontology: labels, fields of entities and facts, and what becomes of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from fakes import FakeEmbedder, FakeModel, entities, facts
from groups_of_tests import ANN, BOB

from gralkord.errors import MalformedOutput, ModelOutage
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft, Kinds
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.erasure import GroupEraser, Named
from gralkord.graph.export import GroupExport, group_state
from gralkord.graph.transfer import RowWriter
from gralkord.lenses.ontology import extraction_arguments, parse_ontology
from gralkord.models.transfer import TransferRow
from gralkord.wire import read_model

MAY = datetime(2024, 5, 1, 9, tzinfo=UTC)
TOML = """
entities = "{entities}"
relationships = "scoped"

[entity.Person]
description = "A human being who is named."
fields.age = {{ type = "integer", doc = "In years." }}
fields.town = {{ type = "string", required = true, doc = "Where they live." }}

[entity.Drink]
description = "Something to drink."
fields.hot = {{ type = "boolean", doc = "Whether it is drunk hot." }}

[from.Person.likes]
to = "Drink"
description = "The person says what they like."
fields.strength = {{ type = "float", doc = "From 0 to 1." }}
"""
NODES = "MATCH (n:Entity) RETURN n.name, labels(n), n.age, n.town, n.hot ORDER BY n.name"
FACTS = "MATCH ()-[f:RELATES_TO]->() RETURN f.name, f.strength ORDER BY f.fact"
LIKES = ("Ann", "LIKES", "tea", "Ann likes tea.", "2024-01-01")


def kinds(entities="open"):
    """Return what an ontology amounts to."""
    return Kinds(**extraction_arguments(parse_ontology(TOML.format(entities=entities), "k.toml")))


def found(*names):
    """Return what a model answers that has found entities: name and number of the kind."""
    return {"extracted_entities": [{"name": name, "entity_type_id": kind} for name, kind in names]}


def fields(**items):
    """Return what a model answers about fields: for each kind a map of ids to fields."""
    return {
        kind: [{"id": number, "fields": values} for number, values in some.items()]
        for kind, some in items.items()
    }


def draft(uuid="episode-1", *, entities="open", when=MAY, **more):
    """Return an episode that is read through the ontology."""
    return EpisodeDraft(
        uuid, "test", "Ann: I like tea.", when, "a chat", kinds=kinds(entities), **more
    )


def likes_tea(**answers):
    """Return a model that has found a person who likes a drink, and all fields."""
    all_fields = fields(
        entity_Person={0: {"age": 41, "town": "Rome"}},
        entity_Drink={1: {"hot": True}},
        fact_LIKES={2: {"strength": 0.9}},
    )
    return FakeModel(
        **{
            "ExtractedEntities": found(("Ann", 1), ("tea", 2)),
            "ExtractedEdges": facts(LIKES),
            "TypedFields": all_fields,
        }
        | answers
    )


def writer(graph, model):
    """Return what adds episodes."""
    return EpisodeWriter(graph, CachePool(graph, 1 << 20), model, FakeEmbedder())


async def test_labels_and_fields_are_written_with_one_call_for_all(graph):
    """Entities have their kinds as labels, entities and facts their fields; another group none."""
    await graph.ensure_group(BOB)
    model = likes_tea()
    await writer(graph, model).add(ANN, 1, draft())
    assert await graph.read(ANN, NODES) == [
        ["Ann", ["Entity", "Person"], 41, "Rome", None],
        ["tea", ["Entity", "Drink"], None, None, True],
    ]
    assert await graph.read(ANN, FACTS) == [["LIKES", 0.9]]
    assert await graph.read(BOB, NODES) == []
    assert model.stages.count("ontology.extract_fields") == 1
    assert not [stage for stage in model.stages if stage.endswith("extract_attributes")]


async def test_fields_survive_being_mentioned_again(graph):
    """What is not said again stays, what is said anew replaces it, and facts keep theirs."""
    model = likes_tea()
    await writer(graph, model).add(ANN, 1, draft())
    await graph.write(ANN, "MATCH ()-[f:RELATES_TO]->() SET f.superseded_reason = 'test'")
    model.answers["TypedFields"] = fields(entity_Person={0: {"age": 42, "town": None}})
    await writer(graph, model).add(ANN, 1, draft("episode-2"))
    assert await graph.read(ANN, NODES) == [
        ["Ann", ["Entity", "Person"], 42, "Rome", None],
        ["tea", ["Entity", "Drink"], None, None, True],
    ]
    again = "MATCH ()-[f:RELATES_TO]->() RETURN f.strength, f.superseded_reason"
    assert await graph.read(ANN, again) == [[0.9, "test"]]


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ({"age": "forty-one", "town": "Rome"}, [None, "Rome"]),
        ({"age": "41"}, [41, None]),
        ({"age": True, "town": 7}, [None, "7"]),
        ({"age": 2**70, "town": " \x07 "}, [None, None]),
        ({"town": ["a", "list"], "uuid": "stolen", "seq": 7}, [None, None]),
    ],
)
async def test_a_wrong_or_missing_value_costs_its_field_alone(graph, values, kept):
    """Fields that fit are kept, required ones may be missing, and no property is forged."""
    model = likes_tea(TypedFields=fields(entity_Person={0: values}, entity_Drink={0: {"hot": 1}}))
    await writer(graph, model).add(ANN, 1, draft())
    [ann, tea] = await graph.read(ANN, NODES)
    assert (ann[2:4], tea[4]) == (kept, None)  # an answer under another kind is of nobody
    assert await graph.read(ANN, FACTS) == [["LIKES", None]]


async def test_an_answer_that_does_not_fit_costs_the_fields_not_the_episode(graph):
    """After one more try with half of them each the episode is written without fields."""
    model = likes_tea(TypedFields=MalformedOutput("no"))
    result = await writer(graph, model).add(ANN, 1, draft())
    assert (result.created, result.facts) == (True, 1)
    assert [row[1:] for row in await graph.read(ANN, NODES)] == [
        [["Entity", "Person"], None, None, None],
        [["Entity", "Drink"], None, None, None],
    ]
    assert model.stages.count("ontology.extract_fields") == 3


async def test_a_model_that_is_out_while_it_reads_fields_fails_the_episode(graph):
    """Nothing is written, so that nothing is left out for good."""
    with pytest.raises(ModelOutage):
        await writer(graph, likes_tea(TypedFields=ModelOutage())).add(ANN, 1, draft())
    assert await graph.read(ANN, "MATCH (n) WHERE NOT n:Meta RETURN n") == []


async def test_a_strict_ontology_keeps_no_entity_of_no_kind(graph):
    """A fact with an end that is of no kind is left out with that end; known entities may stand."""
    model = likes_tea(
        ExtractedEntities=found(("Ann", 0), ("tea", 1)),
        ExtractedEdges=facts(LIKES, ("Ann", "VISITED", "Oslo", "Ann visited Oslo.", None)),
        TypedFields={},
    )
    await writer(graph, model).add(ANN, 1, draft(entities="strict"))
    assert [row[0] for row in await graph.read(ANN, NODES)] == ["Ann", "tea"]
    assert await graph.read(ANN, FACTS) == [["LIKES", None]]
    model.answers["ExtractedEntities"] = found(("Ann", 0))
    model.answers["ExtractedEdges"] = facts(("Ann", "BOUGHT", "tea", "Ann bought tea.", None))
    await writer(graph, model).add(ANN, 1, draft("episode-2", entities="strict"))
    assert len(await graph.read(ANN, FACTS)) == 2


async def test_what_another_ontology_knows_is_of_this_ones_kinds_too(graph):
    """In a group that lenses share an entity can be of kinds of several ontologies."""
    await writer(graph, likes_tea()).add(ANN, 1, draft())
    await graph.write(ANN, "MATCH (n:Person) REMOVE n:Person SET n:Guest, n.room = 12")
    model = likes_tea(TypedFields=fields(entity_Person={0: {"age": 50}}))
    await writer(graph, model).add(ANN, 1, draft("episode-2"))
    [[labels, age, room]] = await graph.read(
        ANN, "MATCH (n {name: 'Ann'}) RETURN labels(n), n.age, n.room"
    )
    assert (set(labels), age, room) == ({"Entity", "Guest", "Person"}, 50, 12)


async def test_without_an_ontology_no_fields_are_asked_for(graph):
    """Kinds that an entity has from another time cost nothing."""
    await writer(graph, likes_tea()).add(ANN, 1, draft())
    model = FakeModel(ExtractedEntities=entities("Ann"))
    plain = EpisodeDraft("episode-2", "test", "Ann: Hi.", MAY, "a chat")
    await writer(graph, model).add(ANN, 1, plain)
    assert "ontology.extract_fields" not in model.stages
    assert (await graph.read(ANN, NODES))[0] == ["Ann", ["Entity", "Person"], 41, "Rome", None]


async def test_a_field_is_erased_with_the_episode_that_told_it(graph):
    """What other episodes have told of the same entity stays."""
    model = likes_tea(TypedFields=fields(entity_Person={0: {"age": 41}}))
    origins = {"origins": ("a",)}
    await writer(graph, model).add(ANN, 1, draft(**origins))
    model.answers["TypedFields"] = fields(entity_Person={0: {"age": 41, "town": "Rome"}})
    await writer(graph, model).add(ANN, 1, draft("episode-2", origins=("b",)))
    eraser = GroupEraser(graph)
    doomed = await eraser.find(ANN, Named(None, frozenset({"a"})))
    await eraser.take(ANN, 1, doomed)
    assert (await graph.read(ANN, NODES))[0][:4] == ["Ann", ["Entity", "Person"], None, "Rome"]
    assert await graph.read(ANN, "MATCH (n {name: 'Ann'}) RETURN n.told_in") == [
        [["town episode-2"]]
    ]
    doomed = await eraser.find(ANN, Named(None, frozenset({"b"})))
    await eraser.take(ANN, 1, doomed)
    assert await graph.read(ANN, NODES) == []


async def test_labels_and_fields_move_with_an_export(graph):
    """Imported elsewhere they are the same, and erased there with the episode that told them."""
    await writer(graph, likes_tea()).add(ANN, 1, draft(origins=("a",)))
    await writer(graph, FakeModel(ExtractedEntities=found(("Ann", 1)), TypedFields={})).add(
        ANN, 1, draft("episode-2", origins=("b",))
    )
    state = await group_state(graph, ANN)
    owner = {"operator": "ann", "lens": "default"}
    rows = [
        read_model(TransferRow, json.loads(json.dumps(owner | row)))
        async for row in GroupExport(graph, ANN, state.seq).rows()
    ]
    await RowWriter(graph, FakeEmbedder()).write(BOB, 1, rows, origin=ANN, embedder="")
    assert await graph.read(BOB, NODES) == await graph.read(ANN, NODES)
    assert await graph.read(BOB, FACTS) == [["LIKES", 0.9]]
    eraser = GroupEraser(graph)
    await eraser.take(BOB, 1, await eraser.find(BOB, Named(None, frozenset({"a"}))))
    assert await graph.read(BOB, NODES) == [["Ann", ["Entity", "Person"], None, None, None]]
    assert (await graph.read(ANN, NODES))[0][2:4] == [41, "Rome"]
