"""Which embedder the vectors of each group are from."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gralkord.errors import BackendUnavailable, QueryRefused

if TYPE_CHECKING:
    from gralkord.graph.connection import GraphConnection

AT_ONCE: Final = 8

_READ: Final = "MATCH (m:Meta) RETURN m.embedder"


async def embedders_of(connection: GraphConnection) -> list[tuple[str, str]]:
    """Return each group and the fingerprint of its vectors, which is empty where it has none.

    A group that cannot be read just now is left out.

    Raises:
        BackendUnavailable: The server does not answer.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def one(group: str) -> tuple[str, str] | None:
        async with places:
            try:
                rows = await connection.read(group, _READ)
            except (BackendUnavailable, QueryRefused):
                return None
            return (group, str(rows[0][0] or "")) if rows else None

    found = await asyncio.gather(*(one(group) for group in await connection.groups()))
    return [each for each in found if each is not None]
