"""The whole path of a turn in this process, and an eraser beside it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import redis
from fakes import FakeEmbedder
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from gralkord.clock import SystemClock
from gralkord.config import CaptureSettings, Models
from gralkord.config import Lens as LensSettings
from gralkord.embedded.servers import ServerSpec
from gralkord.graph.cache import CachePool
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.passages import PassageStore
from gralkord.intake.plan import Planner
from gralkord.intake.producer import Producer
from gralkord.intake.router import Router
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.dead import DeadLetters
from gralkord.mailbox.durability import Durability
from gralkord.mailbox.erasures import Erasures
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.ledger import SpendBook
from gralkord.mailbox.mailbox import Mailbox
from gralkord.mailbox.purge import Purge
from gralkord.memories.erasing import EraserParts
from gralkord.memories.erasure import ErasureService
from gralkord.models import Capture
from gralkord.models.erasure import EraseRequest
from gralkord.providers.build import build_model
from gralkord.turns.index import IndexLane, IndexParts
from gralkord.turns.ledger import SharedLedger
from gralkord.turns.understand import understand
from gralkord.turns.work import UnderstandParts

WHEN = datetime(2024, 5, 1, 9, tzinfo=UTC)
ROW_QUERIES = (
    "MATCH (n) WHERE NOT n:Meta RETURN labels(n), properties(n) ORDER BY n.uuid, n.key",
    (
        "MATCH (a)-[r]->(b) WITH type(r) AS kind, properties(r) AS values, a.uuid AS a, b.uuid AS b "
        "RETURN kind, values, a, b ORDER BY kind, values.uuid, a, b"
    ),
)


@contextlib.contextmanager
def servers(kind):
    """Run a server that syncs each write; yield its socket and its directory."""
    home = Path(tempfile.mkdtemp(prefix="gk-"))
    spec = ServerSpec(kind=kind, directory=home / kind, socket=home / "s.sock", durability="always")
    process = spec.start()
    try:
        patient = Retry(ConstantBackoff(0.02), 500, (redis.RedisError,))
        with redis.Redis(unix_socket_path=str(spec.socket), retry=patient) as client:
            client.ping()
        yield spec.socket, spec.directory
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


class World:
    """Producer, router, both lanes and the eraser over one queue and one graph."""

    def __init__(self, queue, graph, spec, **capture) -> None:
        keys, clock = Keys(), SystemClock()
        self.queue, self.graph, self.keys = queue, graph, keys
        lenses = {
            "work": LensSettings(),
            "lessons": LensSettings(ingestion="generalise"),
            "shared": LensSettings(scope="global"),
        }
        self.lenses = LensRegistry(lenses)
        self.mailbox, self.passages = Mailbox(queue, keys), PassageStore(graph)
        self.caches = CachePool(graph, 1 << 24)
        ledger = SharedLedger(SpendBook(queue, keys), None, clock)
        self.model = build_model(Models(llm=spec), {}, ledger=ledger)
        self.episodes = EpisodeWriter(graph, self.caches, self.model, FakeEmbedder())
        self.planner = Planner(self.lenses, CaptureSettings(**capture), understanding=True)
        self.router = Router(queue, keys, self.planner, ["default", "other"], owner="one")
        self.producer = Producer(queue, keys, self.lenses, clock, Durability(queue, "always"))
        self.index = IndexLane(IndexParts(self.mailbox, graph, self.passages, None, clock))
        self.understanding = UnderstandParts(
            self.mailbox,
            graph,
            self.passages,
            self.episodes,
            clock,
            self.nobody,
            lenses=self.lenses,
        )
        self.dead = DeadLetters(queue, keys, understanding=True)
        self.parts = EraserParts(
            purge=Purge(queue, keys),
            erasures=Erasures(queue, keys),
            mailbox=self.mailbox,
            dead=self.dead,
            graph=graph,
            lenses=self.lenses,
            caches=self.caches,
            clock=clock,
            understanding=True,
        )
        self.eraser = ErasureService(self.parts, queue, ["default", "other"])
        self._said = 0
        self.last = {}

    async def nobody(self, _rings) -> None:
        """Hear no doorbell; `work` looks for itself."""

    async def close(self) -> None:
        """Close what has connections of its own."""
        await self.eraser.close()
        await self.index.close()
        await self.caches.close()
        await self.model.close()

    async def say(self, operator, turn, text, *, tenant="default", **fields):
        """Capture a turn; each is a minute after the one before."""
        self._said += 1
        name = operator.capitalize()
        capture = Capture(
            session=fields.pop("session", f"{operator}-session"),
            operator=operator,
            agent="bot",
            user=name,
            turn=[{"role": "user", "content": text}],
            turn_id=turn,
            event_time=WHEN + timedelta(minutes=self._said),
            **fields,
        )
        [answer] = await self.producer.capture(tenant, [capture])
        self.last[operator] = self.last.get(operator, 0) + 1
        assert not isinstance(answer, Exception), answer
        return answer

    async def route(self) -> None:
        """Route all that waits."""
        await self.router.lead()
        while await self.queue.xlen("gk:intake:default") + await self.queue.xlen("gk:intake:other"):
            await self.router.route(self.nobody)

    async def flush(self) -> None:
        """Hand over what all sessions have buffered."""
        await self.router.flush_due(self.nobody, everything=True)

    async def indexed(self) -> None:
        """Write all passages."""
        async with asyncio.timeout(20):
            for group in await self.waiting("index"):
                self.index.ring(group)
                while not await self.mailbox.idle("index", group):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)

    async def work(self) -> None:
        """Route, index, flush and understand until nothing is left."""
        await self.route()
        await self.indexed()
        await self.flush()
        async with asyncio.timeout(30):
            while groups := await self.waiting("understand"):
                for group in groups:
                    await understand(self.understanding, group)

    async def waiting(self, lane) -> list[str]:
        """Return the groups with work."""
        return [group.decode() for group in await self.queue.zrange(f"gk:ready:{lane}", 0, -1)]

    async def erase(self, tenant="default", **scope):
        """Erase, and wait for the end."""
        return await self.eraser.erase(tenant, EraseRequest(timeout_ms=60_000, **scope))

    async def rows(self, group):
        """Return all that a group holds, except its Meta node."""
        return [await self.graph.read(group, query) for query in ROW_QUERIES]

    async def texts(self, group) -> set[str]:
        """Return the words of a group's passages."""
        return {row[0] for row in await self.graph.read(group, "MATCH (p:Passage) RETURN p.text")}

    async def facts(self, group) -> dict[str, str | None]:
        """Return a group's facts, and when they have ended."""
        query = "MATCH ()-[f:RELATES_TO]->() RETURN f.fact, f.invalid_at"
        return dict(await self.graph.read(group, query))

    async def meta(self, group) -> tuple[int, int]:
        """Return a group's counters, which must be what there is."""
        counted = await self.passages.counts(group)
        ((held, open_),) = await self.graph.read(
            group, "OPTIONAL MATCH (p:Passage) RETURN count(p), count(p.waiting)"
        )
        assert counted == (held, open_)
        return counted
