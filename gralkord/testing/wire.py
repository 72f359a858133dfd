"""What the scripted model server reads from requests and writes into answers, in any format.

A format is one way to speak of the same things; each has a module of its own, ``wire_*.py``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from gralkord.providers.base import Image

MODEL: Final = "scripted"
EMBEDDING_DIMENSION: Final = 256
CHARACTERS_PER_TOKEN: Final = 4

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """An answer asked for.

    Attributes:
        text: What the user messages say, joined.
        model: The model's name in the request.
        response_format: ``json_schema``, ``tools``, ``json_object`` or ``text``.
        schema_name: Name of the schema asked for; empty when none can be found.
        schema: The JSON schema, from the request or spelled out in the prompt.
        max_tokens: Limit of the answer, if the request has one.
        whole: All that the model reads: the messages, and the schema where the request holds one.
        images: What the model is shown.
    """

    text: str
    model: str
    response_format: str
    schema_name: str
    schema: Json
    max_tokens: int | None
    whole: str
    images: tuple[Image, ...] = ()

    @property
    def prompt_tokens(self) -> int:
        """How many tokens the model reads."""
        return tokens(self.whole)


@dataclass(frozen=True, slots=True)
class Texts:
    """Vectors asked for.

    Attributes:
        texts: What they are of.
        model: The model's name in the request.
        dimension: How long they are to be.
        kind: ``embedding``, or ``rerank``: the first is the question for the others.
        encoded: Whether each is wanted in base64, and not as a list of numbers.
        single: Whether the request was of the kind that holds one text.
    """

    texts: tuple[str, ...]
    model: str
    dimension: int
    kind: str = "embedding"
    encoded: bool = False
    single: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What the model writes.

    Attributes:
        content: Its words.
        finish_reason: Why it stops: ``stop`` or ``length``.
        cached_tokens: How many tokens of the prompt it had read before.
    """

    content: str
    finish_reason: str = "stop"
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request is refused."""

    status: int
    message: str
    kind: str = "invalid_request_error"
    code: str = ""


class WireFormat(Protocol):
    """How one provider writes requests and answers."""

    def key(self, headers: Mapping[str, str]) -> str | None:
        """Return the key that a request carries."""
        ...

    def question(self, body: Json, model: str) -> Question:
        """Read a request for an answer; *model* stands in the path, or is empty.

        Raises:
            ValueError: It is none; the message says why.
        """
        ...

    def answer(self, question: Question, written: Written, number: int) -> Json:
        """Return the body of an answer."""
        ...

    def texts(self, body: Json, model: str) -> Texts:
        """Read a request for vectors.

        Raises:
            ValueError: It is none; the message says why.
        """
        ...

    def vectors(self, asked: Texts, rows: NDArray[np.float32]) -> Any:
        """Return the body of an answer with vectors, or with what follows from them."""
        ...

    def problem(self, problem: Problem) -> Json:
        """Return the body of a refusal."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A request in the log.

    Attributes:
        number: Counted from 1.
        path: What was asked for.
        model: The model's name in the request.
        status: HTTP status; 0 when the connection was dropped.
        fault: The fault shown, if any.
        authorized: Whether the request carried a key.
        at: When the request came, in seconds of `time.monotonic`.
        schema: Name of the schema asked for.
        response_format: How the schema was asked for; ``embedding`` or ``rerank`` for those.
        prompt_tokens: Counted as characters / 4, as is completion_tokens.
        cached_tokens: How many of the `prompt_tokens` at the beginning of a prompt were known.
        prompt: What was asked.
        answer: What was answered.
        texts: How many texts vectors were asked of, or were to be ranked.
        images: How many images were shown.
    """

    number: int
    path: str
    model: str
    status: int
    fault: str | None
    authorized: bool
    at: float
    schema: str = ""
    response_format: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    prompt: str = ""
    answer: str = ""
    texts: int = 0
    images: int = 0

    def to_dict(self, *, contents: bool) -> Json:
        """Return the entry; prompt and answer only with *contents*."""
        entry = asdict(self)
        if not contents:
            del entry["prompt"], entry["answer"]
        return entry


def tokens(text: str) -> int:
    """Return how many tokens *text* counts as."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def bearer(headers: Mapping[str, str]) -> str | None:
    """Return the key of an Authorization header."""
    given = headers.get("Authorization", "")
    return given.removeprefix("Bearer ") or None


def all_texts(value: Any) -> tuple[str, ...]:
    """Return *value* as texts: one text, or a list of them.

    Raises:
        ValueError: It is neither.
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("what to embed must be a text or a list of texts")
    return tuple(texts)


def dimension_of(model: str, wanted: Any) -> int:
    """Return how long vectors are: as *wanted*, or as a name that ends in ``-N`` says."""
    named = re.search(r"-(\d{1,4})\Z", model)
    return int(wanted or (named[1] if named else EMBEDDING_DIMENSION))


def embed(asked: Texts) -> NDArray[np.float32]:
    """Return unit vectors of hashed words: always the same, and those of each model its own."""
    rows = [_vector(text, asked.dimension, asked.model) for text in asked.texts]
    return np.stack(rows) if rows else np.zeros((0, asked.dimension), dtype=np.float32)


def _vector(text: str, dimension: int, model: str) -> NDArray[np.float32]:
    total = np.zeros(dimension, dtype=np.float32)
    for word in re.findall(r"\w+", text.casefold()):
        seeded = word if model == MODEL else f"{model} {word}"
        seed = int.from_bytes(hashlib.blake2b(seeded.encode(), digest_size=8).digest())
        total += np.random.default_rng(seed).standard_normal(dimension, dtype=np.float32)
    length = float(np.linalg.norm(total))
    return total / np.float32(length) if length else total
