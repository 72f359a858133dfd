"""The operations of the daemon, as the HTTP front calls them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from redis.asyncio import Redis

from gralkord import __version__
from gralkord.clock import Clock
from gralkord.config import Settings
from gralkord.daemon.costs import CostReports
from gralkord.daemon.duties import Duties
from gralkord.daemon.jobs import Jobs
from gralkord.daemon.status import QueueStatus, address_of
from gralkord.errors import GralkorError, NoModel
from gralkord.graph.connection import GraphConnection
from gralkord.graph.passages import PassageStore
from gralkord.groups import parse_group
from gralkord.intake.producer import Producer
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.dead import DeadLetters
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.holds import ModelHolds
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.mailbox.requests import Requests
from gralkord.memories.communities import Communities
from gralkord.memories.erasure import ErasureService
from gralkord.memories.generalise import Generalisations
from gralkord.memories.indices import Indices
from gralkord.memories.memories import Memories
from gralkord.memories.observe import ObserveService
from gralkord.memories.records import Records
from gralkord.memories.reembed import Reembed
from gralkord.memories.reindex import Reindex
from gralkord.memories.sources import Sources
from gralkord.memories.transfer import Transfer
from gralkord.memories.triples import TripleService
from gralkord.models import (
    Capture,
    CaptureReceipt,
    FlushRequest,
    FlushResult,
    RecallRequest,
    RecallResult,
)
from gralkord.models.jobs import Job
from gralkord.models.letters import DeadLetter, DeadPage, DeadQuery, DeadResult, DeadSelection
from gralkord.models.search import SearchRequest, SearchResult
from gralkord.recall.recall import Recaller
from gralkord.turns.backfill import backfill_group
from gralkord.turns.vectors import VectorFollower

READY_SECONDS: Final = 0.2
COUNTED_AT_ONCE: Final = 32


@dataclass(slots=True)
class Gate:
    """Whether the graph's indices were seen to be built since this process began."""

    open: bool = False


@dataclass(frozen=True, slots=True)
class DaemonServices:
    """Implements `gralkord.rpc.services.Services` on the parts of this process."""

    settings: Settings
    queue: Redis
    keys: Keys
    graph: GraphConnection
    passages: PassageStore
    producer: Producer
    mailbox: Mailbox
    flushes: Flushes
    backlog: QueueStatus
    lenses: LensRegistry
    recaller: Recaller
    duties: Duties
    jobs: Jobs
    dead: DeadLetters
    clock: Clock
    model: str | None
    holds: ModelHolds
    model_endpoints: Sequence[str]
    results: Requests
    costs: CostReports
    memories: Memories
    records: Records
    observing: ObserveService
    sources: Sources
    triples: TripleService
    generalisations: Generalisations
    transfer: Transfer
    reindex: Reindex
    reembed: Reembed
    indices: Indices
    communities: Communities
    erasure: ErasureService
    follower: VectorFollower
    gate: Gate = field(default_factory=Gate)

    @property
    def ingests(self) -> Producer:
        """What takes things as a whole."""
        return self.producer

    async def capture(
        self, tenant: str, captures: Sequence[Capture]
    ) -> list[CaptureReceipt | GralkorError]:
        """Store turns; return one receipt or error for each, in their order."""
        return await self.producer.capture(tenant, captures)

    async def flush(self, tenant: str, request: FlushRequest) -> FlushResult:
        """Hand a session's buffered turns over to be understood; wait for it if asked."""
        flush = await self.producer.flush(tenant, request.session, request.operator)
        if not request.wait:
            return FlushResult(flush=flush, state="queued", complete=False)
        return await self.flushes.wait(tenant, flush, request.until, request.timeout_ms / 1000)

    async def recall(self, tenant: str, request: RecallRequest) -> RecallResult:
        """Return the memories that help with a query."""
        if request.lens is not None:
            lenses = self.lenses.alone(tenant, request.operator, request.lens)
        else:
            lenses = self.lenses.reached(tenant, request.operator, request.lenses, request.agent)
        return await self.recaller.recall(tenant, request, lenses)

    async def search(self, tenant: str, request: SearchRequest) -> SearchResult:
        """Return what each lens knows that helps with a query."""
        lenses = self.lenses.reached(tenant, request.operator, request.lenses, request.agent)
        return await self.recaller.search(tenant, request, lenses)

    async def backfill(self, tenant: str, operator: str | None) -> dict[str, Any]:
        """Queue the passages that no episode holds, of one operator or of all.

        Raises:
            NoModel: There is no language model to understand them.
        """
        if self.model is None:
            raise NoModel(
                "no language model is configured, so nothing can be understood",
                hint="set models.llm, for instance GRALKORD_MODELS__LLM=openai:MODEL",
            )
        groups = items = turns = 0
        for group in await self._groups(tenant, operator):
            done, rings = await backfill_group(self.passages, self.mailbox, self.lenses, group)
            await self.duties.ring(rings)
            groups += done.groups
            items += done.items
            turns += done.turns
        return {"groups": groups, "items": items, "turns": turns}

    async def job(self, tenant: str, job: str) -> Job:
        """Return what has become of a turn or a flush."""
        return await self.jobs.read(tenant, job)

    def watch_job(self, tenant: str, job: str, timeout: float) -> AsyncGenerator[Job | None]:
        """Yield a job at once, at each change and when it is final; nothing from time to time."""
        return self.jobs.watch(tenant, job, timeout)

    async def dead_letters(self, tenant: str, query: DeadQuery) -> DeadPage:
        """Return dead letters, without the words in them."""
        return await self.dead.page(tenant, query)

    async def dead_letter(self, tenant: str, letter: str) -> DeadLetter:
        """Return one dead letter with all that is known of it."""
        return await self.dead.show(tenant, letter)

    async def retry_dead(self, tenant: str, selection: DeadSelection) -> DeadResult:
        """Put dead letters back to work."""
        outcomes, rings = await self.dead.retry(tenant, await self._letters(tenant, selection))
        await self.duties.ring(rings)
        return _result(outcomes, "retried")

    async def drop_dead(self, tenant: str, selection: DeadSelection) -> DeadResult:
        """Delete dead letters for good."""
        outcomes = await self.dead.drop(tenant, await self._letters(tenant, selection))
        return _result(outcomes, "dropped")

    async def _letters(self, tenant: str, selection: DeadSelection) -> Sequence[str]:
        return selection.ids or await self.dead.select(tenant, selection)

    async def status(self, tenant: str) -> dict[str, Any]:
        """Return what runs where, and how much waits."""
        return {
            "version": __version__,
            "router": self.duties.is_router,
            "queue": await self._queue_status(tenant),
            "graph": await self._graph_status(tenant),
            "model": self.model or "none",
            "model_state": await self._model_state(),
            "budget": await self.costs.state(tenant),
            "embedder": self.settings.models.embedder or "local",
            "vectors": self.follower.state.to_dict(),
            "lenses": list(self.lenses.names()),
        }

    async def _model_state(self) -> dict[str, str | None]:
        try:
            state = await self.holds.state(self.model_endpoints)
        except GralkorError as error:
            return {"state": error.message}
        return state.to_dict()

    async def ready(self) -> dict[str, Any]:
        """Return whether captures can be stored, and the state of each part."""
        parts: dict[str, str] = {}
        try:
            with queue_errors():
                pipe = self.queue.pipeline(transaction=False)
                pipe.set(self.keys.named("probe"), 1, px=1000)
                pipe.get(self.keys.named("closed"))
                _, closed = await pipe.execute()
            parts["queue"] = f"intake is closed: {closed.decode()}" if closed else "ok"
        except GralkorError as error:
            parts["queue"] = error.message
        try:
            await self._graph_ready()
            parts["graph"] = "ok"
        except GralkorError as error:
            parts["graph"] = error.message
        return {"ready": parts["queue"] == "ok", "parts": parts}

    async def _graph_ready(self) -> None:
        """Return if the graph answers; the first time, if its indices are built as well."""
        if self.gate.open:
            await self.graph.groups()
            return
        await self.graph.wait_ready(READY_SECONDS)
        self.gate.open = True

    async def _groups(self, tenant: str, operator: str | None) -> list[str]:
        found = [parse_group(group) for group in await self.graph.groups()]
        return [
            group.id
            for group in found
            if group.tenant == tenant and (operator is None or group.operator == operator)
        ]

    async def _queue_status(self, tenant: str) -> dict[str, Any]:
        try:
            found = await self.backlog.read(tenant)
        except GralkorError as error:
            return {"state": error.message}
        return {
            "state": "ok",
            "address": address_of(self.settings.queue),
            "durability": self.producer.durability,
            **found,
        }

    async def _graph_status(self, tenant: str) -> dict[str, Any]:
        try:
            groups = await self._groups(tenant, None)
            passages = waiting = 0
            for start in range(0, len(groups), COUNTED_AT_ONCE):
                some = groups[start : start + COUNTED_AT_ONCE]
                counts = await asyncio.gather(*map(self.passages.counts, some))
                for group, (held, open_) in zip(some, counts, strict=True):
                    passages += held
                    if not self.lenses.keeps_only_words(parse_group(group)):
                        waiting += open_
            return {
                "state": "ok",
                "address": address_of(self.settings.graph),
                "groups": len(groups),
                "passages": passages,
                "waiting_to_be_understood": waiting,
                "versions": await self.graph.versions(),
            }
        except GralkorError as error:
            return {"state": error.message}


def _result(outcomes: Mapping[str, str], done: str) -> DeadResult:
    left = {letter: outcome for letter, outcome in outcomes.items() if outcome != done}
    return DeadResult(done=len(outcomes) - len(left), left=left)
