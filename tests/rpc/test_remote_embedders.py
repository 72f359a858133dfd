"""Embedders of every provider over real HTTP."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from canned import canned_server

from gralkord.config import Models
from gralkord.errors import ConfigError, MalformedOutput, ModelOutage, Permanent, RateLimited
from gralkord.groups import Group
from gralkord.providers.build import Builder, build_embedder
from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

ANN = Group("default", "ann", "default")
TEXTS = ["Ann owns a boat.", "Bob lives in Berlin.", "Ann owns a boat."]


@pytest.fixture(scope="module")
def server():
    """A server that speaks as every provider does."""
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture
def canned():
    """A server that says what it is told to."""
    with canned_server() as running:
        yield running


class Listed:
    """A ledger that keeps its calls."""

    def __init__(self):
        self.calls = []

    async def permit(self, group):
        """Let everything pass."""

    async def record(self, call):
        """Keep it."""
        self.calls.append(call)


def build(spec, ledger=None, environ=None, **options):
    """Return the embedder of a spec."""
    models = Models(embedder=spec, options={spec: options} if options else {})
    return Builder.of(models, environ or {}, ledger=ledger).embedder()


@pytest.mark.parametrize(
    ("provider", "model", "paths"),
    [
        ("openai", "text-embedding-3-small", ["/v1/embeddings"]),
        ("openai-compatible", "e5-small", ["/v1/embeddings"]),
        (
            "google",
            "gemini-embedding-001",
            ["/v1beta/models/gemini-embedding-001:batchEmbedContents"],
        ),
        ("google", "gemini-embedding-2", 2 * ["/v1beta/models/gemini-embedding-2:embedContent"]),
        ("ollama", "nomic-embed-text", ["/api/embed"]),
    ],
)
async def test_every_provider_returns_a_row_for_each_text(server, provider, model, paths):
    """Equal texts are sent once; the ledger hears of each call with its tokens and account."""
    ledger = Listed()
    spec = server.spec_of(provider, model)
    keys = {"OPENAI_API_KEY": "sk-x", "GOOGLE_API_KEY": "AIza"}
    embedder = build(spec, ledger, keys, dimension=64)
    before = len(server.requests)
    rows = await embedder.embed(TEXTS, group=ANN, stage="index")
    assert rows.shape == (3, 64)
    assert (rows[0] == rows[2]).all()
    assert not (rows[0] == rows[1]).all()
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert [entry.path for entry in server.requests[before:]] == paths
    assert {(call.role, call.group, call.stage) for call in ledger.calls} == {
        ("embedder", ANN, "index")
    }
    assert sum(call.prompt_tokens for call in ledger.calls) > 5
    assert embedder.fingerprint.startswith(f"{provider}:{model}:")
    assert embedder.fingerprint.endswith(":64")
    await embedder.close()


async def test_a_google_model_that_merges_texts_is_asked_for_single_ones(canned):
    """Fewer vectors than texts are never taken for theirs; from then on texts go one by one."""
    embedder = build(f"google:new@{canned.url}/v1beta", environ={"GOOGLE_API_KEY": "AIza"})
    canned.answer(200, {"embeddings": [{"values": [1, 0]}]})
    for _ in range(3):
        canned.answer(200, {"embedding": {"values": [0, 1]}})
    assert (await embedder.embed(["a", "b"])).shape == (2, 2)
    await embedder.embed(["c"])
    assert [path.rpartition(":")[2] for path in canned.paths] == [
        "batchEmbedContents",
        "embedContent",
        "embedContent",
        "embedContent",
    ]
    assert all("AIza" not in path for path in canned.paths)
    assert {headers["x-goog-api-key"] for headers in canned.headers} == {"AIza"}
    await embedder.close()


async def test_questions_are_told_from_documents(canned):
    """By a prefix, or by the field that the provider has for it."""
    answer = {"embedding": {"values": [1, 0]}}
    google = build(
        f"google:gemini-embedding-001@{canned.url}/v1beta", environ={"GOOGLE_API_KEY": "k"}
    )
    for query in (True, False):
        canned.answer(200, answer)
        await google.embed(["a"], query=query)
    assert [body["taskType"] for body in canned.bodies] == ["RETRIEVAL_QUERY", "RETRIEVAL_DOCUMENT"]
    e5 = build(f"openai-compatible:e5@{canned.url}/v1")
    for query in (True, False):
        canned.answer(200, {"data": [{"embedding": [1, 0]}]})
        await e5.embed(["a"], query=query)
    assert [body["input"] for body in canned.bodies[2:]] == [["query: a"], ["passage: a"]]
    assert "Authorization" not in canned.headers[2]
    for each in (google, e5):
        await each.close()


async def test_requests_are_written_as_this_server_wants_them(canned):
    """Fields are added, renamed and dropped; vectors may come as base64 and in any order."""
    spec = f"openai-compatible:m@{canned.url}/v1"
    embedder = build(
        spec, dimension=2, fields={"truncate": True}, rename={"input": "texts"}, drop=["model"]
    )

    def packed(*numbers):
        return base64.b64encode(np.array(numbers, dtype="<f4").tobytes()).decode()

    data = [{"index": 1, "embedding": packed(0, 3)}, {"index": 0, "embedding": packed(2, 0)}]
    canned.answer(200, {"data": data})
    rows = await embedder.embed(["a", "b"])
    assert rows.tolist() == [[1, 0], [0, 1]]
    assert canned.bodies == [{"texts": ["a", "b"], "dimensions": 2, "truncate": True}]
    await embedder.close()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, {"error": {"message": "no"}}, ConfigError),
        (404, {"error": {"message": "no"}}, ConfigError),
        (307, "", ConfigError),
        (400, {"error": {"message": "no"}}, Permanent),
        (200, "not json", MalformedOutput),
        (200, {"data": []}, MalformedOutput),
        (200, {"data": [{"embedding": [None, 1]}]}, MalformedOutput),
        (200, {"data": [{"embedding": ["x", 1]}]}, MalformedOutput),
        (200, {"data": [{"index": 3, "embedding": [1, 1]}]}, MalformedOutput),
        (200, {"data": [{"embedding": []}]}, MalformedOutput),
        (200, ["x"], MalformedOutput),
    ],
)
async def test_every_refusal_is_an_error_of_its_kind(canned, status, body, error):
    """None becomes a vector, and no text stands in the message."""
    embedder = build(f"openai-compatible:m@{canned.url}/v1")
    canned.answer(status, body, Location="http://elsewhere/")
    with pytest.raises(error) as caught:
        await embedder.embed(["my secret"])
    assert "secret" not in str(caught.value)
    assert len(canned.bodies) == 1
    await embedder.close()


async def test_faults_that_pass_are_waited_out(server):
    """A rate limit and a hiccup cost repeats, nothing else."""
    embedder = build(server.spec)
    server.set_faults(FaultPlan(next=(Fault.RATE_LIMITED, Fault.SERVER_ERROR), retry_after=0.01))
    assert (await embedder.embed(["a"])).any()
    await embedder.close()


async def test_a_wait_that_is_too_long_is_told(server):
    """It is for the caller to come back."""
    embedder = build(server.spec)
    server.set_faults(FaultPlan(next=(Fault.RATE_LIMITED,), retry_after=1_000))
    with pytest.raises(RateLimited):
        await embedder.embed(["b"])
    server.set_faults(FaultPlan())
    await embedder.close()


async def test_a_server_that_is_not_there_is_an_outage():
    """The message names the spec and the hint the address."""
    embedder = build_embedder(Models(embedder="openai-compatible:m@http://127.0.0.1:9/v1"))
    with pytest.raises(ModelOutage, match="cannot be reached") as caught:
        await embedder.embed(["a"])
    assert "127.0.0.1:9" in caught.value.hint
    await embedder.close()
