"""Put the understand lane together from its settings, for one event loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dramatiq.brokers.redis import RedisBroker
from redis.asyncio import Redis

from gralkord.clock import SystemClock
from gralkord.config import Settings
from gralkord.errors import ConfigError
from gralkord.graph.cache import CachePool
from gralkord.graph.communities import CommunityStore
from gralkord.graph.connection import GraphConnection
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.memory_changes import MemoryNotes
from gralkord.graph.notes import NoteFinder
from gralkord.graph.passages import PassageStore
from gralkord.graph.transfer import RowWriter
from gralkord.graph.triples import TripleWriter
from gralkord.lenses.load import load_lenses, warn_of_ontologies
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.doorbell import Doorbell, open_broker
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.providers.base import LanguageModel
from gralkord.recall.recall import Recaller
from gralkord.turns.communities import KIND as COMMUNITIES
from gralkord.turns.communities import write_communities
from gralkord.turns.consolidate.reconcile import Consolidator
from gralkord.turns.generalise.requests import GeneraliseParts, generalise_executors
from gralkord.turns.ingestion import PROCESSES
from gralkord.turns.ingestion.adding import ADD, add_texts
from gralkord.turns.ingestion.own import OwnProcesses
from gralkord.turns.ingestion.searching import OneLens
from gralkord.turns.models import SharedModels, open_models
from gralkord.turns.observe import Observer
from gralkord.turns.records import RecordKeeper
from gralkord.turns.rows import write_rows
from gralkord.turns.triples import add_triples
from gralkord.turns.understand import OWN
from gralkord.turns.work import Making, UnderstandParts

MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class UnderstandStack:
    """The parts of the lane, and what has to be closed after them."""

    parts: UnderstandParts
    queue: Redis
    graph: GraphConnection
    model: LanguageModel | None
    models: SharedModels
    broker: RedisBroker
    caches: CachePool

    async def close(self) -> None:
        """Close all connections."""
        await self.caches.close()
        await self.models.close()
        await self.graph.close()
        await self.queue.aclose()


def open_understand(settings: Settings, environ: Mapping[str, str]) -> UnderstandStack:
    """Return the understand lane's parts; nothing is sent yet.

    With no model configured it does requests only, which need none.

    Raises:
        ConfigError: The settings name something that cannot be.
    """
    lenses = load_lenses(settings)
    warn_of_ontologies(lenses)
    queue = open_queue(settings.queue)
    clock = SystemClock()
    models = open_models(settings, environ, queue, clock, refuse=True)
    model, embedder = models.llm, models.embedders.present
    if model is not None and embedder is None:
        raise ConfigError(
            "models.llm needs an embedder, models.embedder is none", field="models.embedder"
        )
    broker = open_broker(settings.queue)
    graph = GraphConnection.open(settings.graph)
    caches = CachePool(graph, settings.recall.cache_mb * MEGABYTE)
    passages = PassageStore(graph)
    episodes = EpisodeWriter(graph, caches, model, models.embedders, clock)
    # What a process of a lens is shown is not cut as what an agent reads is.
    uncut = settings.recall.model_copy(update={"max_tokens": None, "token_counter": None})
    recaller = Recaller(caches, models.embedders, uncut, clock)
    notes = NoteFinder(caches, models.embedders, clock)
    generalising = GeneraliseParts.of(model, notes, episodes, graph, settings.generalise, clock)
    records = MemoryNotes(graph)
    consolidator = Consolidator(model, notes, settings.consolidate)
    parts = UnderstandParts(
        mailbox=Mailbox(queue, Keys(), settings.leases.milliseconds(), models.budgets),
        graph=graph,
        passages=passages,
        episodes=episodes,
        clock=clock,
        ring=Doorbell(broker).ring,
        executors={
            "triples": add_triples(TripleWriter(graph, caches, models.embedders, clock)),
            **generalise_executors(generalising),
            COMMUNITIES: write_communities(CommunityStore(graph)),
            "rows": write_rows(RowWriter(graph, models.embedders)),
            "observe": Observer(consolidator, episodes, records, caches),
            "memories": RecordKeeper(episodes, records, caches),
            ADD: add_texts(passages, episodes, lenses),
        },
        lenses=lenses,
        model=model,
        notes=notes,
        making=Making(settings.default_lens, settings.generalise, settings.consolidate),
        processes={**PROCESSES, OWN: OwnProcesses(OneLens(recaller).search).run},
    )
    return UnderstandStack(parts, queue, graph, model, models, broker, caches)
