"""What the scripted model answers to the prompts of Graphiti, read by Graphiti's own models."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel
from test_dating import fact

from gralkord.config import Models
from gralkord.graph import library  # noqa: F401 - holds back the side effects of the next imports
from gralkord.graph.llm import EpisodeModel
from gralkord.graph.names import Spellings
from gralkord.graph.verdicts import Comparison, Verdict, judge
from gralkord.providers.base import ChatMessage
from gralkord.providers.build import build_model
from gralkord.testing.model_server import ScriptedModelServer
from gralkord.testing.replay import Replay

# isort: split
from graphiti_core.prompts import prompt_library
from graphiti_core.prompts.dedupe_edges import EdgeDuplicate
from graphiti_core.prompts.dedupe_nodes import NodeDuplicate, NodeResolutions
from graphiti_core.prompts.extract_edges import BatchEdgeTimestamps, EdgeTimestamps, ExtractedEdges
from graphiti_core.prompts.extract_nodes import ExtractedEntities, SummarizedEntities
from graphiti_core.prompts.extract_nodes_and_edges import CombinedExtraction
from graphiti_core.prompts.lib import BUILTIN_PROMPT_SPECS
from graphiti_core.prompts.summarize_nodes import Summary, SummaryDescription
from graphiti_core.prompts.summarize_sagas import SagaSummary

WHEN = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
BEFORE = {"content": "Zoe: I met </CURRENT MESSAGE> Yuri.", "timestamp": "2024-04-01T00:00:00"}
BODY = "Ann: I work at Acme in Berlin.\nBob: Nice, Ann!"
KINDS = [
    {"entity_type_id": 0, "entity_type_name": "Entity", "entity_type_description": "Anything."},
    {"entity_type_id": 1, "entity_type_name": "Person", "entity_type_description": "A human."},
]


@pytest.fixture(scope="module")
def server():
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture
async def model(server):
    built = build_model(Models(llm=server.spec), {})
    yield built
    await built.close()


async def ask(model, prompt, schema, **context):
    """Ask the model what Graphiti would ask it, and let Graphiti's own model read the answer."""
    base = {
        "previous_episodes": [BEFORE],
        "episode_content": BODY,
        "custom_extraction_instructions": "",
        "entity_types": KINDS,
        "source_description": "a chat",
        "reference_time": WHEN,
        "edge_types": [],
    }
    group, name = prompt.split(".")
    messages = getattr(getattr(prompt_library, group), name)(base | context)
    turns = [ChatMessage(message.role, message.content) for message in messages]
    return schema.model_validate(await model.complete(turns, schema, stage=prompt))


async def test_entities(model):
    """Speakers and names of the current message are entities, nothing of the ones before."""
    found = await ask(model, "extract_nodes.extract_message", ExtractedEntities)
    assert [(entity.name, entity.entity_type_id) for entity in found.extracted_entities] == [
        ("Ann", 1),
        ("Bob", 1),
        ("Acme", 0),
        ("Berlin", 0),
    ]


@pytest.mark.parametrize(
    ("prompt", "body", "names"),
    [
        ("extract_text", "Ann Lee works at Acme Corp.", {"Ann Lee", "Acme Corp"}),
        (
            "extract_json",
            '{"user": "Ann Lee", "company": "Acme Corp", "n": 1}',
            {"Ann Lee", "Acme Corp"},
        ),
        ("extract_json", "[]", set()),
        ("extract_message", "", set()),
        (
            "extract_message",
            "Ann: </CURRENT MESSAGE> I like Rome.",
            {"Ann", "Rome", "CURRENT MESSAGE"},
        ),
    ],
)
async def test_entities_of_other_sources(model, prompt, body, names):
    """Texts, JSON, empty episodes and ones that look like tags are read, too."""
    found = await ask(model, f"extract_nodes.{prompt}", ExtractedEntities, episode_content=body)
    assert {entity.name for entity in found.extracted_entities} == names


async def test_edges(model):
    """A sentence with a speaker and a name is a fact from the reference time on."""
    nodes = [{"name": name, "entity_types": ["Entity"]} for name in ("Ann", "Bob", "Acme")]
    found = await ask(model, "extract_edges.edge", ExtractedEdges, nodes=nodes)
    (edge,) = found.edges
    assert (edge.source_entity_name, edge.relation_type, edge.target_entity_name) == (
        "Ann",
        "WORKS_AT",
        "Acme",
    )
    assert edge.fact == "Ann works at Acme in Berlin."
    assert edge.valid_at == "2024-05-01T09:30:00Z"
    assert edge.invalid_at is None


async def test_combined(model):
    """Both at once, over several episodes that keep their numbers."""
    body = (
        "[Episode 0] (timestamp: 2024-05-01T00:00:00+00:00)\nAnn: Hello!\n\n"
        "[Episode 1] (timestamp: 2024-05-02T00:00:00+00:00)\nAnn: I live in Rome."
    )
    found = await ask(
        model,
        "extract_nodes_and_edges.extract_message",
        CombinedExtraction,
        episode_content=body,
    )
    assert [entity.name for entity in found.extracted_entities] == ["Ann", "Rome"]
    assert [(edge.fact, edge.episode_indices) for edge in found.edges] == [
        ("Ann lives in Rome.", [1])
    ]


async def test_node_resolutions(model):
    """Every entity gets a resolution: the candidate of the same name, or none."""
    found = await ask(
        model,
        "dedupe_nodes.nodes",
        NodeResolutions,
        extracted_nodes=[
            {"id": 0, "name": "acme", "entity_type": ["Entity"], "entity_type_description": "x"},
            {
                "id": 1,
                "name": "New York",
                "entity_type": ["Entity"],
                "entity_type_description": "x",
            },
        ],
        existing_nodes=[
            {"candidate_id": 0, "name": "New York Times", "entity_types": [], "summary": ""},
            {"candidate_id": 1, "name": "Acme", "entity_types": [], "summary": ""},
        ],
    )
    assert [(each.id, each.duplicate_candidate_id) for each in found.entity_resolutions] == [
        (0, 1),
        (1, -1),
    ]


async def test_one_node_resolution(model):
    """The older prompt for one entity works alike."""
    found = await ask(
        model,
        "dedupe_nodes.node",
        NodeDuplicate,
        extracted_node={"id": 3, "name": "ACME"},
        entity_type_description="x",
        existing_nodes=[{"candidate_id": 7, "name": "Acme"}],
    )
    assert (found.id, found.duplicate_candidate_id) == (3, 7)


async def test_edge_duplicates(model):
    """The same fact is a duplicate; only a fact that the new one ends is contradicted."""
    found = await ask(
        model,
        "dedupe_edges.resolve_edge",
        EdgeDuplicate,
        existing_edges=[
            {"idx": 0, "fact": "ann now lives in Rome"},
            {"idx": 1, "fact": "Ann's \"home\" isn't Rome"},
        ],
        edge_invalidation_candidates=[
            {"idx": 2, "fact": "Ann lives in Berlin."},
            {"idx": 3, "fact": "Ann works at Acme."},
            {"idx": 4, "fact": "Bob lives in Berlin."},
        ],
        new_edge="Ann now lives in Rome.",
    )
    assert found.duplicate_facts == [0]
    assert found.contradicted_facts == [2]


async def test_fact_verdicts(model):
    """Each new fact is compared with the known facts of its lists, by the same rules."""
    known = [fact("Ann lives in Rome."), fact("Ann works at Acme."), fact("Bob lives in Rome.")]
    new = [fact("ann lives in Rome"), fact("Ann moved to Oslo."), fact("Bob moved to Oslo.")]
    comparisons = [
        Comparison(new[0], known, known),
        Comparison(new[1], [], known),
        Comparison(new[2], [], known[:2]),
    ]
    found = await judge(comparisons, EpisodeModel(model, Spellings(lambda _: ())))
    assert [found[each.uuid] for each in new] == [
        Verdict(known[0]),
        Verdict(None, (known[0],)),
        Verdict(),
    ]


async def test_timestamps(model):
    """A fact is valid from its reference time on; nothing is invented where none is told."""
    one = await ask(model, "extract_edges.extract_timestamps", EdgeTimestamps, fact="Ann runs.")
    assert (one.valid_at, one.invalid_at) == ("2024-05-01T09:30:00Z", None)
    many = await ask(
        model,
        "extract_edges.extract_timestamps_batch",
        BatchEdgeTimestamps,
        facts=[
            {"fact": "Ann runs.", "reference_time": WHEN.isoformat()},
            {"fact": "Bob runs.", "reference_time": "unknown"},
            {"fact": "Bob met Ann.", "reference_time": WHEN.isoformat()},
        ],
    )
    assert [each.valid_at for each in many.timestamps] == ["2024-05-01T09:30:00Z", None, None]


@pytest.mark.parametrize(
    "prompt",
    [
        "extract_nodes.extract_summaries_batch",
        "extract_nodes.extract_entity_summaries_from_episodes",
    ],
)
async def test_summaries(model, prompt):
    """An entity's summary keeps what was known and adds the sentences that name it."""
    found = await ask(
        model,
        prompt,
        SummarizedEntities,
        entities=[
            {"name": "Ann", "summary": "Ann is tall.", "entity_types": [], "attributes": {}},
            {"name": "Nobody", "summary": "", "entity_types": [], "attributes": {}},
        ],
    )
    (ann,) = found.summaries
    assert ann.name == "Ann"
    assert ann.summary.startswith("Ann is tall. Ann works at Acme in Berlin.")


async def test_other_summaries(model):
    """Pairs, contexts, descriptions and threads are summed up from their own words."""
    pair = await ask(
        model, "summarize_nodes.summarize_pair", Summary, node_summaries=["One.", "Two."]
    )
    assert pair.summary == "One. Two."
    context = await ask(
        model,
        "summarize_nodes.summarize_context",
        Summary,
        node_name="Ann",
        node_summary="Ann is tall.",
        attributes=[],
    )
    assert context.summary.startswith("Ann is tall. Ann works at Acme")
    described = await ask(
        model, "summarize_nodes.summary_description", SummaryDescription, summary="One. Two."
    )
    assert described.description == "One."
    saga = await ask(
        model,
        "summarize_sagas.summarize_saga",
        SagaSummary,
        saga_name="s",
        existing_summary="Known.",
        episodes=["Ann: I live in Rome.", "Bob: OK."],
    )
    assert saga.summary.startswith("Known. Ann lives in Rome.")


class Job(BaseModel):
    """A job."""

    title: str | None = None
    years: int | None = None


class Strict(BaseModel):
    """A type of somebody's own, with required fields."""

    level: int
    tags: list[str]


async def test_attributes(model):
    """Attributes that are known stay, others are left out; required ones get the least value."""
    known = {"title": "cook", "other": 1}
    found = await ask(
        model, "extract_edges.extract_attributes", Job, fact="f", existing_attributes=known
    )
    assert found == Job(title="cook")
    node = {"name": "Ann", "entity_types": ["Entity"], "attributes": {}}
    strict = await ask(model, "extract_nodes.extract_attributes", Strict, node=node)
    assert strict == Strict(level=0, tags=[])


@pytest.mark.parametrize(
    "name", sorted(name for name, spec in BUILTIN_PROMPT_SPECS.items() if spec.response_model)
)
async def test_every_schema_of_graphiti_has_an_answer(model, name):
    """Whatever response model Graphiti has, a prompt without contents gets a valid answer."""
    schema = BUILTIN_PROMPT_SPECS[name].response_model
    schema.model_validate(await model.complete([ChatMessage("user", "Hello.")], schema))


async def test_recorded_facts_win(tmp_path):
    """A recorded text yields what the file says; the rules read the rest of the episode."""
    file = tmp_path / "facts.json"
    file.write_text(
        json.dumps(
            {
                "I work at Acme": {
                    "entities": [{"name": "Ann", "type": "Person"}],
                    "facts": [
                        {
                            "subject": "Ann",
                            "relation": "EMPLOYED_BY",
                            "object": "Acme Inc",
                            "fact": "Ann is employed by Acme Inc.",
                            "valid_at": "2020-01-01T00:00:00Z",
                            "contradicts": ["Globex"],
                        }
                    ],
                },
                "never said": [],
            }
        )
    )
    body = "Ann: I work at Acme in Berlin.\nBob: I live in Rome."
    with ScriptedModelServer(replay=Replay.load(file)) as server:
        model = build_model(Models(llm=server.spec), {})
        found = await ask(
            model, "extract_nodes.extract_message", ExtractedEntities, episode_content=body
        )
        names = [entity.name for entity in found.extracted_entities]
        assert names == ["Ann", "Acme Inc", "Bob", "Rome"]
        nodes = [{"name": name, "entity_types": []} for name in names]
        edges = await ask(
            model, "extract_edges.edge", ExtractedEdges, episode_content=body, nodes=nodes
        )
        assert [(edge.fact, edge.valid_at) for edge in edges.edges] == [
            ("Ann is employed by Acme Inc.", "2020-01-01T00:00:00Z"),
            ("Bob lives in Rome.", "2024-05-01T09:30:00Z"),
        ]
        resolved = await ask(
            model,
            "dedupe_edges.resolve_edge",
            EdgeDuplicate,
            existing_edges=[{"idx": 0, "fact": "Ann works at Globex."}],
            edge_invalidation_candidates=[{"idx": 1, "fact": "Ann lives in Berlin."}],
            new_edge="Ann is employed by Acme Inc.",
        )
        assert resolved.contradicted_facts == [0]
        await model.close()
