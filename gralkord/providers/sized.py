"""Two language models as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from gralkord.groups import Group
    from gralkord.providers.base import ChatMessage, Usage
    from gralkord.providers.chat import ChatModel


class SizedModels:
    """Two models as one: the second does the small jobs."""

    def __init__(self, large: ChatModel, small: ChatModel) -> None:
        self._large = large
        self._small = small

    @property
    def name(self) -> str:
        """The name of the model for everything but small jobs."""
        return self._large.name

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What holds call the models that are asked."""
        return tuple(dict.fromkeys(self._large.endpoints + self._small.endpoints))

    @property
    def usage(self) -> Usage:
        """What both have used so far."""
        return self._large.usage + self._small.usage

    def sized(self, *, small: bool) -> ChatModel:
        """Return the model of that size."""
        return self._small if small else self._large

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
        """Ask the model of that size; see :meth:`LanguageModel.complete`."""
        model = self.sized(small=small)
        return await model.complete(
            messages,
            schema,
            small=small,
            max_tokens=max_tokens,
            stage=stage,
            group=group,
            repair=repair,
        )

    async def close(self) -> None:
        """Close the connections of both."""
        await self._large.close()
        await self._small.close()
