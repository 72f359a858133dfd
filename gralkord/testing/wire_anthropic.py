"""Anthropic's way to write requests and answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gralkord.providers.base import Image
from gralkord.testing.prompts import schema_in
from gralkord.testing.wire import MODEL, Json, Problem, Question, Texts, Written, tokens

_KINDS: Final = {
    401: "authentication_error",
    429: "rate_limit_error",
    500: "api_error",
}


class AnthropicWire:
    """``/v1/messages``; implements `WireFormat`."""

    def key(self, headers: Mapping[str, str]) -> str | None:
        """Return the key that a request carries."""
        return headers.get("x-api-key")

    def question(self, body: Json, model: str) -> Question:
        """Read a request for an answer."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ValueError("messages is missing")
        if not body.get("max_tokens"):
            raise ValueError("max_tokens: Field required")
        roles = [turn.get("role") for turn in messages]
        if set(roles) - {"user", "assistant"}:
            raise ValueError("messages: Unexpected role; the system prompt is a field of its own")
        text = "\n".join(_said(turn.get("content")) for turn in messages if turn["role"] == "user")
        tools = body.get("tools") or []
        schema = tools[0]["input_schema"] if tools else schema_in(text) or {}
        name = tools[0]["name"] if tools else schema.get("title")
        everything = [_said(body.get("system")), *(_said(turn.get("content")) for turn in messages)]
        return Question(
            text=text,
            model=str(body.get("model") or model or MODEL),
            response_format="tools" if tools else "text",
            schema_name=str(name or ""),
            schema=schema,
            max_tokens=body["max_tokens"],
            whole=(json.dumps(schema) if tools else "") + "\n".join(everything),
            images=tuple(image for turn in messages for image in _shown(turn.get("content"))),
        )

    def answer(self, question: Question, written: Written, number: int) -> Json:
        """Return the body of an answer: a tool's input where it is an object, else a text."""
        content: list[Json] = [{"type": "text", "text": written.content}] if written.content else []
        stop = "end_turn"
        if question.response_format == "tools":
            try:
                filled = json.loads(written.content, object_pairs_hook=_each_once)
            except ValueError:
                filled = None
            if isinstance(filled, dict):
                name = question.schema_name
                use = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": filled}
                content, stop = [use], "tool_use"
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": question.model,
            "content": content,
            "stop_reason": "max_tokens" if written.finish_reason == "length" else stop,
            "stop_sequence": None,
            "usage": {
                "input_tokens": question.prompt_tokens - written.cached_tokens,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": written.cached_tokens,
                "output_tokens": tokens(written.content),
            },
        }

    def texts(self, body: Json, model: str) -> Texts:  # noqa: ARG002
        """Refuse: there are no vectors here."""
        raise ValueError("this provider has no embeddings")

    def vectors(self, asked: Texts, rows: NDArray[np.float32]) -> Json:  # noqa: ARG002
        """Return nothing: there are no vectors here."""
        return {}

    def problem(self, problem: Problem) -> Json:
        """Return the body of a refusal."""
        kind = _KINDS.get(problem.status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": problem.message}}


def _each_once(pairs: list[tuple[str, Any]]) -> Json:
    """Return an object, unless it names a field twice: what a provider makes of that, none says."""
    filled = dict(pairs)
    if len(filled) < len(pairs):
        raise ValueError("a field is named twice")
    return filled


def _parts(content: Any) -> list[Json]:
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _said(content: Any) -> str:
    return "".join(str(part.get("text") or "") for part in _parts(content))


def _shown(content: Any) -> list[Image]:
    sources = [part["source"] for part in _parts(content) if part.get("type") == "image"]
    return [Image(each["media_type"], base64.b64decode(each["data"])) for each in sources]
