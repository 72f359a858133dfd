"""What the rest of gralkord asks of models: vectors for texts, and answers that fit a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from pydantic import BaseModel

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation with a language model."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a model has been asked for so far, failed answers included."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )


class Embedder(Protocol):
    """Turns texts into vectors of one space."""

    @property
    def fingerprint(self) -> str:
        """Name of the space: model and dimension, as in ``local:NAME:256``.

        A group keeps it; vectors of two fingerprints cannot be compared.
        """
        ...

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text, in order.

        Args:
            texts: Any Unicode; may be empty.

        Returns:
            float32 of shape (len(texts), dimension); each row of length 1, or all zero for a text
            that says nothing.
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
    ) -> dict[str, Any]:
        """Return the model's answer as an object that *schema* accepts.

        Args:
            messages: The conversation so far.
            schema: What the answer must fit.
            small: Whether the model for small jobs will do.
            max_tokens: Limit of the answer's length; None leaves it to the provider.
            stage: What is being done, for logs.

        Raises:
            RateLimited: The provider asks to wait.
            ModelOutage: The provider does not answer.
            MalformedOutput: The answer did not fit the schema, also after one repair turn.
            ConfigError: The provider refuses key, model or address.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
