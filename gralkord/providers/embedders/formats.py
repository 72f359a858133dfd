"""How the providers' requests for vectors and their answers are written."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from gralkord.errors import MalformedOutput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gralkord.providers.endpoint import Endpoint

Json = dict[str, Any]

# Whatever a provider sends instead of an answer fails as one of these.
UNREADABLE: Final = (LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for.

    Attributes:
        texts: What is embedded.
        dimension: The length to ask for; None leaves it to the model.
        query: Whether the texts are questions; None where the model is not to be told.
    """

    texts: Sequence[str]
    dimension: int | None = None
    query: bool | None = None


class Format(Protocol):
    """One provider's way to write."""

    @property
    def most_texts(self) -> int:
        """How many texts it takes at once."""
        ...

    def request(self, endpoint: Endpoint, wanted: Wanted) -> tuple[str, Json]:
        """Return the path, below the base URL, and the body of a request."""
        ...

    def vectors(self, body: Json) -> NDArray[np.float32]:
        """Return the vectors of an answer; raises one of `UNREADABLE` where it is none."""
        ...

    def tokens(self, body: Json) -> int | None:
        """Return how many tokens were read, if the answer says so."""
        ...


class OpenAI:
    """``/embeddings`` of OpenAI and of all who do the same."""

    most_texts = 128

    def request(self, endpoint: Endpoint, wanted: Wanted) -> tuple[str, Json]:
        """Return path and body."""
        body: Json = {"model": endpoint.model, "input": list(wanted.texts)}
        if wanted.dimension:
            body["dimensions"] = wanted.dimension
        return "/embeddings", body

    def vectors(self, body: Json) -> NDArray[np.float32]:
        """Return the vectors of an answer, in the order of the texts."""
        data = body["data"]
        places = [each.get("index", place) for place, each in enumerate(data)]
        if sorted(places) != list(range(len(data))):
            raise MalformedOutput("the vectors are not numbered as the texts are")
        rows: list[Any] = [None] * len(data)
        for place, each in zip(places, data, strict=True):
            written = each["embedding"]
            rows[place] = (
                np.frombuffer(base64.b64decode(written), dtype="<f4")
                if isinstance(written, str)
                else written
            )
        return _matrix(rows)

    def tokens(self, body: Json) -> int | None:
        """Return how many tokens were read."""
        usage = body.get("usage") or {}
        return _count(usage, "prompt_tokens") or _count(usage, "total_tokens")


class Google:
    """``batchEmbedContents``, and ``embedContent`` for models that make one vector of a batch."""

    def __init__(self, model: str) -> None:
        self.single = bool(re.match(r"gemini-embedding-2", model))

    @property
    def most_texts(self) -> int:
        """How many texts it takes at once."""
        return 1 if self.single else 100

    def request(self, endpoint: Endpoint, wanted: Wanted) -> tuple[str, Json]:
        """Return path and body."""
        model = f"models/{endpoint.model.removeprefix('models/')}"
        requests = [self._one(model, text, wanted) for text in wanted.texts]
        if len(requests) == 1:
            return f"/{model}:embedContent", requests[0]
        return f"/{model}:batchEmbedContents", {"requests": requests}

    def vectors(self, body: Json) -> NDArray[np.float32]:
        """Return the vectors of an answer, in the order of the texts."""
        several = body.get("embeddings")
        rows = [body["embedding"]] if several is None else several
        return _matrix([each["values"] for each in rows])

    def tokens(self, body: Json) -> int | None:
        """Return how many tokens were read."""
        return _count(body.get("usageMetadata") or {}, "promptTokenCount")

    def _one(self, model: str, text: str, wanted: Wanted) -> Json:
        one: Json = {"model": model, "content": {"parts": [{"text": text}]}}
        if wanted.query is not None:
            one["taskType"] = "RETRIEVAL_QUERY" if wanted.query else "RETRIEVAL_DOCUMENT"
        if wanted.dimension:
            one["outputDimensionality"] = wanted.dimension
        return one


class Ollama:
    """``/api/embed``."""

    most_texts = 64

    def request(self, endpoint: Endpoint, wanted: Wanted) -> tuple[str, Json]:
        """Return path and body."""
        body: Json = {"model": endpoint.model, "input": list(wanted.texts), "truncate": True}
        if wanted.dimension:
            body["dimensions"] = wanted.dimension
        return "/api/embed", body

    def vectors(self, body: Json) -> NDArray[np.float32]:
        """Return the vectors of an answer, in the order of the texts."""
        return _matrix(body["embeddings"])

    def tokens(self, body: Json) -> int | None:
        """Return how many tokens were read."""
        return _count(body, "prompt_eval_count")


def format_of(endpoint: Endpoint) -> Format:
    """Return how *endpoint* is spoken to."""
    if endpoint.provider == "google":
        return Google(endpoint.model)
    return Ollama() if endpoint.provider == "ollama" else OpenAI()


def _matrix(rows: Sequence[Any]) -> NDArray[np.float32]:
    """Return vectors as one array.

    Raises:
        ValueError: They are not numbers, or not all of one length.
    """
    if not len(rows):
        return np.zeros((0, 0), dtype=np.float32)
    # A null among the numbers is none.
    found = np.asarray(rows, dtype=np.float32)
    if found.ndim != 2:
        raise ValueError("the vectors are no rows of numbers")
    return found


def _count(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    return value if isinstance(value, int) and value > 0 else None
