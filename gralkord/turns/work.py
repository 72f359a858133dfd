"""What the understand lane works with, and what an ingestion process is given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from gralkord.clock import Clock
from gralkord.config import Consolidate, DefaultLens, Generalise
from gralkord.errors import ConfigError
from gralkord.graph.connection import GraphConnection
from gralkord.graph.drafts import EpisodeDraft, EpisodeResult
from gralkord.graph.notes import NoteFinder
from gralkord.graph.passages import PassageStore, StoredPassage
from gralkord.lenses.registry import Lens, LensRegistry
from gralkord.mailbox.items import FollowUp, Item, Lease
from gralkord.mailbox.mailbox import Mailbox
from gralkord.providers.base import LanguageModel

Ring = Callable[[str], Awaitable[None]]
# Does a request (see `gralkord.mailbox.requests`) and returns its answer, which is JSON. It must do
# no harm when it is done again.
Executor = Callable[[Lease, Item], Awaitable[Mapping[str, Any]]]


class Episodes(Protocol):
    """What this lane needs of the graph: write one episode, once."""

    async def add(self, group: str, epoch: int, draft: EpisodeDraft) -> EpisodeResult:
        """Understand a transcript and write what follows from it, in one fenced write."""
        ...

    async def origins(self, group: str, keys: Sequence[str], *, lens: str, but: str) -> set[str]:
        """Return which turns of other groups are part of other episodes of this one's lens."""
        ...


def no_model() -> ConfigError:
    """Return the error of a worker without a model: its work waits until it has one."""
    return ConfigError("no language model is configured", field="models.llm")


@dataclass(frozen=True, slots=True)
class Making:
    """The settings of what is made of turns, besides those of each lens."""

    default: DefaultLens = field(default_factory=DefaultLens)
    generalise: Generalise = field(default_factory=Generalise)
    consolidate: Consolidate = field(default_factory=Consolidate)


@dataclass(frozen=True, slots=True)
class UnderstandParts:
    """What the understand lane works with.

    Attributes:
        executors: For each kind of request who does it.
        lenses: What each lens looks for.
        model: Answers prompts; none where no model is configured.
        notes: Finds learnings, generalisations and memories; none where none are made.
        making: How notes are made.
        processes: The ingestion processes, by name; see `gralkord.turns.ingestion`.
    """

    mailbox: Mailbox
    graph: GraphConnection
    passages: PassageStore
    episodes: Episodes
    clock: Clock
    ring: Ring
    executors: Mapping[str, Executor] = field(default_factory=dict)
    lenses: LensRegistry = field(default_factory=lambda: LensRegistry({}))
    model: LanguageModel | None = None
    notes: NoteFinder | None = None
    making: Making = field(default_factory=Making)
    processes: Mapping[str, Process] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """One item on its way through a lens.

    Attributes:
        parts: What there is to work with.
        lease: The lease of the group it is written to.
        item: The item.
        lens: The lens.
        passages: The words, in order.
        draft: The episode of them as it would be written as it stands.
    """

    parts: UnderstandParts
    lease: Lease
    item: Item
    lens: Lens
    passages: Sequence[StoredPassage]
    draft: EpisodeDraft


# Makes something of what has come through a lens, and returns the work that follows from it. Done
# again it writes nothing twice. Follow-ups are committed together with the end of the item itself.
Process: TypeAlias = Callable[[Work], Awaitable[Sequence[FollowUp]]]
