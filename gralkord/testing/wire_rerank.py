"""How rerankers are asked and answer: as Jina, Cohere and vLLM do, or as TEI does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gralkord.testing.wire import (
    EMBEDDING_DIMENSION,
    MODEL,
    Json,
    Problem,
    Question,
    Texts,
    all_texts,
    bearer,
    tokens,
)


class RerankWire:
    """``/v1/rerank`` and ``/rerank``; implements `WireFormat`.

    Texts that share words with the question are scored higher, in the same way each time.
    """

    def __init__(self, field: str) -> None:
        self._field = field

    def key(self, headers: Mapping[str, str]) -> str | None:
        """Return the key that a request carries."""
        return bearer(headers)

    def question(self, body: Json, model: str) -> Question:  # noqa: ARG002
        """Refuse: rerankers do not speak."""
        raise ValueError("this model does not speak")

    def answer(self, *_: Any) -> Json:
        """Return nothing: rerankers do not speak."""
        return {}

    def texts(self, body: Json, model: str) -> Texts:
        """Read a request: the question is the first of the texts."""
        query = body.get("query")
        if not isinstance(query, str):
            raise ValueError("missing field `query`")  # noqa: TRY004 - it is a bad request
        if self._field not in body:
            raise ValueError(f"missing field `{self._field}`")
        texts = (query, *all_texts(body[self._field]))
        return Texts(texts, str(body.get("model") or model or MODEL), EMBEDDING_DIMENSION, "rerank")

    def vectors(self, asked: Texts, rows: NDArray[np.float32]) -> Any:
        """Return the body of an answer, best first."""
        scores = [float(score) for score in rows[1:] @ rows[0]]
        order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
        if self._field == "texts":
            return [{"index": at, "score": scores[at]} for at in order]
        return {
            "model": asked.model,
            "results": [{"index": at, "relevance_score": scores[at]} for at in order],
            "usage": {"total_tokens": sum(tokens(text) for text in asked.texts)},
        }

    def problem(self, problem: Problem) -> Json:
        """Return the body of a refusal."""
        return {"error": {"message": problem.message, "code": problem.code or None}}
