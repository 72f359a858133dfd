"""Recall: what a group's memory holds that helps with a question, within a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from zoneinfo import ZoneInfo

import structlog

from gralkord.clock import Clock
from gralkord.config import RecallSettings
from gralkord.errors import DeadlineExpired, GralkorError
from gralkord.graph.cache import CachePool
from gralkord.graph.origins import Origins
from gralkord.graph.scope import Scope
from gralkord.graph.validity import View, view_at
from gralkord.groups import Group
from gralkord.lenses.registry import GLOBAL, Reached
from gralkord.models import Memory, RecallRequest, RecallResult
from gralkord.models.recall import Question
from gralkord.models.search import RESULTS_OF_A_LENS, SearchRequest, SearchResult
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.choice import Embedders
from gralkord.recall.admission import Admission
from gralkord.recall.deadline import Deadline
from gralkord.recall.finding import Searched
from gralkord.recall.gathering import GRAPH, Gatherer, Shortfalls
from gralkord.recall.judging import Judges, Judging, Looked
from gralkord.recall.query import Query, QueryReader
from gralkord.recall.search import Found, find
from gralkord.recall.shaping import Shaper
from gralkord.recall.unflushed import Sessions, Unflushed

__all__ = ["GRAPH", "Judges", "Recaller"]

log = structlog.get_logger(__name__)

SEARCH: Final = "search"
ORIGIN: Final = "origin"
SESSION: Final = "session"
# Share of the time that is left which looking for a session's own turns may take.
SESSION_SHARE: Final = 0.1
# Notes are looked at within so many seconds of a search's begin, or not at all.
NOTES_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that is being answered.

    Attributes:
        query: The question, read.
        view: From where memory is looked at.
        deadline: When the answer is due.
        short: What the answer is without.
        lean: Whether there are so many recalls that what may be late is left out.
    """

    query: Query
    view: View
    deadline: Deadline
    short: Shortfalls
    lean: bool = False


class Recaller:
    """Answers recalls and searches from the group caches.

    Args:
        caches: The groups in memory.
        embedders: Make the vectors of questions; None goes by words alone.
        settings: The default deadline.
        clock: What tells the time.
        expects_vectors: An embedder is configured, so that without one answers are degraded.
        origins: Tells the lenses that memories of a global group came through; None: nobody does.
        judges: The models that look at what was found; none of them by default.
        sessions: Tells which turns of a session are not flushed yet; None: nobody does.
    """

    def __init__(
        self,
        caches: CachePool,
        embedders: Embedders | Embedder | None,
        settings: RecallSettings,
        clock: Clock,
        *,
        expects_vectors: bool = False,
        origins: Origins | None = None,
        judges: Judges | None = None,
        sessions: Sessions | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._origins = origins
        self._judging = Judging(judges or Judges(), settings)
        self._admission = Admission(settings.concurrency)
        self._sessions = sessions
        self._shaper = Shaper(settings)
        self._reader = QueryReader()
        self._gatherer = Gatherer(caches, embedders, self._reader, expects_vectors=expects_vectors)

    async def recall(
        self, tenant: str, request: RecallRequest, lenses: Sequence[Reached | Group]
    ) -> RecallResult:
        """Return what helps with a question, best first.

        Args:
            tenant: Whose memory; the groups are this tenant's.
            request: The question.
            lenses: The groups to search, in the order that decides between equals.

        Raises:
            DeadlineExpired: Something was late, and the request asks for all or nothing.
            TooMany: There are too many recalls already.
            NoModel: It is to be interpreted, and there is no model.
            InterpretParseFailed: It was to be interpreted, and the model's answer is no use.
        """
        with self._admission.enter() as lean:
            return await self._recall(tenant, request, lenses, lean=lean)

    async def _recall(
        self,
        tenant: str,
        request: RecallRequest,
        lenses: Sequence[Reached | Group],
        *,
        lean: bool,
    ) -> RecallResult:
        mode = self._judging.mode(request.interpret)
        asked = self._ask(request, lean=lean)
        groups = await self._gather(request, lenses, asked)
        unflushed = await self._unflushed(tenant, request.session, asked)
        if unflushed is not None:
            groups = [replace(each, unflushed=unflushed) for each in groups]
        memories = await self._search(groups, self._judging.pool(request.max_results), asked)
        memories = await self._with_origins(groups, memories, asked)
        interpreted = None
        if groups:
            looked = Looked(request.query, groups[0].group, asked.deadline, asked.short, lean=lean)
            memories = await self._judging.rerank(looked, memories)
            memories = memories[: request.max_results]
            told = unflushed.said([each.cache for each in groups]) if unflushed else []
            interpreted = await self._judging.interpret(looked, mode, memories, told)
        if interpreted is not None:
            memories = interpreted.memories
        shaped = await self._shaper.shape(request, memories, asked.deadline, asked.short)
        memories = shaped.memories
        took_ms = self._end(request, asked, tenant, groups=len(groups), results=len(memories))
        return RecallResult(
            results=memories,
            memory_block=shaped.block,
            tokens_estimate=shaped.tokens,
            interpreted=interpreted is not None,
            partial=asked.short.failed,
            degraded=sorted(asked.short.degraded),
            notes=asked.short.notes,
            took_ms=took_ms,
        )

    async def search(
        self, tenant: str, request: SearchRequest, lenses: Sequence[Reached]
    ) -> SearchResult:
        """Return what each lens knows that helps with a question, lens by lens.

        Each group is searched once and by itself, all at the same time; one that fails is missing.

        Args:
            tenant: Whose memory; the groups are this tenant's.
            request: The question.
            lenses: The groups to search, in the order of the results.

        Raises:
            DeadlineExpired: Something was late, and the request asks for all or nothing.
            TooMany: There are too many recalls already.
        """
        with self._admission.enter() as lean:
            return await self._search_lenses(tenant, request, lenses, lean=lean)

    async def _search_lenses(
        self, tenant: str, request: SearchRequest, lenses: Sequence[Reached], *, lean: bool
    ) -> SearchResult:
        asked = self._ask(request, lean=lean)
        groups = await self._gather(request, lenses, asked)
        searches = []
        for each in groups:
            limit = request.max_results or each.limit or RESULTS_OF_A_LENS
            searches.append(self._search([replace(each, limit=None)], limit, asked))
        found = await asyncio.gather(*searches)
        memories = [memory for each in found for memory in each]
        memories = await self._with_origins(groups, memories, asked)
        shaped = await self._shaper.shape(
            request, memories, asked.deadline, asked.short, by_lens=True
        )
        memories = shaped.memories
        took_ms = self._end(request, asked, tenant, groups=len(groups), results=len(memories))
        return SearchResult(
            results=memories,
            lenses=[each.lens for each in lenses],
            memory_block=shaped.block,
            tokens_estimate=shaped.tokens,
            partial=asked.short.failed,
            degraded=sorted(asked.short.degraded),
            notes=asked.short.notes,
            took_ms=took_ms,
        )

    def _ask(self, request: Question, *, lean: bool) -> _Asked:
        deadline = Deadline.after(self._clock, request.deadline_ms or self._settings.deadline_ms)
        now = self._clock.now()
        # "Last week" is relative to the moment that is asked about.
        asked_from = request.as_of or request.known_at or now
        view = view_at(
            now,
            request.as_of,
            request.known_at,
            include_invalidated=request.include_invalidated,
        )
        zone = ZoneInfo(request.zone) if request.zone else None
        query = self._reader.read(request.query, asked_from, zone)
        return _Asked(query, view, deadline, Shortfalls(), lean)

    async def _gather(
        self, request: Question, lenses: Sequence[Reached | Group], asked: _Asked
    ) -> list[Searched]:
        reached = [each if isinstance(each, Reached) else Reached(each) for each in lenses]
        groups = await self._gatherer.gather(
            asked.query, reached, request.kinds, asked.deadline, asked.short, lean=asked.lean
        )
        scope = Scope.of(request.filters)
        return groups if scope is None else [replace(each, scope=scope) for each in groups]

    async def _unflushed(self, tenant: str, session: str | None, asked: _Asked) -> Unflushed | None:
        """Return what the session that asks has not flushed yet."""
        if session is None or self._sessions is None:
            return None
        try:
            async with asyncio.timeout(asked.deadline.left() * SESSION_SHARE):
                turns = await self._sessions.unflushed(tenant, session)
        except TimeoutError:
            asked.short.add(SESSION, "the session's own turns were not read in time", failed=False)
        except GralkorError as error:
            log.warning("recall_without_session", reason=error.message)
            asked.short.add(SESSION, "the session's own turns are not known for now", failed=False)
        else:
            return Unflushed(session, frozenset(turns)) if turns else None
        return None

    async def _search(self, groups: Sequence[Searched], limit: int, asked: _Asked) -> list[Memory]:
        deadline = asked.deadline
        until = min(deadline.spent + NOTES_SECONDS, deadline.seconds)

        def search() -> Found:
            return find(
                asked.query, groups, limit, asked.view, in_time=lambda: deadline.spent <= until
            )

        try:
            async with asyncio.timeout(deadline.left()):
                found = await asyncio.to_thread(search)
        except TimeoutError:
            asked.short.add(SEARCH, "the memories were not searched in time", late=True)
            return []
        for arm in sorted(found.missing):
            asked.short.add(arm, f"{arm} were not searched")
        return found.memories

    async def _with_origins(
        self, groups: Sequence[Searched], memories: list[Memory], asked: _Asked
    ) -> list[Memory]:
        """Return the memories, those of a global group with the lens that they came through."""
        shared = [each for each in groups if each.group.scope == GLOBAL]
        ids = [memory.id for memory in memories if memory.lens == GLOBAL]
        if self._origins is None or not ids:
            return memories
        origins: dict[str, str] = {}
        try:
            async with asyncio.timeout(asked.deadline.left()):
                for each in shared:
                    rows = each.cache.facts.by_uuid(ids)
                    origins |= await self._origins.of(each.group.id, rows)
        except TimeoutError:
            asked.short.add(ORIGIN, "the lenses of origin were not read in time", late=True)
        except GralkorError as error:
            log.warning("recall_without_origins", reason=error.message)
            asked.short.add(ORIGIN, "the lenses of origin are not known for now")
        return [
            memory.model_copy(update={"origin": origins[memory.id]})
            if memory.lens == GLOBAL and memory.id in origins
            else memory
            for memory in memories
        ]

    def _end(
        self, request: Question, asked: _Asked, tenant: str, *, groups: int, results: int
    ) -> float:
        """Return how many ms it took.

        Raises:
            DeadlineExpired: Something was late, and the request asks for all or nothing.
        """
        took_ms = round(asked.deadline.spent * 1000, 3)
        tell = log.warning if asked.short.late else log.debug
        tell(
            "recall_late" if asked.short.late else "recalled",
            tenant=tenant,
            groups=groups,
            results=results,
            degraded=sorted(asked.short.degraded),
            took_ms=took_ms,
        )
        if asked.short.late and request.on_deadline == "error":
            raise DeadlineExpired(hint="allow more time, or take what is ready with `partial`")
        return took_ms
