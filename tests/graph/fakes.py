"""A scripted language model, an embedder of letters, and a cache read whole from the graph."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from gralkord.graph.connection import GraphConnection

NOTHING: Mapping[str, Any] = {
    "ExtractedEntities": {"extracted_entities": []},
    "ExtractedEdges": {"edges": []},
    "NodeResolutions": {"entity_resolutions": []},
    "EdgeDuplicate": {"duplicate_facts": [], "contradicted_facts": []},
    "EdgeTimestamps": {"valid_at": None, "invalid_at": None},
    "SummarizedEntities": {"summaries": []},
}


class FakeModel:
    """Answers by the name of the schema: an object, an error to raise, or a function of the prompt."""

    name = "fake"

    def __init__(self, **answers: Any) -> None:
        self.answers = {**NOTHING, **answers}
        self.stages: list[str] = []

    async def complete(self, messages, schema, *, small=False, max_tokens=None, stage=""):
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

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts):
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


class CountingConnection(GraphConnection):
    """Counts the commands that are sent."""

    def __init__(self, pool: Any) -> None:
        super().__init__(pool)
        self.sent: list[str] = []

    async def _call(self, words, limit, **options):
        self.sent.append(words[0])
        return await super()._call(words, limit, **options)


class FakeCaches:
    """Reads a group whole from the graph, each time."""

    def __init__(self, graph: GraphConnection) -> None:
        self.graph = graph

    async def fresh(self, group, *, timeout_ms=200):
        nodes = await self.graph.read(
            group, "MATCH (n:Entity) RETURN properties(n), labels(n) ORDER BY n.seq"
        )
        edges = await self.graph.read(
            group,
            "MATCH (a)-[e:RELATES_TO]->(b) RETURN properties(e), a.uuid, b.uuid ORDER BY e.seq",
        )
        return SimpleNamespace(
            entities=FakeEntities([_row(p, labels=labels) for p, labels in nodes]),
            facts=FakeFacts([_row(p, source_uuid=a, target_uuid=b) for p, a, b in edges]),
        )


_COLUMNS = frozenset(
    [
        "uuid",
        "name",
        "summary",
        "labels",
        "group_id",
        "created_at",
        "seq",
        "vector",
        "fact",
        "episodes",
        "valid_at",
        "invalid_at",
        "expired_at",
        "reference_time",
        "source_node_uuid",
        "target_node_uuid",
    ]
)


def _row(properties: dict[str, Any], **more: Any) -> SimpleNamespace:
    row = dict.fromkeys(_COLUMNS) | properties | more
    attributes = {name: value for name, value in properties.items() if name not in _COLUMNS}
    return SimpleNamespace(**row, attributes=attributes)


class FakeTable:
    def __init__(self, rows):
        self.rows = rows

    def lexical(self, query, limit):
        scored = [(row, len(_words(query) & _words(self.text(row)))) for row in self.rows]
        return sorted([pair for pair in scored if pair[1]], key=lambda pair: -pair[1])[:limit]

    def similar(self, vector, limit, min_score, only=None):
        scored = [
            (row, (1 + float(vector @ _vector(row.vector))) / 2)
            for row in self.rows
            if row.vector and (only is None or only(row))
        ]
        fit = [pair for pair in scored if pair[1] > min_score]
        return sorted(fit, key=lambda pair: -pair[1])[:limit]

    def by_uuid(self, uuids):
        return [row for row in self.rows if row.uuid in set(uuids)]


class FakeEntities(FakeTable):
    def text(self, row):
        return f"{row.name} {row.summary}"

    def by_name(self, name):
        return [row for row in self.rows if row.name.strip().casefold() == name.strip().casefold()]


class FakeFacts(FakeTable):
    def text(self, row):
        return row.fact

    def between(self, source, target):
        return [row for row in self.rows if (row.source_uuid, row.target_uuid) == (source, target)]

    def touching(self, uuid):
        return [row for row in self.rows if uuid in {row.source_uuid, row.target_uuid}]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))


def _vector(text: str) -> np.ndarray:
    row = np.frombuffer(base64.b64decode(text), dtype=np.int8).astype(np.float32)
    return row / np.linalg.norm(row)
