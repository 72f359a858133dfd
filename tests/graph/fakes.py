"""A scripted language model, an embedder of letters, and a connection that counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gralkord.graph.connection import GraphConnection

NOTHING: Mapping[str, Any] = {
    "ExtractedEntities": {"extracted_entities": []},
    "ExtractedEdges": {"edges": []},
    "NodeResolutions": {"entity_resolutions": []},
    "FactVerdicts": {"verdicts": []},
    "BatchEdgeTimestamps": {"timestamps": []},
    "SummarizedEntities": {"summaries": []},
}


class FakeModel:
    """Answers by the name of the schema: an object, an error to raise, or a function of the prompt."""

    name = "fake"

    def __init__(self, **answers: Any) -> None:
        self.answers = {**NOTHING, **answers}
        self.stages: list[str] = []

    async def complete(
        self, messages, schema, *, small=False, max_tokens=None, stage="", group=None
    ):
        self.stages.append(stage)
        answer = self.answers[schema.__name__]
        if isinstance(answer, Callable):
            answer = answer("\n".join(message.content for message in messages))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def close(self) -> None:
        pass


class FakeEmbedder:
    """Counts letters, so that similar words have similar vectors."""

    fingerprint = "fake:letters:26"
    dimension = 26
    inline = True

    def __init__(self) -> None:
        self.texts: list[str] = []

    def fits(self, fingerprint):
        """Whether that is its own."""
        return fingerprint == self.fingerprint

    async def close(self):
        """Do nothing."""

    async def embed(self, texts, **_):
        self.texts += texts
        rows = np.zeros((len(texts), 26), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for letter in text.lower():
                if "a" <= letter <= "z":
                    row[ord(letter) - ord("a")] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def entities(*names: Any) -> dict[str, Any]:
    """Return what a model answers that has found entities of these names."""
    return {"extracted_entities": [{"name": name, "entity_type_id": 0} for name in names]}


def facts(*rows: tuple[Any, ...]) -> dict[str, Any]:
    """Return what a model answers that has found facts: source, relation, target, text, since."""
    names = ("source_entity_name", "relation_type", "target_entity_name", "fact", "valid_at")
    return {"edges": [dict(zip(names, row, strict=False)) | {"invalid_at": None} for row in rows]}


def verdict(*, same_as: int = -1, made_false: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return what a model answers that compares one new fact with known ones."""
    return {"verdicts": [{"id": 0, "same_as": same_as, "made_false": list(made_false)}]}


class CountingConnection(GraphConnection):
    """Counts the commands that are sent."""

    def __init__(self, pool: Any) -> None:
        super().__init__(pool)
        self.sent: list[str] = []

    async def _call(self, words, limit, **options):
        self.sent.append(words[0])
        return await super()._call(words, limit, **options)
