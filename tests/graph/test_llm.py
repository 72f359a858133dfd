from __future__ import annotations

import numpy as np
import pytest
from fakes import FakeEmbedder, FakeModel, entities
from pydantic import BaseModel

from gralkord.errors import MalformedOutput, QueryRefused, RateLimited
from gralkord.graph.library import Message, ModelSize
from gralkord.graph.llm import EpisodeEmbedder, EpisodeModel, NoReranker
from gralkord.graph.names import Spellings


class ExtractedEntities(BaseModel):
    extracted_entities: list[dict]


NEW = Spellings(lambda _: ())


def prompt() -> list[Message]:
    return [Message(role="system", content="extract"), Message(role="user", content="Ann: hello")]


async def ask(llm: EpisodeModel, **more):
    return await llm.generate_response(
        prompt(), ExtractedEntities, prompt_name="extract_nodes.extract_message", **more
    )


async def test_the_model_is_asked_with_stage_size_and_schema():
    """Our model gets the messages, the prompt's name as stage, and whether a small one will do."""
    seen = []

    class Model(FakeModel):
        async def complete(
            self, messages, schema, *, small=False, max_tokens=None, stage="", group=None
        ):
            seen.append(([m.role for m in messages], schema, small, max_tokens, stage))
            return entities(" Ann ", " ")

    llm = EpisodeModel(Model(), NEW)
    answer = await ask(llm, model_size=ModelSize.small, max_tokens=100)
    assert [each["name"] for each in answer["extracted_entities"]] == ["Ann"]
    stage = "extract_nodes.extract_message"
    assert seen == [(["system", "user"], ExtractedEntities, True, 100, stage)]


async def test_after_a_failure_no_more_calls_are_made():
    """A rate limit ends the episode; further prompts of it are not sent."""
    model = FakeModel(ExtractedEntities=RateLimited("wait"))
    llm = EpisodeModel(model, NEW)
    for _ in range(2):
        with pytest.raises(RateLimited):
            await ask(llm)
    assert len(model.stages) == 1
    assert isinstance(llm.failure, RateLimited)


async def test_a_malformed_answer_is_of_one_prompt_only():
    """One answer that does not fit says nothing about the next."""
    llm = EpisodeModel(FakeModel(ExtractedEntities=MalformedOutput()), NEW)
    with pytest.raises(MalformedOutput):
        await ask(llm)
    assert llm.failure is None


async def test_answers_without_a_schema_are_refused():
    """Free text cannot be sanitised, so it is not asked for."""
    with pytest.raises(QueryRefused):
        await EpisodeModel(FakeModel(), NEW).generate_response(prompt())


async def test_each_text_is_embedded_once():
    """What Graphiti asks for twice in an episode is remembered."""
    embedder = FakeEmbedder()
    client = EpisodeEmbedder(embedder)
    first = await client.create_batch(["Ann", "Acme", "Ann"])
    assert await client.create("Ann") == await client.create(["Ann"]) == first[0] == first[2]
    assert embedder.texts == ["Ann", "Acme"]


async def test_vectors_hold_no_nan():
    """A number that is none would fail the write; it becomes zero."""

    class Broken(FakeEmbedder):
        async def embed(self, texts, **_):
            return np.full((len(texts), 26), np.nan, dtype=np.float32)

    assert await EpisodeEmbedder(Broken()).create("Ann") == [0.0] * 26


async def test_there_is_no_reranker():
    """Asking for one is an error, not a silent order."""
    with pytest.raises(QueryRefused):
        await NoReranker().rank("q", ["p"])
