"""A gralkord of one's own for a measurement."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import redis.asyncio as redis

from gralkord.client.client import AsyncClient
from gralkord.client.imports import Import, ImportTurn
from gralkord.evaluation.stack import Stack, temporary_data_dir
from gralkord.groups import DEFAULT_TENANT
from gralkord.mailbox.keys import Keys

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


def client_of(stack: Stack, *, timeout: float = 120.0) -> AsyncClient:
    """Return a client of *stack*."""
    endpoint = stack.endpoint
    return AsyncClient(endpoint.url, endpoint.token, timeout=timeout)


async def indexed(stack: Stack, *, look_seconds: float = 0.05) -> None:
    """Return when all that was captured is indexed, and its mailboxes are empty."""
    keys = Keys()
    intake, depth = keys.intake(DEFAULT_TENANT), keys.named("depth")
    async with redis.Redis(unix_socket_path=str(stack.queue_socket)) as queue:
        while await queue.xlen(intake) or int(await queue.hget(depth, "index") or 0):  # noqa: ASYNC110
            await asyncio.sleep(look_seconds)


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
