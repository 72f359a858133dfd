"""For tests of an installation: prompts and answers, in the log of whoever asks the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from gralkord.providers.base import ChatMessage, LanguageModel

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gralkord.groups import Group

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class VerboseModel:
    """Implements `LanguageModel`: asks another one, and logs at level ``debug`` what was said.

    That holds what people say, so it is there only where the settings say ``test``.
    """

    model: LanguageModel

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.name

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
        """Return the model's answer.

        Raises:
            GralkorError: As `LanguageModel.complete`.
        """
        said = [f"{each.role}: {each.content}" for each in messages]
        log.debug("prompt", stage=stage, schema=schema.__name__, messages=said)
        answer = await self.model.complete(
            messages,
            schema,
            small=small,
            max_tokens=max_tokens,
            stage=stage,
            group=group,
            repair=repair,
        )
        log.debug("model_said", stage=stage, schema=schema.__name__, answer=answer)
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self.model.close()
