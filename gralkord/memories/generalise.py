"""Generalisations: made through the understand lane, found in the group's cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gralkord.clock import Clock
from gralkord.errors import NoModel
from gralkord.graph.cache import GroupCache
from gralkord.graph.notes import NoteFinder
from gralkord.graph.rows import FactRow
from gralkord.graph.validity import view_at
from gralkord.groups import DEFAULT_LENS, Group
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.requests import Requests
from gralkord.memories.shown import page, stored
from gralkord.models.generalisations import (
    GeneralisationPage,
    GeneralisationQuery,
    GeneralisationsRequest,
    GeneralisationsResult,
    GeneraliseRequest,
    GeneraliseResult,
)
from gralkord.turns.generalise.engine import KINDS
from gralkord.turns.generalise.requests import IMPORT, KIND
from gralkord.wire import check_past

READ_MS: Final = 1_000
_SCORE_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Generalisations:
    """Makes, takes in and finds generalisations, for the daemon.

    Attributes:
        model: Whether a language model is configured.
    """

    requests: Requests
    notes: NoteFinder
    lenses: LensRegistry
    clock: Clock
    model: bool

    async def generalise(self, tenant: str, request: GeneraliseRequest) -> GeneraliseResult:
        """Generalise a transcript, or what is new of an operator.

        Raises:
            NoModel: No language model is configured.
            InvalidInput: It was said in the far future.
            QueueFull: Nothing new is taken for now.
            GralkorError: The queue does not answer.
        """
        if not self.model:
            raise NoModel(
                "no language model is configured, so nothing can be generalised",
                hint="set models.llm, for instance GRALKORD_MODELS__LLM=openai:MODEL",
            )
        check_past(request.event_time, self.clock.now())
        group = Group(tenant, request.operator, DEFAULT_LENS).id
        body = request.model_dump(
            mode="json", include={"transcript", "event_time"}, exclude_none=True
        )
        seconds = request.timeout_ms / 1000
        result = await self.requests.ask(
            tenant, group, KIND, body, seconds, asks_model=True, key=request.id
        )
        return GeneraliseResult.model_validate(
            {"id": result.id, "complete": result.complete, **(result.answer or {})}
        )

    async def add(self, tenant: str, request: GeneralisationsRequest) -> GeneralisationsResult:
        """Add generalisations that were made elsewhere: all of them, or none.

        Raises:
            UnknownLens: No lens has that name.
            QueueFull: Nothing new is taken for now.
            GralkorError: The queue does not answer.
        """
        group = self._group(tenant, request.operator, request.lens)
        given = [one.model_dump(mode="json") for one in request.generalisations]
        seconds = request.timeout_ms / 1000
        result = await self.requests.ask(tenant, group, IMPORT, {"generalisations": given}, seconds)
        return GeneralisationsResult.model_validate(
            {"id": result.id, "complete": result.complete, **(result.answer or {})}
        )

    async def find(self, tenant: str, query: GeneralisationQuery) -> GeneralisationPage:
        """Return generalisations that hold now: the nearest ones, or all in the order of writing.

        Raises:
            UnknownLens: No lens has that name.
            InvalidInput: The page does not begin at a place.
            BackendUnavailable: The graph does not answer.
            GralkorError: The embedder's failure.
        """
        group = self._group(tenant, query.operator, query.lens)
        if query.query is not None and query.query.strip():
            return await self._near(group, query.query, query.max_results)
        cache = await self.notes.caches.fresh(group, timeout_ms=READ_MS)
        if cache is None:
            return GeneralisationPage(generalisations=[])
        return page(self._rows(cache), query)

    async def _near(self, group: str, words: str, limit: int) -> GeneralisationPage:
        [found] = await self.notes.near(group, [words], KINDS, limit)
        return GeneralisationPage(
            generalisations=[stored(one.row, round(one.score, _SCORE_DIGITS)) for one in found]
        )

    def _rows(self, cache: GroupCache) -> list[FactRow]:
        view = view_at(self.clock.now())
        with cache.lock:
            rows = [row for row in cache.facts.rows() if row.note_kind == "generalisation"]
            return [row for row in rows if not cache.ending(row, view).hides(view)]

    def _group(self, tenant: str, operator: str, lens: str) -> str:
        return self.lenses.memory(tenant, operator, lens).id
