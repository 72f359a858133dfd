"""Put the daemon together from its settings."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from redis.asyncio import Redis

from gralkord.clock import SystemClock
from gralkord.config import Models, Price, Settings
from gralkord.daemon.allowance import Allowance
from gralkord.daemon.costs import CostReports
from gralkord.daemon.duties import Duties
from gralkord.daemon.generalising import GeneraliseSchedule
from gralkord.daemon.guard import Guard
from gralkord.daemon.jobs import Jobs
from gralkord.daemon.services import DaemonServices
from gralkord.daemon.status import QueueStatus
from gralkord.errors import ConfigError
from gralkord.graph.cache import CachePool
from gralkord.graph.communities import CommunityStore
from gralkord.graph.connection import GraphConnection
from gralkord.graph.filling import Filling
from gralkord.graph.fresh import FreshEpisodes
from gralkord.graph.invalidation import Invalidations
from gralkord.graph.notes import NoteFinder
from gralkord.graph.origins import Origins
from gralkord.graph.passages import PassageStore
from gralkord.groups import DEFAULT_TENANT
from gralkord.intake.plan import Planner
from gralkord.intake.producer import Limits, Producer
from gralkord.intake.router import Router
from gralkord.lenses.load import load_lenses, warn_of_ontologies
from gralkord.mailbox.connection import open_queue, warn_of_forgetting
from gralkord.mailbox.dead import DeadLetters
from gralkord.mailbox.doorbell import Doorbell, open_broker
from gralkord.mailbox.durability import Durability
from gralkord.mailbox.erasures import Erasures
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.holds import ModelHolds
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.mailbox.purge import Purge
from gralkord.mailbox.requests import Requests
from gralkord.mailbox.scripts import Scripts
from gralkord.mailbox.sessions import SessionBuffers
from gralkord.memories.communities import Communities
from gralkord.memories.erasing import EraserParts
from gralkord.memories.erasure import ErasureService
from gralkord.memories.generalise import Generalisations
from gralkord.memories.indices import Indices
from gralkord.memories.lookup import Lookup
from gralkord.memories.memories import Memories
from gralkord.memories.observe import ObserveService
from gralkord.memories.records import Records
from gralkord.memories.reembed import Reembed
from gralkord.memories.reindex import Reindex
from gralkord.memories.sources import Sources
from gralkord.memories.transfer import Transfer
from gralkord.memories.triples import TripleService
from gralkord.recall.recall import Judges, Recaller
from gralkord.turns.index import IndexLane, IndexParts
from gralkord.turns.models import SharedModels, open_models
from gralkord.turns.vectors import VectorFollower

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Daemon:
    """All parts of one daemon process."""

    services: DaemonServices
    duties: Duties
    index: IndexLane
    graph: GraphConnection
    queue: Redis
    doorbell: Doorbell
    follower: VectorFollower
    models: SharedModels
    caches: CachePool
    durability: Durability
    schedule: GeneraliseSchedule | None = None

    async def start(self) -> None:
        """Take the duties up; servers that do not answer yet are waited for by each of them."""
        self.duties.start()
        self.duties.perform("durability", self.durability.watch)
        self.duties.perform("erasures", self.services.erasure.watch)
        self.duties.prepare(warn_of_forgetting(self.queue))
        self.duties.perform("vectors", self.follower.watch)
        if self.schedule is not None:
            self.duties.perform("generalise", self.schedule.watch)
        for embedder in self.models.embedders:  # so that the first recall need not load it
            self.duties.prepare(embedder.embed(["warm"]))

    async def stop(self) -> None:
        """Stop from the source: routing first, then the index lane, then the connections."""
        await self.services.erasure.close()
        await self.duties.stop()
        await self.index.close()
        await self.follower.close()
        await self.caches.close()
        await self.models.close()
        self.doorbell.close()
        await self.graph.close()
        await self.queue.aclose()


def build_daemon(settings: Settings, environ: Mapping[str, str]) -> Daemon:
    """Return a daemon that is not started yet.

    Raises:
        ConfigError: The settings name something that cannot be.
    """
    clock, keys = SystemClock(), Keys()
    lenses = load_lenses(settings)
    warn_of_ontologies(lenses)
    queue = open_queue(settings.queue)
    models = open_models(settings, environ, queue, clock, refuse=False)
    model, embedders = models.llm, models.embedders
    allowance = Allowance(models.book, models.budgets, clock)
    graph = GraphConnection.open(settings.graph)
    passages = PassageStore(graph)
    mailbox = Mailbox(queue, keys, settings.leases.milliseconds(), models.budgets)
    flushes = Flushes(queue, keys, clock, models.book)
    doorbell = Doorbell(open_broker(settings.queue))
    follower = VectorFollower(Filling(graph, embedders))
    index = IndexLane(IndexParts(mailbox, graph, passages, embedders, clock, follower.ring))
    planner = Planner(lenses, settings.capture, understanding=model is not None)
    router = Router(
        queue,
        keys,
        planner,
        [DEFAULT_TENANT],
        owner=_owner(),
        lease_ms=int(settings.leases.router_seconds * 1000),
    )
    guard = Guard(queue, keys, clock, [DEFAULT_TENANT], settings.queue.producer_user)
    duties = Duties(router, mailbox, flushes, index, doorbell, guard)
    requests = Requests(
        queue, keys, clock, flushes, duties.ring, backlog_limit=settings.queue.backlog_limit
    )
    durability = Durability(queue, settings.queue.durability)
    limits = Limits(settings.queue.intake_limit, settings.queue.backlog_limit)
    caches = CachePool(graph, settings.recall.cache_mb * MEGABYTE, follower.ring)
    lookup = Lookup(caches, lenses, clock)
    dead = DeadLetters(queue, keys, understanding=model is not None)
    eraser = EraserParts(
        purge=Purge(queue, keys),
        erasures=Erasures(queue, keys),
        mailbox=mailbox,
        dead=dead,
        graph=graph,
        lenses=lenses,
        caches=caches,
        clock=clock,
        understanding=model is not None,
    )
    services = DaemonServices(
        settings=settings,
        queue=queue,
        keys=keys,
        graph=graph,
        passages=passages,
        producer=Producer(queue, keys, lenses, clock, durability, limits),
        mailbox=mailbox,
        flushes=flushes,
        backlog=QueueStatus(queue, keys),
        lenses=lenses,
        recaller=Recaller(
            *(caches, embedders, settings.recall, clock),
            origins=Origins(graph),
            judges=_judges(settings, models, allowance),
            sessions=SessionBuffers(queue, keys),
        ),
        duties=duties,
        jobs=Jobs(Scripts(queue, keys.prefix), graph, clock, model=model is not None),
        dead=dead,
        clock=clock,
        model=model.name if model else None,
        holds=ModelHolds(queue, keys),
        model_endpoints=models.endpoints,
        results=requests,
        costs=CostReports(models.book, models.budgets, clock),
        memories=Memories(graph, lookup, Invalidations(graph)),
        records=Records(requests, lookup, clock),
        observing=ObserveService(requests, lenses, clock, model is not None),
        sources=Sources(lookup),
        triples=TripleService(requests, caches, lenses, clock),
        generalisations=Generalisations(
            requests, NoteFinder(caches, embedders, clock), lenses, clock, model is not None
        ),
        transfer=Transfer(graph, requests, lenses, clock),
        reindex=Reindex(graph, caches, embedders),
        reembed=Reembed(graph, embedders.present, _price(settings.models, "embedder")),
        indices=Indices(graph),
        communities=Communities(
            *(requests, caches, CommunityStore(graph), lenses, clock, model),
            permit=allowance.permit,
            price=_price(settings.models, "llm_small") or _price(settings.models, "llm"),
        ),
        follower=follower,
        erasure=ErasureService(eraser, queue, [DEFAULT_TENANT]),
    )
    hours = settings.default_lens.generalise_hours if model is not None else 0
    schedule = (
        GeneraliseSchedule(FreshEpisodes(graph), requests, duties, clock, hours) if hours else None
    )
    return Daemon(
        *(services, duties, index, graph, queue, doorbell, follower, models, caches, durability),
        schedule,
    )


def _judges(settings: Settings, models: SharedModels, allowance: Allowance) -> Judges:
    """Return the models that look at what was recalled.

    Raises:
        ConfigError: It is to be interpreted, and there is no language model.
    """
    if settings.recall.interpret == "on" and models.llm is None:
        raise ConfigError(
            "recall.interpret is on, but models.llm names no language model",
            field="recall.interpret",
            hint="set models.llm, or recall.interpret = auto",
        )
    return Judges(models.llm, models.reranker, allowance.permit)


def _price(models: Models, role: str) -> Price | None:
    """Return what the model of a role costs, if that is known."""
    options = models.options.get((getattr(models, role) or "").strip())
    return options.price if options else None


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
