"""OpenAI's way to write requests and answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

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


class OpenAIWire:
    """``/v1/chat/completions`` and ``/v1/embeddings``; implements `WireFormat`."""

    def key(self, headers: Mapping[str, str]) -> str | None:
        """Return the key that a request carries."""
        return bearer(headers)

    def question(self, body: Json, model: str) -> Question:
        """Read a request for an answer."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ValueError("messages is missing")
        if body.get("stream"):
            raise ValueError("stream is not supported")
        text = "\n".join(_said(turn) for turn in messages if turn.get("role") == "user")
        how, name, schema = _wanted(body)
        sent = json.dumps(schema) if schema else ""
        if not schema:
            schema = schema_in(text) or {}
            name = str(schema.get("title") or "")
        return Question(
            text=text,
            model=str(body.get("model") or model or MODEL),
            response_format=how,
            schema_name=name,
            schema=schema,
            max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
            whole=sent + "\n".join(_said(turn) for turn in messages),
            images=tuple(image for turn in messages for image in _shown(turn)),
        )

    def answer(self, question: Question, written: Written, number: int) -> Json:
        """Return the body of a chat completion."""
        message: Json = {"role": "assistant", "content": written.content}
        finish_reason = written.finish_reason
        if question.response_format == "tools":
            function = {"name": question.schema_name, "arguments": written.content}
            call = {"id": f"call-{number}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            finish_reason = "tool_calls" if finish_reason == "stop" else finish_reason
        used = tokens(written.content)
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 0,
            "model": question.model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {
                "prompt_tokens": question.prompt_tokens,
                "completion_tokens": used,
                "prompt_tokens_details": {"cached_tokens": written.cached_tokens},
                "total_tokens": question.prompt_tokens + used,
            },
        }

    def texts(self, body: Json, model: str) -> Texts:
        """Read a request for vectors."""
        texts = all_texts(body.get("input"))
        name = str(body.get("model") or model or MODEL)
        dimension = dimension_of(name, body.get("dimensions"))
        return Texts(texts, name, dimension, encoded=body.get("encoding_format") == "base64")

    def vectors(self, asked: Texts, rows: NDArray[np.float32]) -> Json:
        """Return the body of an embeddings answer."""
        used = sum(tokens(text) for text in asked.texts)
        return {
            "object": "list",
            "model": asked.model,
            "data": [
                {
                    "object": "embedding",
                    "index": index,
                    "embedding": (
                        base64.b64encode(row.tobytes()).decode() if asked.encoded else row.tolist()
                    ),
                }
                for index, row in enumerate(rows)
            ],
            "usage": {"prompt_tokens": used, "total_tokens": used},
        }

    def problem(self, problem: Problem) -> Json:
        """Return the body of a refusal."""
        return {
            "error": {
                "message": problem.message,
                "type": problem.kind,
                "param": None,
                "code": problem.code or None,
            }
        }


def _wanted(body: Json) -> tuple[str, str, Json]:
    """Return how a schema is asked for, its name and the schema, where the request holds it."""
    tools = body.get("tools")
    if tools:
        function = tools[0]["function"]
        return "tools", str(function["name"]), function.get("parameters") or {}
    wanted = body.get("response_format") or {"type": "text"}
    named = wanted.get("json_schema") or {}
    return str(wanted.get("type")), str(named.get("name") or ""), named.get("schema") or {}


def _parts(turn: Json) -> list[Any]:
    content = turn.get("content") or ""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _said(turn: Json) -> str:
    return "".join(str(part.get("text") or "") for part in _parts(turn))


def _shown(turn: Json) -> list[Image]:
    links = [part["image_url"]["url"] for part in _parts(turn) if part.get("type") == "image_url"]
    return [data_url(link) for link in links]


def data_url(link: str) -> Image:
    """Read an image that stands in its own address.

    Raises:
        ValueError: It does not.
    """
    head, mark, data = link.partition(";base64,")
    if not mark or not head.startswith("data:"):
        raise ValueError("only images that stand in the request are seen")
    return Image(head.removeprefix("data:"), base64.b64decode(data, validate=True))
