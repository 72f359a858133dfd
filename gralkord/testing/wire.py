"""What the scripted model server reads from a request and writes into an answer, OpenAI's way."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from gralkord.testing.prompts import schema_in

MODEL: Final = "scripted"
EMBEDDING_DIMENSION: Final = 256
CHARACTERS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Question:
    """A chat completion asked for.

    Attributes:
        text: What the user messages say, joined.
        model: The model's name in the request.
        response_format: ``json_schema``, ``json_object`` or ``text``.
        schema_name: Name of the schema asked for; empty when none can be found.
        schema: The JSON schema, from the request or spelled out in the prompt.
        max_tokens: Limit of the answer, if the request has one.
    """

    text: str
    model: str
    response_format: str
    schema_name: str
    schema: dict[str, Any]
    max_tokens: int | None

    @classmethod
    def read(cls, body: dict[str, Any]) -> Question:
        """Read the body of a request.

        Raises:
            ValueError: It is not one; the message says why.
        """
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise ValueError("messages is missing")
        if body.get("stream"):
            raise ValueError("stream is not supported")
        texts = [str(turn.get("content") or "") for turn in messages if turn.get("role") == "user"]
        text = "\n".join(texts)
        wanted = body.get("response_format") or {"type": "text"}
        if wanted.get("type") == "json_schema":
            named = wanted.get("json_schema") or {}
            name, schema = str(named.get("name") or ""), named.get("schema") or {}
        else:
            schema = schema_in(text) or {}
            name = str(schema.get("title") or "")
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        model = str(body.get("model") or MODEL)
        return cls(text, model, str(wanted.get("type")), name, schema, limit)


@dataclass(frozen=True, slots=True)
class Entry:
    """A request in the log.

    Attributes:
        number: Counted from 1.
        path: What was asked for.
        model: The model's name in the request.
        schema: Name of the schema asked for.
        response_format: How the schema was asked for.
        status: HTTP status; 0 when the connection was dropped.
        fault: The fault shown, if any.
        authorized: Whether the request carried an Authorization header.
        prompt_tokens: Counted as characters / 4, as is completion_tokens.
        prompt: What was asked.
        answer: What was answered.
        at: When the request came, in seconds of `time.monotonic`.
    """

    number: int
    path: str
    model: str
    schema: str
    response_format: str
    status: int
    fault: str | None
    authorized: bool
    prompt_tokens: int
    completion_tokens: int
    prompt: str
    answer: str
    at: float

    def to_dict(self, *, contents: bool) -> dict[str, Any]:
        """Return the entry; prompt and answer only with *contents*."""
        entry = asdict(self)
        if not contents:
            del entry["prompt"], entry["answer"]
        return entry


def completion(question: Question, content: str, finish_reason: str, number: int) -> dict[str, Any]:
    """Return the body of a chat completion."""
    prompt, written = tokens(question.text), tokens(content)
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": question.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "total_tokens": prompt + written,
        },
    }


def embeddings(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of an embeddings answer: unit vectors of hashed words, always the same.

    Raises:
        ValueError: The request holds no texts.
    """
    texts = body.get("input")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("input must be a text or a list of texts")
    dimension = int(body.get("dimensions") or EMBEDDING_DIMENSION)
    rows = [_embedding(text, dimension) for text in texts]
    encode = body.get("encoding_format") == "base64"
    used = sum(tokens(text) for text in texts)
    return {
        "object": "list",
        "model": str(body.get("model") or MODEL),
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": base64.b64encode(row.tobytes()).decode() if encode else row.tolist(),
            }
            for index, row in enumerate(rows)
        ],
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


def problem(message: str, *, kind: str = "invalid_request_error", code: str = "") -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code or None}}


def tokens(text: str) -> int:
    """Return how many tokens *text* counts as."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def _embedding(text: str, dimension: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    total = np.zeros(dimension, dtype=np.float32)
    for word in re.findall(r"\w+", text.casefold()):
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
        total += np.random.default_rng(seed).standard_normal(dimension, dtype=np.float32)
    length = float(np.linalg.norm(total))
    return total / np.float32(length) if length else total
