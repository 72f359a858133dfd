"""The daemon's side of observing and a worker's, in one process."""

from __future__ import annotations

import asyncio

from fakes import FakeEmbedder

from gralkord.clock import SystemClock
from gralkord.config import Agent, Consolidate, Lens
from gralkord.graph.cache import CachePool
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.invalidation import Invalidations
from gralkord.graph.memory_changes import MemoryNotes
from gralkord.graph.notes import NoteFinder
from gralkord.graph.passages import PassageStore
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.mailbox.requests import Requests
from gralkord.memories.lookup import Lookup
from gralkord.memories.memories import Memories
from gralkord.memories.observe import ObserveService
from gralkord.memories.records import Records
from gralkord.models.observe import ObserveRequest
from gralkord.models.records import AddMemoryRequest, MemoriesQuery, UpdateMemoryRequest
from gralkord.providers.embedders.choice import Embedders
from gralkord.turns.consolidate.reconcile import Consolidator
from gralkord.turns.observe import Observer
from gralkord.turns.records import RecordKeeper
from gralkord.turns.understand import understand
from gralkord.turns.work import UnderstandParts
from gralkord.wire import read_model


class AtOnce:
    """The graph on a disk that needs no time; each request would wait a second for it."""

    def __init__(self, graph) -> None:
        self.ensure_group = graph.ensure_group

    async def known_run(self):
        """Return what it is."""
        return "run"

    async def wait_durable(self, run):
        """Wait for nothing."""


class Memory:
    """Observes, keeps and lists memories, on real servers."""

    def __init__(self, queue, graph, model, **settings) -> None:
        keys, clock = Keys(), SystemClock()
        caches, embedders = CachePool(graph, 1 << 24), Embedders.of(FakeEmbedder())
        self.queue, self.graph = queue, graph
        self.mailbox = Mailbox(queue, keys)
        self.flushes = Flushes(queue, keys, clock)
        self.requests = Requests(queue, keys, clock, self.flushes, self._ring, backlog_limit=100)
        lenses = LensRegistry(
            {"shared": Lens(scope="global"), "work": Lens()},
            agents={"clerk": Agent(default_lens="work"), "herald": Agent(default_lens="shared")},
        )
        lookup = Lookup(CachePool(graph, 1 << 24), lenses, clock)
        self.records = Records(self.requests, lookup, clock)
        self.observing = ObserveService(self.requests, lenses, clock, model is not None)
        self.memories = Memories(AtOnce(graph), lookup, Invalidations(graph))
        self.notes = MemoryNotes(graph)
        self.episodes = EpisodeWriter(graph, caches, model, embedders)
        finder = NoteFinder(caches, embedders, clock)
        self.consolidator = Consolidator(model, finder, Consolidate(**settings))
        self.parts = UnderstandParts(
            mailbox=self.mailbox,
            graph=AtOnce(graph),
            passages=PassageStore(graph),
            episodes=self.episodes,
            clock=clock,
            ring=self._again,
            executors={
                "observe": Observer(self.consolidator, self.episodes, self.notes, caches),
                "memories": RecordKeeper(self.episodes, self.notes, caches),
            },
            lenses=lenses,
            model=model,
            notes=finder,
        )
        self.working = set()

    async def observe(self, *messages, operator="ann", **more):
        """Observe, and wait for the decisions."""
        raw = {"operator": operator, "messages": list(messages), "timeout_ms": 20_000, **more}
        return await self.observing.observe("default", read_model(ObserveRequest, raw))

    async def add(self, content, operator="ann", **more):
        """Add a memory, and wait for it."""
        raw = {"operator": operator, "content": content, **more}
        return await self.records.add("default", read_model(AddMemoryRequest, raw))

    async def update(self, memory, operator="ann", **more):
        """Change a memory, and wait for it."""
        request = read_model(UpdateMemoryRequest, {"operator": operator, **more})
        return await self.records.update("default", memory, request)

    async def list(self, operator="ann", **more):
        """Return the memories of an operator."""
        query = read_model(MemoriesQuery, {"operator": operator, **more})
        return (await self.records.page("default", query)).memories

    async def contents(self, operator="ann", **more):
        """Return what they say."""
        return [each.content for each in await self.list(operator, **more)]

    async def _ring(self, rings):
        for _, group in rings:
            await self._again(group)

    async def _again(self, group):
        task = asyncio.create_task(understand(self.parts, group))
        self.working.add(task)
        task.add_done_callback(self.working.discard)
