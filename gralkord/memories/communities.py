"""Communities of a group: found in memory, summed up if wanted, and written by the lane."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gralkord.clock import Clock, to_iso
from gralkord.config import Price
from gralkord.errors import MalformedOutput, NoModel, NotFound, RateLimited, Transient
from gralkord.graph.cache import CachePool
from gralkord.graph.communities import CommunityStore, Outline, Outlined, outlined
from gralkord.graph.validity import view_at
from gralkord.groups import Group
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.requests import Requests
from gralkord.memories.summing_up import MAX_TOKENS, STAGE, CommunitySummary, prompt, tokens
from gralkord.models.admin import (
    MAX_NAMES,
    CommunitiesQuery,
    CommunitiesRequest,
    CommunityBuild,
    CommunityPage,
    StopCommunities,
    Stopped,
    StoredCommunity,
)
from gralkord.providers.base import LanguageModel
from gralkord.turns.communities import KIND

log = structlog.get_logger(__name__)

Row = dict[str, Any]
Permit = Callable[[Group], Awaitable[None]]

READ_MS: Final = 5_000
CALLS_AT_ONCE: Final = 4
ASKED_AGAIN: Final = 5
PAUSE_SECONDS: Final = 5.0
# Written together, and how long that may wait for its turn.
MEMBERS_A_WRITE: Final = 1_000
WRITE_SECONDS: Final = 60.0


@dataclass(slots=True)
class _Run:
    """One build: what it is called, what was found, and how far it is."""

    group: Group
    build: str
    generation: int
    outlined: Outlined
    told: CommunityBuild

    def tell(self, **changes: Any) -> CommunityBuild:
        """Return how far it is now."""
        self.told = self.told.model_copy(update=changes)
        return self.told


@dataclass(frozen=True, slots=True)
class Communities:
    """Implements `gralkord.rpc.admin.Communities`.

    Attributes:
        model: Sums up; none where none is configured.
        permit: Refuses a call where the budget is spent.
        price: What the model costs, if that is known.
    """

    requests: Requests
    caches: CachePool
    store: CommunityStore
    lenses: LensRegistry
    clock: Clock
    model: LanguageModel | None = None
    permit: Permit | None = None
    price: Price | None = None

    async def build(
        self, tenant: str, request: CommunitiesRequest
    ) -> AsyncGenerator[CommunityBuild]:
        """Yield how far a build is; until its end the communities from before it stay.

        Who stops reading stops it.

        Raises:
            UnknownLens: No lens has that name.
            NotFound: The operator has no memories there.
            NoModel: Summaries are wanted, and no model is configured.
            BudgetSpent: Nothing is left for today.
            Transient: Memories were erased meanwhile; nothing has changed.
            GralkorError: The model's or the graph's failure; nothing has changed.
        """
        if request.summaries and self.model is None:
            raise NoModel("no language model is configured", hint="leave `summaries` out")
        run = await self._begin(tenant, request)
        if request.dry_run:
            yield run.tell(done=True)
            return
        if not await self.store.begin(run.group.id, run.build, run.generation):
            raise _erased()
        ended = False
        try:
            yield run.told
            rows = [_row(outline, self.clock) for outline in run.outlined.outlines]
            if request.summaries:
                async for told in self._sum_up(run, rows):
                    yield told
            written: set[str] = set()
            for some in _batches(rows):
                if run.told.stopped or not await self._ask(run, rows=some):
                    break
                written |= {row["uuid"] for row in some}
                yield run.tell(written=len(written))
            else:
                ended = await self._ask(run)
        finally:
            if not ended:
                # Of who goes away every await is cancelled, and this one is not to be.
                await asyncio.shield(self._leave(run))
        yield await self._end(run, ended=ended)

    async def stop(self, tenant: str, request: StopCommunities) -> Stopped:
        """Stop a build that is under way, in whatever daemon.

        Raises:
            UnknownLens: No lens has that name.
            BackendUnavailable: The graph does not answer.
        """
        group = self._group(tenant, request.operator, request.lens)
        if await self.caches.fresh(group.id, timeout_ms=READ_MS) is None:
            return Stopped(stopped=False)
        return Stopped(stopped=await self.store.stop(group.id))

    async def page(self, tenant: str, query: CommunitiesQuery) -> CommunityPage:
        """Return the communities of a group, the largest first.

        Raises:
            UnknownLens: No lens has that name.
            BackendUnavailable: The graph does not answer.
        """
        group = self._group(tenant, query.operator, query.lens)
        return CommunityPage(
            communities=[
                StoredCommunity(
                    id=one.uuid,
                    name=one.name,
                    summary=one.summary,
                    created_at=one.created_at,
                    members=one.size,
                    entities=list(one.names),
                )
                for one in await self.store.read(group.id, query.limit, MAX_NAMES)
            ]
        )

    async def _begin(self, tenant: str, request: CommunitiesRequest) -> _Run:
        group = self._group(tenant, request.operator, request.lens)
        cache = await self.caches.fresh(group.id, timeout_ms=READ_MS)
        if cache is None:
            raise NotFound("this operator has no memories there", field="operator")
        now = self.clock.now()
        build = f"{int(now.timestamp() * 1000)}-{secrets.randbits(48)}"
        generation = cache.generation
        view = view_at(now)
        found = await asyncio.to_thread(outlined, cache, view, build, request.max_communities)
        told = CommunityBuild(
            operator=request.operator,
            lens=request.lens,
            done=False,
            dry_run=request.dry_run,
            entities=found.entities,
            facts=found.facts,
            found=found.found,
            communities=len(found.outlines),
            members=sum(len(one.members) for one in found.outlines),
            **(self._estimate(found.outlines) if request.summaries else {}),
        )
        return _Run(group, build, generation, found, told)

    def _estimate(self, outlines: Sequence[Outline]) -> Mapping[str, Any]:
        pairs = [tokens(one) for one in outlines]
        sent, back = sum(one for one, _ in pairs), sum(one for _, one in pairs)
        usd = None
        if self.price is not None:
            usd = round((sent * self.price.input + back * self.price.output) / 1e6, 6)
        return {"calls": len(outlines), "tokens": sent + back, "usd": usd}

    async def _sum_up(self, run: _Run, rows: list[Row]) -> AsyncGenerator[CommunityBuild]:
        """Have the model name and sum up all; tell how far that is."""
        for start in range(0, len(rows), CALLS_AT_ONCE):
            if (await self.store.building(run.group.id))[0] != run.build:
                yield run.tell(stopped=True)
                return
            outlines = run.outlined.outlines[start : start + CALLS_AT_ONCE]
            calls = (self._summary(run.group, outline) for outline in outlines)
            answers = await _together(calls)
            for row, answer in zip(rows[start : start + CALLS_AT_ONCE], answers, strict=True):
                if answer is not None:
                    row |= {"name": answer.name.strip() or row["name"], "summary": answer.summary}
            fit = sum(answer is not None for answer in answers)
            yield run.tell(
                summed_up=run.told.summed_up + fit,
                unreadable=run.told.unreadable + len(answers) - fit,
            )

    async def _summary(self, group: Group, outline: Outline) -> CommunitySummary | None:
        assert self.model is not None
        for attempt in range(ASKED_AGAIN):
            if self.permit is not None:
                await self.permit(group)
            try:
                answer = await self.model.complete(
                    prompt(outline),
                    CommunitySummary,
                    small=True,
                    max_tokens=MAX_TOKENS,
                    stage=STAGE,
                    group=group,
                )
                return CommunitySummary.model_validate(answer)
            except MalformedOutput:
                log.warning("community_not_summed_up", group=group.id)
                return None
            except RateLimited as error:
                if attempt == ASKED_AGAIN - 1:
                    raise
                await asyncio.sleep(error.retry_after or PAUSE_SECONDS)
        return None

    async def _ask(self, run: _Run, **body: Any) -> bool:
        """Have the lane write something; whether the build goes on.

        Raises:
            Transient: It is not written yet: no worker runs, or the group has much to do.
        """
        asked = {"build": run.build, "generation": run.generation, **body}
        group = run.group
        said = await self.requests.ask(group.tenant, group.id, KIND, asked, WRITE_SECONDS)
        if said.answer is None:
            raise Transient("the communities are not written yet", hint="is a worker running?")
        return bool(said.answer["done"])

    async def _leave(self, run: _Run) -> None:
        """Give a build up, and have swept away what it has written."""
        building, generation = await self.store.building(run.group.id)
        if building == run.build:
            await self.store.stop(run.group.id)
        if run.told.written and generation != -1:
            asked = {"build": run.build, "generation": run.generation}
            await self.requests.ask(run.group.tenant, run.group.id, KIND, asked, 0)

    async def _end(self, run: _Run, *, ended: bool) -> CommunityBuild:
        if ended:
            counts = {"communities": run.told.communities, "summed_up": run.told.summed_up}
            log.info("communities_built", group=run.group.id, **counts)
            return run.tell(done=True)
        if (await self.store.building(run.group.id))[1] != run.generation:
            raise _erased()
        log.info("communities_stopped", group=run.group.id)
        return run.tell(done=True, stopped=True)

    def _group(self, tenant: str, operator: str, lens: str) -> Group:
        return self.lenses.memory(tenant, operator, lens)


async def _together(
    calls: Iterator[Awaitable[CommunitySummary | None]],
) -> list[CommunitySummary | None]:
    """Return all answers; where one fails the others are not waited for."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _row(outline: Outline, clock: Clock) -> Row:
    return {
        "uuid": outline.uuid,
        "name": outline.name,
        "summary": "",
        "created_at": to_iso(clock.now()),
        "size": len(outline.members),
        "members": list(outline.members),
    }


def _parts(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield communities; a large one in parts, each with some of its members."""
    for row in rows:
        for start in range(0, len(row["members"]), MEMBERS_A_WRITE):
            yield row | {"members": row["members"][start : start + MEMBERS_A_WRITE]}


def _batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in _parts(rows):
        if batch and size + len(row["members"]) > MEMBERS_A_WRITE:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row["members"])
    if batch:
        yield batch


def _erased() -> Transient:
    return Transient("memories were erased meanwhile", hint="ask again", retry_after=1)
