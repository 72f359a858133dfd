"""The path of a turn in one process: router, both lanes, one model."""

from __future__ import annotations

import asyncio
import json

from groups_of_tests import ANN, BOB

from gralkord.clock import SystemClock
from gralkord.config import CaptureSettings, RecallSettings
from gralkord.graph.cache import CachePool
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.notes import NoteFinder
from gralkord.graph.passages import PassageStore
from gralkord.groups import Group
from gralkord.intake.plan import Planner
from gralkord.intake.router import Router
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.providers.embedders.choice import Embedders
from gralkord.providers.local import LocalEmbedder
from gralkord.recall.recall import Recaller
from gralkord.turns.index import IndexLane, IndexParts
from gralkord.turns.ingestion import PROCESSES
from gralkord.turns.ingestion.adding import ADD, add_texts
from gralkord.turns.ingestion.own import OwnProcesses
from gralkord.turns.ingestion.searching import OneLens
from gralkord.turns.understand import OWN, understand
from gralkord.turns.work import UnderstandParts

ALL, WORK = Group("default").id, Group("default", "ann", "work").id


class AtOnce:
    """The graph on a disk that needs no time; each item would wait a second for it."""

    def __init__(self, graph) -> None:
        self.ensure_group = graph.ensure_group

    async def known_run(self):
        """Return what it is."""
        return "run"

    async def wait_durable(self, run):
        """Wait for nothing."""


class Path:
    """The path of a turn in this process: router, both lanes."""

    def __init__(self, queue, graph, model, lenses, groups=(ANN, BOB, WORK, ALL)) -> None:
        self.groups = groups
        self.sent = []
        self.waits = False
        keys, clock = Keys(), SystemClock()
        self.mailbox, passages = Mailbox(queue, keys), PassageStore(graph)
        self.graph = AtOnce(graph)
        self.caches = CachePool(graph, 1 << 24)
        embedders = Embedders.of(LocalEmbedder())
        episodes = EpisodeWriter(graph, self.caches, model, embedders)
        recaller = Recaller(self.caches, embedders, RecallSettings(), clock)
        planner = Planner(lenses, CaptureSettings(), understanding=True)
        self.queue = queue
        self.router = Router(queue, keys, planner, ["default"], owner="one")
        self.index = IndexLane(IndexParts(self.mailbox, self.graph, passages, None, clock))
        self.parts = UnderstandParts(
            self.mailbox,
            self.graph,
            passages,
            episodes,
            clock,
            self._nobody,
            executors={ADD: add_texts(passages, episodes, lenses)},
            lenses=lenses,
            model=model,
            notes=NoteFinder(self.caches, embedders, clock),
            processes={**PROCESSES, OWN: OwnProcesses(OneLens(recaller).search).run},
        )

    async def remember(self, text, *lenses, operator="ann", turn="t1", **more) -> None:
        """Capture a turn, flush, and work until nothing is left."""
        await self.say(text, *lenses, operator=operator, turn=turn, **more)
        await self.flush(operator)
        await self.work()

    async def flush(self, session="ann") -> None:
        """Ask for a session's turns to be understood."""
        await self._send("flush", {"session": session})

    async def say(self, text, *lenses, operator="ann", turn="t1", **more) -> None:
        """Capture a turn: a text, or messages."""
        messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
        said = {"session": operator, "operator": operator, "agent": "bot"}
        said |= {"user": operator.capitalize(), "turn_id": turn, "lenses": lenses}
        await self._send("turn", said | {"turn": messages} | more)

    async def work(self, *, settled=True) -> None:
        """Route, and do what is to be done in all groups; *settled*: and nothing is left."""
        if self.waits:  # else it waited for an entry
            self.waits = False
            await self.router.lead()
            await self.router.route(self._nobody)
        for group in self.groups:
            self.index.ring(group)
            async with asyncio.timeout(10):
                while not await self.mailbox.idle("index", group):
                    pass
        for group in self.groups:
            async with asyncio.timeout(10):  # what failed may be due only a moment later
                while await understand(self.parts, group) or (
                    settled and not await self.mailbox.idle("understand", group)
                ):
                    pass

    async def close(self) -> None:
        """Close what has connections."""
        await self.index.close()
        await self.caches.close()

    async def _send(self, kind, data) -> None:
        fields = {"kind": kind, "data": json.dumps(data)}
        self.waits = True
        self.sent.append(await self.queue.xadd("gk:intake:default", fields))

    async def _nobody(self, _rings) -> None:
        pass
