"""Our language model and embedder in the shape that Graphiti wants, for one episode."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, cast

import numpy as np
from pydantic import BaseModel
from typing_extensions import override

from gralkord.errors import GralkorError, MalformedOutput, QueryRefused
from gralkord.graph.library import (
    CrossEncoderClient,
    EmbedderClient,
    LLMClient,
    LLMConfig,
    Message,
    ModelSize,
    get_extraction_language_instruction,
)
from gralkord.graph.names import Spellings
from gralkord.graph.sanitise import clean_answer
from gralkord.groups import Group
from gralkord.providers.base import ChatMessage, Embedder, LanguageModel

if TYPE_CHECKING:
    from gralkord.graph.tables import EntityTable


# Stands for a vector that is in the graph already, and is not written again.
STORED: Final = [0.0]


class EpisodeModel(LLMClient):
    """Graphiti's language model, answered by ours and sanitised.

    Attributes:
        failure: The first failure that was not of one answer alone. Graphiti swallows some, and
            would then store facts without their times because a model was out for a minute.
        calls: How many answers were asked for.
    """

    def __init__(
        self, model: LanguageModel, spellings: Spellings, group: Group | None = None
    ) -> None:
        super().__init__(LLMConfig(model=model.name, small_model=model.name), cache=False)
        self.failure: GralkorError | None = None
        self.calls = 0
        self._model = model
        self._spellings = spellings
        self._group = group
        self._tasks: set[asyncio.Task[Any]] = set()

    @override
    async def generate_response(
        self,
        messages: list[Message],
        response_model: type[BaseModel] | None = None,
        max_tokens: int | None = None,
        model_size: ModelSize = ModelSize.medium,
        group_id: str | None = None,
        prompt_name: str | None = None,
        *,
        attribute_extraction: bool = False,
        model: str | None = None,
    ) -> dict[str, Any]:
        """Return the model's answer to a prompt of Graphiti's.

        Raises:
            GralkorError: The model's own, or the first failure of this episode again.
        """
        if self.failure:
            raise self.failure
        if response_model is None:
            raise QueryRefused("graphiti asks for an answer without a schema")
        self._apply_attribute_extraction_preamble(messages, attribute_extraction)
        messages[0].content += get_extraction_language_instruction(group_id)
        stage = prompt_name or ""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.calls += 1
        try:
            answer = await self._model.complete(
                [_chat(message) for message in messages],
                response_model,
                small=model_size is ModelSize.small,
                max_tokens=max_tokens,
                stage=stage,
                group=self._group,
            )
        except MalformedOutput:
            raise
        except GralkorError as error:
            self.failure = error
            raise
        finally:
            self._tasks.discard(task)
        fit = clean_answer(stage, answer, response_model.model_fields)
        return self._spellings.settle(fit)

    async def cancel(self) -> None:
        """Cancel calls that are still under way: after an error Graphiti leaves them running."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @override
    async def _generate_response(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError  # only the inherited generate_response calls it


class EpisodeEmbedder(EmbedderClient):
    """Graphiti's embedder, answered by ours; each text is embedded once an episode.

    With no embedder every vector is zero, which finds nothing and is not stored. So it is with the
    names of entities that the group knows: they are found by their names, and have their vectors.

    Args:
        embedder: Makes the vectors.
        group: On whose account.
        entities: Those that the group knows.
    """

    def __init__(
        self,
        embedder: Embedder | None,
        group: Group | None = None,
        entities: EntityTable | None = None,
    ) -> None:
        self._embedder = embedder
        self._group = group
        self._entities = entities
        self._known: dict[str, list[float]] = {}

    @override
    async def create(
        self, input_data: str | list[str] | Iterable[int] | Iterable[Iterable[int]]
    ) -> list[float]:
        """Return the vector of one text."""
        text = input_data if isinstance(input_data, str) else cast("list[str]", input_data)[0]
        return (await self.create_batch([text]))[0]

    @override
    async def create_batch(self, input_data_list: list[str]) -> list[list[float]]:
        """Return the vectors of some texts, in order."""
        texts = [text.replace("\n", " ") for text in input_data_list]
        missing = list(dict.fromkeys(text for text in texts if text not in self._known))
        stored = [text for text in missing if self._is_stored(text)]
        self._known |= dict.fromkeys(stored, STORED)
        missing = [text for text in missing if text not in self._known]
        for text, vector in zip(missing, await self._embed(missing), strict=True):
            self._known[text] = vector
        return [self._known[text] for text in texts]

    def _is_stored(self, name: str) -> bool:
        """Return whether entities of exactly this name are known, all with their vectors."""
        rows = self._entities.by_name(name) if self._entities else []
        return bool(rows) and all(
            row.name == name and self._entities.has_vector(row.uuid)
            for row in rows
            if self._entities
        )

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not self._embedder or not texts:
            return [[0.0] for _ in texts]
        return cast(
            "list[list[float]]",
            np.nan_to_num(
                await self._embedder.embed(texts, group=self._group, stage="understand")
            ).tolist(),
        )


class NoReranker(CrossEncoderClient):
    """Graphiti wants one, and adding an episode never asks it."""

    @override
    async def rank(self, query: str, passages: list[str]) -> NoReturn:
        raise QueryRefused("there is no reranker in the graph")


def _chat(message: Message) -> ChatMessage:
    return ChatMessage(
        cast("Literal['system', 'user', 'assistant']", message.role), message.content
    )
