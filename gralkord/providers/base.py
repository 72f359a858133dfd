"""What the rest of gralkord asks of models: vectors for texts, and answers that fit a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from pydantic import BaseModel

    from gralkord.groups import Group

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Image:
    """An image that a model is shown.

    Attributes:
        media_type: As ``image/png``.
        data: The file itself.
    """

    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation with a language model.

    Attributes:
        role: Who speaks.
        content: What is said.
        images: What is shown with it; only to models for the role ``vision``.
    """

    role: Role
    content: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model has been asked for so far, failed answers included.

    Attributes:
        cached_tokens: How many of the `prompt_tokens` the provider had cached.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )


class Embedder(Protocol):
    """Turns texts into vectors of one space."""

    @property
    def inline(self) -> bool:
        """Whether it is fast enough to be asked before a turn is written."""
        ...

    @property
    def fingerprint(self) -> str:
        """Name of the space: model, transform and dimension, as in ``local:NAME:256``.

        A group keeps it; vectors of two fingerprints cannot be compared.

        Raises:
            ModelOutage: It is not known before the first vector has come.
        """
        ...

    @property
    def dimension(self) -> int:
        """Length of each vector.

        Raises:
            ModelOutage: It is not known before the first vector has come.
        """
        ...

    def fits(self, fingerprint: str) -> bool:
        """Return whether its vectors are of that space, as far as is known by now."""
        ...

    async def close(self) -> None:
        """Close connections, if there are any."""
        ...

    async def embed(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,
        group: Group | None = None,
        stage: str = "",
    ) -> NDArray[np.float32]:
        """Return one row per text, in order.

        Args:
            texts: Any Unicode; may be empty.
            query: Whether they are questions, and not what is remembered.
            group: On whose account.
            stage: What is being done, for the ledger.

        Returns:
            float32 of shape (len(texts), dimension); each row of length 1, or all zero for a text
            that says nothing.

        Raises:
            RateLimited: The provider asks to wait.
            ModelOutage: The provider does not answer.
            ConfigError: The provider refuses key, model or address, or the vectors are of another
                length than before.
        """
        ...


class LanguageModel(Protocol):
    """Answers a conversation with an object that fits a schema."""

    @property
    def name(self) -> str:
        """The model's name in logs and ledgers."""
        ...

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        schema: type[BaseModel],
        *,
        small: bool = False,
        max_tokens: int | None = None,
        stage: str = "",
        group: Group | None = None,
        repair: bool = True,
    ) -> dict[str, Any]:
        """Return the model's answer as an object that *schema* accepts.

        Args:
            messages: The conversation so far.
            schema: What the answer must fit.
            small: Whether the model for small jobs will do.
            max_tokens: Limit of the answer's length; None leaves it to the provider.
            stage: What is being done, for logs and for the ledger.
            group: On whose account.
            repair: Whether the model is asked once more, at greater length if it was cut off, where
                its answer does not fit.

        Raises:
            BudgetSpent: The account has nothing left for today.
            RateLimited: The provider asks to wait.
            ModelOutage: The provider does not answer.
            MalformedOutput: The answer did not fit the schema, also after the repair turn.
            ConfigError: The provider refuses key, model or address.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a reranker thinks of one text.

    Attributes:
        index: Place of the text among those that were asked about.
        score: How well it fits the question, the higher the better.
    """

    index: int
    score: float


class Reranker(Protocol):
    """Judges how well texts fit a question."""

    @property
    def name(self) -> str:
        """The model's name in logs and ledgers."""
        ...

    async def rank(
        self, query: str, texts: Sequence[str], *, group: Group | None = None
    ) -> list[Ranked]:
        """Return the texts that were judged, best first; some may be left out.

        Raises:
            GralkorError: As :meth:`LanguageModel.complete`.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
