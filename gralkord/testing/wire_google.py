"""Google's way to write requests and answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gralkord.providers.base import Image
from gralkord.testing.prompts import schema_in
from gralkord.testing.wire import (
    Json,
    Problem,
    Question,
    Texts,
    Written,
    dimension_of,
    tokens,
)

# This model answers a batch with one vector, that of all texts together.
MERGES: Final = "gemini-embedding-2"
_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}


class GoogleWire:
    """``generateContent``, ``embedContent`` and ``batchEmbedContents``; implements `WireFormat`."""

    def key(self, headers: Mapping[str, str]) -> str | None:
        """Return the key that a request carries; one in the address is not taken."""
        return headers.get("x-goog-api-key")

    def question(self, body: Json, model: str) -> Question:
        """Read a request for an answer."""
        contents = body.get("contents")
        if not isinstance(contents, list) or not contents:
            raise ValueError("contents is missing")
        settings = body.get("generationConfig") or {}
        schema = settings.get("responseSchema") or {}
        as_json = settings.get("responseMimeType") == "application/json"
        if schema and not as_json:
            raise ValueError("responseSchema needs responseMimeType application/json")
        text = "\n".join(_said(turn) for turn in contents if turn.get("role") != "model")
        sent = json.dumps(schema) if schema else ""
        system = _said(body.get("systemInstruction") or {})
        how = "json_schema" if schema else "json_object" if as_json else "text"
        if not schema:
            schema = schema_in(text) or {}
        return Question(
            text=text,
            model=model,
            response_format=how,
            schema_name=str(schema.get("title") or ""),
            schema=_plain(schema),
            max_tokens=settings.get("maxOutputTokens"),
            whole=sent + "\n".join([system, *map(_said, contents)]),
            images=tuple(image for turn in contents for image in _shown(turn)),
        )

    def answer(self, question: Question, written: Written, number: int) -> Json:
        """Return the body of an answer."""
        used = tokens(written.content)
        return {
            "responseId": f"response-{number}",
            "modelVersion": question.model,
            "candidates": [
                {
                    "index": 0,
                    "content": {"role": "model", "parts": [{"text": written.content}]},
                    "finishReason": "MAX_TOKENS" if written.finish_reason == "length" else "STOP",
                }
            ],
            "usageMetadata": {
                "promptTokenCount": question.prompt_tokens,
                "candidatesTokenCount": used,
                "cachedContentTokenCount": written.cached_tokens,
                "totalTokenCount": question.prompt_tokens + used,
            },
        }

    def texts(self, body: Json, model: str) -> Texts:
        """Read a request for vectors, of one text or of several."""
        single = "requests" not in body
        each = [body] if single else body["requests"]
        if not isinstance(each, list) or not all("content" in one for one in each):
            raise ValueError("content is missing")
        wanted = each[0].get("outputDimensionality") if each else None
        texts = tuple(_said(one["content"]) for one in each)
        if not single and model.startswith(MERGES):
            texts = (" ".join(texts),)
        return Texts(texts, model, dimension_of(model, wanted), single=single)

    def vectors(self, asked: Texts, rows: NDArray[np.float32]) -> Json:
        """Return the body of an answer with vectors."""
        values = [{"values": row.tolist()} for row in rows]
        return {"embedding": values[0]} if asked.single else {"embeddings": values}

    def problem(self, problem: Problem) -> Json:
        """Return the body of a refusal."""
        status = _STATUS.get(problem.status, "UNKNOWN")
        return {"error": {"code": problem.status, "message": problem.message, "status": status}}


def _said(content: Json) -> str:
    return "".join(str(part.get("text") or "") for part in content.get("parts") or [])


def _shown(content: Json) -> list[Image]:
    shown = [part["inlineData"] for part in content.get("parts") or [] if "inlineData" in part]
    return [Image(each["mimeType"], base64.b64decode(each["data"])) for each in shown]


def _plain(schema: Json) -> Json:
    """Return a schema of Google's subset as an ordinary one."""
    plain = dict(schema)
    if isinstance(plain.get("type"), str):
        plain["type"] = plain["type"].lower()
    if plain.pop("nullable", False):
        plain = {"anyOf": [{"type": "null"}, plain]}
    for name in ("items",):
        if isinstance(plain.get(name), dict):
            plain[name] = _plain(plain[name])
    if isinstance(plain.get("properties"), dict):
        plain["properties"] = {key: _plain(value) for key, value in plain["properties"].items()}
    if isinstance(plain.get("anyOf"), list):
        plain["anyOf"] = [_plain(each) for each in plain["anyOf"]]
    return plain
