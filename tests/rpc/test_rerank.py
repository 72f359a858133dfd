"""Rerankers over real HTTP: in every server's words, best first, nothing lost."""

from __future__ import annotations

import pytest
from canned import canned_server

from gralkord.config import Models
from gralkord.errors import ConfigError, MalformedOutput, RateLimited
from gralkord.groups import Group
from gralkord.providers.base import Ranked
from gralkord.providers.build import Builder
from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

TEXTS = ["Soup is warm.", "Ann lives in Berlin.", "Bob lives in Rome."]
QUERY = "Where does Ann live? In Berlin?"
ANN = Group("default", "ann", "default")


class Noted:
    """A ledger that keeps what it is told."""

    def __init__(self):
        self.calls = []

    async def permit(self, group):
        pass

    async def record(self, call):
        self.calls.append(call)


@pytest.fixture(scope="module")
def server():
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture
def canned():
    with canned_server() as running:
        yield running


@pytest.fixture
def ledger():
    return Noted()


@pytest.fixture
async def build(ledger):
    """Build rerankers that are closed in the end."""
    built = []

    def build(**models):
        built.append(Builder.of(Models(**models), {}, ledger=ledger).reranker())
        return built[-1]

    yield build
    for each in built:
        await each.close()


@pytest.mark.parametrize("path", ["/v1", "/v1/rerank", "/rerank"])
async def test_texts_are_ranked(server, build, ledger, path):
    """Both kinds of servers are understood, and the call is entered in the ledger."""
    server.set_faults(FaultPlan())
    reranker = build(reranker=f"openai-compatible:bge@{server.root}{path}")
    assert (await reranker.rank(QUERY, TEXTS, group=ANN))[0].index == 1
    assert await reranker.rank(QUERY, []) == []
    [call] = ledger.calls
    assert (call.role, call.model, call.group) == ("reranker", "openai-compatible:bge", ANN)
    assert call.prompt_tokens > 0


async def test_the_language_model_may_judge(server, build, ledger):
    """`llm` asks the language model, for its small jobs, and ranks by its scores."""
    server.set_faults(FaultPlan())
    small = server.spec.replace(":scripted@", ":little@")
    reranker = build(llm=server.spec, llm_small=small, reranker="llm")
    assert (await reranker.rank(QUERY, TEXTS))[0].index == 1
    assert server.requests[-1].model == "little"
    assert await reranker.rank(QUERY, []) == []


async def test_what_makes_no_sense_is_left_out(canned, build):
    """Unknown places, places named twice and scores that are no numbers do no harm."""
    results = [
        {"index": 7, "relevance_score": 1.0},
        {"index": 2, "relevance_score": 0.5},
        {"index": 2, "relevance_score": 0.9},
        {"index": 1, "relevance_score": 0.75},
        {"index": 0, "relevance_score": float("nan")},
    ]
    canned.answer(200, {"results": results})
    reranker = build(reranker=f"openai-compatible:m@{canned.url}")
    assert await reranker.rank(QUERY, TEXTS) == [Ranked(1, 0.75), Ranked(2, 0.5)]
    assert canned.bodies[0] == {"model": "m", "query": QUERY, "documents": TEXTS}


async def test_texts_without_a_score_are_left_out_and_a_failure_is_told(server, canned, build):
    """Whoever asks keeps them in their own order: see `gralkord.recall.judging`."""
    canned.answer(200, {"data": [{"index": 2, "score": 0.1}]})
    reranker = build(reranker=f"openai-compatible:m@{canned.url}")
    assert await reranker.rank(QUERY, TEXTS) == [Ranked(2, 0.1)]
    server.set_faults(FaultPlan(next=(Fault.RATE_LIMITED,), retry_after=90))
    reranker = build(reranker=f"openai-compatible:bge@{server.url}")
    with pytest.raises(RateLimited):
        await reranker.rank(QUERY, TEXTS)


async def test_an_answer_without_scores_is_malformed(canned, build):
    """A 200 that is no ranking is a typed error, and no ranking."""
    canned.answer(200, {"hello": "there"})
    reranker = build(reranker=f"openai-compatible:m@{canned.url}")
    with pytest.raises(MalformedOutput, match="no scores"):
        await reranker.rank(QUERY, TEXTS)


def test_there_must_be_a_language_model_to_judge():
    """`llm` with no language model is named at the start, as is a provider with no rerankers."""
    with pytest.raises(ConfigError, match=r"models\.reranker is 'llm', but models\.llm names none"):
        Builder.of(Models(reranker="llm"), {}).reranker()
    with pytest.raises(ConfigError, match="supported are none, llm, openai-compatible"):
        Builder.of(Models(reranker="openai:x"), {"OPENAI_API_KEY": "k"}).reranker()
    assert Builder.of(Models(), {}).reranker() is None
