"""The twins of both clients: their methods over a memory in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from gralkord.client import receipts, reembed, reindex, transfer
from gralkord.client.client import AsyncClient
from gralkord.client.discovery import Endpoint
from gralkord.client.sync import Client
from gralkord.testing.twin.admin import twin_build
from gralkord.testing.twin.script import Script, scripted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gralkord.client.calls import Call
    from gralkord.models.admin import CommunityBuild, GroupIndices
    from gralkord.models.jobs import Job
    from gralkord.models.reembed import GroupMove
    from gralkord.models.reindex import GroupIndex

Answer = TypeVar("Answer")

ENDPOINT: Final = Endpoint("memory:")


@scripted
class InMemoryClient(Script, AsyncClient):
    """An `AsyncClient` without a daemon, for tests: a small real memory, and answers that are told.

    What is captured is recallable at once, by the words that a question shares with it. No model is
    asked: what daemons without one do, it does. Other things it refuses and says so.
    """

    endpoint: Endpoint = ENDPOINT

    async def watch_job(self, job: str, timeout: float = 600.0) -> AsyncIterator[Job]:  # noqa: ARG002, ASYNC109
        """Yield a job; it is final at once.

        Args:
            job: The receipt of a capture, or the id of a flush.
            timeout: Not needed.

        Raises:
            NotFound: There is no such job.
        """
        yield await self._send(receipts.job(job))

    async def export(
        self, operator: str | None = None, *, everything: bool = False, vectors: bool = False
    ) -> AsyncIterator[bytes]:
        """Refuse: the twin has no rows to export."""
        yield await self._send(transfer.export(operator, everything=everything, vectors=vectors))

    async def reindex(
        self, operator: str | None = None, *, check: bool = False
    ) -> AsyncIterator[GroupIndex]:
        """Refuse: the twin has no graph to compare with."""
        refusal: Call[Any] = reindex.reindex(operator, check=check)
        yield await self._send(refusal)

    async def reembed(
        self, operator: str | None = None, *, dry_run: bool = False
    ) -> AsyncIterator[GroupMove]:
        """Refuse: the twin has no vectors."""
        refusal: Call[Any] = reembed.reembed(operator, dry_run=dry_run)
        yield await self._send(refusal)

    async def build_indices(self) -> AsyncIterator[GroupIndices]:
        """Yield nothing: the twin has no indices."""
        found: list[GroupIndices] = []
        for group in found:
            yield group

    async def build_communities(
        self,
        operator: str,
        *,
        lens: str = "default",
        summaries: bool = False,
        max_communities: int = 100,
        dry_run: bool = False,
    ) -> AsyncIterator[CommunityBuild]:
        """Yield one line: what belongs together is found at once. The twin sums nothing up."""
        wanted = {"lens": lens, "summaries": summaries, "max_communities": max_communities}
        yield await self._send(twin_build(operator, dry_run=dry_run, **wanted))

    async def close(self) -> None:
        """Do nothing: the memory stays, for a look at it."""

    async def _send(self, call: Call[Answer]) -> Answer:
        return self._route(call)


@scripted
class SyncInMemoryClient(Script, Client):
    """A `Client` without a daemon: see `InMemoryClient`."""

    endpoint: Endpoint = ENDPOINT

    def watch_job(self, job: str, timeout: float = 600.0) -> Iterator[Job]:  # noqa: ARG002
        """Yield a job; it is final at once.

        Args:
            job: The receipt of a capture, or the id of a flush.
            timeout: Not needed.

        Raises:
            NotFound: There is no such job.
        """
        yield self._send(receipts.job(job))

    def export(
        self, operator: str | None = None, *, everything: bool = False, vectors: bool = False
    ) -> Iterator[bytes]:
        """Refuse: the twin has no rows to export."""
        yield self._send(transfer.export(operator, everything=everything, vectors=vectors))

    def reindex(self, operator: str | None = None, *, check: bool = False) -> Iterator[GroupIndex]:
        """Refuse: the twin has no graph to compare with."""
        refusal: Call[Any] = reindex.reindex(operator, check=check)
        yield self._send(refusal)

    def reembed(self, operator: str | None = None, *, dry_run: bool = False) -> Iterator[GroupMove]:
        """Refuse: the twin has no vectors."""
        refusal: Call[Any] = reembed.reembed(operator, dry_run=dry_run)
        yield self._send(refusal)

    def build_indices(self) -> Iterator[GroupIndices]:
        """Yield nothing: the twin has no indices."""
        yield from ()

    def build_communities(
        self,
        operator: str,
        *,
        lens: str = "default",
        summaries: bool = False,
        max_communities: int = 100,
        dry_run: bool = False,
    ) -> Iterator[CommunityBuild]:
        """Yield one line: what belongs together is found at once. The twin sums nothing up."""
        wanted = {"lens": lens, "summaries": summaries, "max_communities": max_communities}
        yield self._send(twin_build(operator, dry_run=dry_run, **wanted))

    def close(self) -> None:
        """Do nothing: the memory stays, for a look at it."""

    def _send(self, call: Call[Answer]) -> Answer:
        return self._route(call)
