"""A gralkord of one's own for a measurement."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from gralkord.client.client import AsyncClient
from gralkord.client.imports import Import, ImportTurn
from gralkord.evaluation.stack import Stack, temporary_data_dir

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from gralkord.models import Capture

OPTIONS = ("--model", "none")


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Stack, AsyncClient]]:
    """Start ``gralkord up`` on an empty directory; give it and a client; clear both away."""
    with temporary_data_dir() as path:
        async with Stack(path, OPTIONS) as stack, client_of(stack) as client:
            yield stack, client


def client_of(stack: Stack) -> AsyncClient:
    """Return a client of *stack*."""
    endpoint = stack.endpoint
    return AsyncClient(endpoint.url, endpoint.token, timeout=120.0)


async def load(client: AsyncClient, captures: Iterable[Capture]) -> float:
    """Import *captures*; return the seconds until all of them were recallable.

    Raises:
        RuntimeError: A turn was refused.
    """
    turns = (ImportTurn(capture.offset or "", capture) for capture in captures)
    report = await Import(client).run(turns)
    if report.failed or report.duplicates:
        raise RuntimeError(f"not all turns were imported: {report}")
    return report.seconds
