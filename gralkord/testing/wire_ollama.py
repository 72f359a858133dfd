"""Ollama's way to write requests and answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gralkord.providers.base import Image
from gralkord.testing.prompts import schema_in
from gralkord.testing.wire import (
    MODEL,
    Json,
    Problem,
    Question,
    Texts,
    Written,
    all_texts,
    bearer,
    dimension_of,
    tokens,
)


class OllamaWire:
    """``/api/chat`` and ``/api/embed``; implements `WireFormat`."""

    def key(self, headers: Mapping[str, str]) -> str | None:
        """Return the key that a request carries."""
        return bearer(headers)

    def question(self, body: Json, model: str) -> Question:
        """Read a request for an answer."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ValueError("messages is missing")
        if body.get("stream", True):
            raise ValueError("stream is not supported, and is what is meant without `stream`")
        text = "\n".join(
            str(turn.get("content") or "") for turn in messages if turn.get("role") == "user"
        )
        wanted = body.get("format")
        schema = wanted if isinstance(wanted, dict) else {}
        how = "json_schema" if schema else "json_object" if wanted == "json" else "text"
        sent = json.dumps(schema) if schema else ""
        if not schema:
            schema = schema_in(text) or {}
        limit = (body.get("options") or {}).get("num_predict")
        everything = "\n".join(str(turn.get("content") or "") for turn in messages)
        return Question(
            text=text,
            model=str(body.get("model") or model or MODEL),
            response_format=how,
            schema_name=str(schema.get("title") or ""),
            schema=schema,
            max_tokens=limit if limit and limit > 0 else None,
            whole=sent + everything,
            images=tuple(image for turn in messages for image in _shown(turn)),
        )

    def answer(self, question: Question, written: Written, number: int) -> Json:  # noqa: ARG002
        """Return the body of an answer."""
        return {
            "model": question.model,
            "created_at": "1970-01-01T00:00:00Z",
            "message": {"role": "assistant", "content": written.content},
            "done": True,
            "done_reason": written.finish_reason,
            "prompt_eval_count": question.prompt_tokens,
            "eval_count": tokens(written.content),
        }

    def texts(self, body: Json, model: str) -> Texts:
        """Read a request for vectors."""
        name = str(body.get("model") or model or MODEL)
        dimension = dimension_of(name, body.get("dimensions"))
        return Texts(all_texts(body.get("input")), name, dimension)

    def vectors(self, asked: Texts, rows: NDArray[np.float32]) -> Json:
        """Return the body of an answer with vectors."""
        return {
            "model": asked.model,
            "embeddings": rows.tolist(),
            "prompt_eval_count": sum(tokens(text) for text in asked.texts),
        }

    def problem(self, problem: Problem) -> Json:
        """Return the body of a refusal."""
        return {"error": problem.message}


def _shown(turn: Json) -> list[Image]:
    return [Image("", base64.b64decode(data)) for data in turn.get("images") or []]
