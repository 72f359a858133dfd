"""Models for tests, in this process: a script of answers, and an embedder without opinions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray
    from pydantic import BaseModel

    from gralkord.groups import Group
    from gralkord.providers.base import ChatMessage

Scripted = dict[str, Any] | Exception


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a :class:`ScriptedModel`."""

    messages: tuple[ChatMessage, ...]
    schema: type[BaseModel]
    small: bool
    max_tokens: int | None
    stage: str
    group: Group | None = None
    repair: bool = True


class ScriptExhausted(AssertionError):
    """The scripted model was asked more often than the test expected."""


class ScriptedModel:
    """A language model that gives queued answers in order, and remembers what it was asked."""

    def __init__(self, answers: Iterable[Scripted] = (), *, name: str = "scripted") -> None:
        """Queue *answers*: an object is returned, an exception is raised."""
        self._answers = deque(answers)
        self._name = name
        self.calls: list[ModelCall] = []

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    @property
    def left(self) -> int:
        """How many answers are still queued."""
        return len(self._answers)

    def queue(self, *answers: Scripted) -> None:
        """Add answers to the end of the script."""
        self._answers.extend(answers)

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
        """Return the next answer as the schema reads it.

        Raises:
            ScriptExhausted: No answer is left.
            pydantic.ValidationError: The queued answer does not fit *schema*: the test is wrong.
        """
        self.calls.append(
            ModelCall(tuple(messages), schema, small, max_tokens, stage, group, repair)
        )
        if not self._answers:
            raise ScriptExhausted(
                f"call {len(self.calls)} ({stage or schema.__name__}), but no answer is queued"
            )
        answer = self._answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        checked = schema.model_validate(answer)
        return checked.model_dump(mode="json", exclude_unset=True, by_alias=True)

    async def close(self) -> None:
        """Do nothing: there are no connections."""


class NullEmbedder:
    """An embedder for which no text resembles another: all rows are zero."""

    inline = True

    def __init__(self, dimension: int = 256) -> None:
        self._dimension = dimension

    @property
    def fingerprint(self) -> str:
        """Name of the vector space."""
        return f"null:{self._dimension}"

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return self._dimension

    def fits(self, fingerprint: str) -> bool:
        """Return whether that is its own fingerprint."""
        return fingerprint == self.fingerprint

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    async def embed(
        self,
        texts: Sequence[str],
        *,
        query: bool = False,  # noqa: ARG002 - nothing makes a difference
        group: Group | None = None,  # noqa: ARG002
        stage: str = "",  # noqa: ARG002
    ) -> NDArray[np.float32]:
        """Return float32 zeros of shape (len(texts), dimension)."""
        return np.zeros((len(texts), self._dimension), dtype=np.float32)
