"""The operations of the daemon, as the HTTP front calls them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from redis.asyncio import Redis

from gralkord import __version__
from gralkord.clock import Clock
from gralkord.config import Server, Settings
from gralkord.daemon.duties import Duties
from gralkord.errors import GralkorError, NoModel
from gralkord.graph.connection import GraphConnection
from gralkord.graph.passages import PassageStore
from gralkord.groups import parse_group
from gralkord.intake.producer import Producer
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.models import (
    Capture,
    CaptureReceipt,
    FlushRequest,
    FlushResult,
    RecallRequest,
    RecallResult,
)
from gralkord.recall.recall import Recaller
from gralkord.turns.backfill import backfill_group

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
    lenses: LensRegistry
    recaller: Recaller
    duties: Duties
    clock: Clock
    model: str | None
    gate: Gate = field(default_factory=Gate)

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
        groups = self.lenses.searched(tenant, request.operator, request.lenses)
        return await self.recaller.recall(tenant, request, groups)

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
            done, rings = await backfill_group(self.passages, self.mailbox, group)
            await self.duties.ring(rings)
            groups += done.groups
            items += done.items
            turns += done.turns
        return {"groups": groups, "items": items, "turns": turns}

    async def status(self, tenant: str) -> dict[str, Any]:
        """Return what runs where, and how much waits."""
        return {
            "version": __version__,
            "router": self.duties.is_router,
            "queue": await self._queue_status(tenant),
            "graph": await self._graph_status(tenant),
            "model": self.model or "none",
            "embedder": self.settings.models.embedder,
            "lenses": list(self.lenses.names()),
        }

    async def ready(self) -> dict[str, Any]:
        """Return whether captures can be stored, and the state of each part."""
        parts: dict[str, str] = {}
        try:
            with queue_errors():
                await self.queue.set(self.keys.named("probe"), 1, px=1000)
            parts["queue"] = "ok"
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
            with queue_errors():
                pipe = self.queue.pipeline(transaction=False)
                pipe.xlen(self.keys.intake(tenant))
                pipe.zcard(self.keys.named("idle"))
                pipe.xlen(self.keys.named("dead"))
                pipe.info("memory")
                intake, sessions, dead, memory = await pipe.execute()
            depths = await self.mailbox.depths()
        except GralkorError as error:
            return {"state": error.message}
        return {
            "state": "ok",
            "address": _address(self.settings.queue),
            "durability": self.settings.queue.durability,
            "intake": intake,
            "sessions_buffered": sessions,
            "index_items": depths.get("index", 0),
            "understand_items": depths.get("understand", 0),
            "dead_letters": dead,
            "memory_bytes": memory["used_memory"],
        }

    async def _graph_status(self, tenant: str) -> dict[str, Any]:
        try:
            groups = await self._groups(tenant, None)
            passages = waiting = 0
            for start in range(0, len(groups), COUNTED_AT_ONCE):
                some = groups[start : start + COUNTED_AT_ONCE]
                for held, open_ in await asyncio.gather(*map(self.passages.counts, some)):
                    passages += held
                    waiting += open_
            return {
                "state": "ok",
                "address": _address(self.settings.graph),
                "groups": len(groups),
                "passages": passages,
                "waiting_to_be_understood": waiting,
                "versions": await self.graph.versions(),
            }
        except GralkorError as error:
            return {"state": error.message}


def _address(server: Server) -> str:
    return str(server.socket or f"{server.host}:{server.port}")
