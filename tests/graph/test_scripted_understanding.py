"""The whole understanding of an episode on real parts: HTTP model, Graphiti, FalkorDB."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

import pytest
from groups_of_tests import ANN, BOB

from gralkord.config import Models
from gralkord.errors import GralkorError, MalformedOutput
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.episodes import EpisodeWriter
from gralkord.providers.build import build_model
from gralkord.providers.local import LocalEmbedder
from gralkord.testing.faults import FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

MAY = datetime(2024, 5, 1, 9, tzinfo=UTC)
JUNE = datetime(2024, 6, 1, 9, tzinfo=UTC)
FACTS = "MATCH (a)-[r:RELATES_TO]->(b) RETURN r.fact, r.invalid_at ORDER BY r.fact"


@pytest.fixture(scope="module")
def server():
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture
async def writer(graph, server):
    """What adds episodes, with the scripted model behind HTTP and the local embedder."""
    server.set_faults(FaultPlan())
    model = build_model(Models(llm=server.spec), {})
    caches = CachePool(graph, 50_000_000)
    yield EpisodeWriter(graph, caches, model, LocalEmbedder())
    await caches.close()
    await model.close()


def draft(body, when=MAY):
    """Return a transcript to understand."""
    return EpisodeDraft(str(uuid5(NAMESPACE_URL, body)), "test", body, when, "a chat")


async def failure_of(work):
    """Await *work*; return the error it ended with, if any."""
    try:
        await work
    except GralkorError as error:
        return error
    return None


async def test_sentences_become_facts(graph, writer):
    """What is said is in the group's graph afterwards, and in no other."""
    await graph.ensure_group(BOB)
    result = await writer.add(ANN, 1, draft("Ann: I work at Acme. It is warm.\nIT: I use Linux."))
    assert (result.created, result.facts, result.entities) == (True, 2, 4)
    assert await graph.read(ANN, FACTS) == [["Ann works at Acme.", None], ["IT uses Linux.", None]]
    assert await graph.read(BOB, FACTS) == []


async def test_changes_end_facts(graph, writer):
    """A sentence that says so ends the earlier fact, and only that one."""
    await writer.add(ANN, 1, draft("Ann: I live in Berlin. I work at Acme."))
    await writer.add(ANN, 1, draft("Ann: I moved to Rome. I like Acme.", JUNE))
    assert await graph.read(ANN, FACTS) == [
        ["Ann likes Acme.", None],
        ["Ann lives in Berlin.", "2024-06-01T09:00:00Z"],
        ["Ann moved to Rome.", None],
        ["Ann works at Acme.", None],
    ]


async def test_saying_it_again_is_one_fact(graph, writer):
    """The same sentence in a later episode adds no fact."""
    await writer.add(ANN, 1, draft("Ann: I live in Berlin."))
    await writer.add(ANN, 1, draft("Ann: I live in Berlin!\nBob: I see.", JUNE))
    assert len(await graph.read(ANN, FACTS)) == 1


async def test_faults_leave_nothing_half_written(graph, writer, server, monkeypatch):
    """However the model fails, the graph holds the whole episode or none of it."""
    monkeypatch.setattr("gralkord.providers.calls.HICCUP_SECONDS", (0.0, 0.0))
    kinds = ("dropped", "cut_off", "schema_echo", "wrong_types", "empty", "think")
    server.set_faults(FaultPlan(rate=0.6, kinds=kinds, seed=3))
    wanted = draft("Ann: I work at Acme.\nBob: I met Carl in Rome.")
    failures = []
    while error := await failure_of(writer.add(ANN, 1, wanted)):
        failures.append(error)
        assert await graph.read(ANN, "MATCH (n:Episodic) RETURN n") == []
        assert await graph.read(ANN, FACTS) == []
    assert failures
    assert all(error.retry for error in failures)
    assert all(error.counted == isinstance(error, MalformedOutput) for error in failures)
    assert [fact for fact, _ in await graph.read(ANN, FACTS)] == [
        "Ann works at Acme.",
        "Bob met Carl in Rome.",
        "Bob met Carl in Rome.",
    ]
