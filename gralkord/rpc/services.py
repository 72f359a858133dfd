"""What the HTTP app is built over: the daemon, seen from the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from gralkord.errors import GralkorError
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
    from gralkord.rpc.admin import Communities, Indices
    from gralkord.rpc.costs import CostOperations
    from gralkord.rpc.erasure import Erasures
    from gralkord.rpc.generalise import Generalisations
    from gralkord.rpc.ingest import Ingests
    from gralkord.rpc.memories import Memories
    from gralkord.rpc.observe import Observing
    from gralkord.rpc.records import Records
    from gralkord.rpc.reembed import Reembed
    from gralkord.rpc.reindex import Reindex
    from gralkord.rpc.results import Results
    from gralkord.rpc.sources import Sources
    from gralkord.rpc.transfer import Transfer
    from gralkord.rpc.triples import Triples


class Services(Protocol):
    """The operations of a daemon. Each raises errors of `gralkord.errors` only."""

    @property
    def ingests(self) -> Ingests:
        """What takes things as a whole."""
        ...

    @property
    def results(self) -> Results:
        """Answers that were not waited for."""
        ...

    @property
    def costs(self) -> CostOperations:
        """What model calls have cost."""
        ...

    @property
    def triples(self) -> Triples:
        """Facts as subject, predicate and object."""
        ...

    @property
    def generalisations(self) -> Generalisations:
        """What holds beyond single conversations."""
        ...

    @property
    def transfer(self) -> Transfer:
        """Export and import of memories."""
        ...

    @property
    def reindex(self) -> Reindex:
        """The check of what is in memory against the graph."""
        ...

    @property
    def indices(self) -> Indices:
        """The indices of all groups."""
        ...

    @property
    def communities(self) -> Communities:
        """The communities of entities."""
        ...

    @property
    def reembed(self) -> Reembed:
        """The move of memories to another embedder."""
        ...

    @property
    def memories(self) -> Memories:
        """Single memories."""
        ...

    @property
    def records(self) -> Records:
        """Memories that are told outright."""
        ...

    @property
    def observing(self) -> Observing:
        """What makes memories of what was said."""
        ...

    @property
    def sources(self) -> Sources:
        """What memories were taken from."""
        ...

    @property
    def erasure(self) -> Erasures:
        """What erases."""
        ...

    async def capture(
        self, tenant: str, captures: Sequence[Capture]
    ) -> list[CaptureReceipt | GralkorError]:
        """Store turns; return one receipt or error for each, in their order."""
        ...

    async def flush(self, tenant: str, request: FlushRequest) -> FlushResult:
        """Hand a session's buffered turns over to be understood."""
        ...

    async def recall(self, tenant: str, request: RecallRequest) -> RecallResult:
        """Return the memories that help with a query."""
        ...

    async def search(self, tenant: str, request: SearchRequest) -> SearchResult:
        """Return what each lens knows that helps with a query."""
        ...

    async def status(self, tenant: str) -> dict[str, Any]:
        """Return what runs where, and how much waits."""
        ...

    async def backfill(self, tenant: str, operator: str | None) -> dict[str, Any]:
        """Queue the passages that were never understood; return ``items`` and ``passages``."""
        ...

    async def ready(self) -> dict[str, Any]:
        """Return ``ready``, whether captures can be stored, and ``parts``, the state of each."""
        ...

    async def job(self, tenant: str, job: str) -> Job:
        """Return what has become of a turn or a flush."""
        ...

    def watch_job(self, tenant: str, job: str, timeout: float) -> AsyncGenerator[Job | None]:
        """Yield a job at once, at each change and when it is final; nothing from time to time."""
        ...

    async def dead_letters(self, tenant: str, query: DeadQuery) -> DeadPage:
        """Return dead letters, without the words in them."""
        ...

    async def dead_letter(self, tenant: str, letter: str) -> DeadLetter:
        """Return one dead letter with all that is known of it."""
        ...

    async def retry_dead(self, tenant: str, selection: DeadSelection) -> DeadResult:
        """Put dead letters back to work."""
        ...

    async def drop_dead(self, tenant: str, selection: DeadSelection) -> DeadResult:
        """Delete dead letters for good."""
        ...
