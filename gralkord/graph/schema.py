"""What a group's graph consists of: one Meta node, the indices, and the fence of every write.

No full-text index with stop words, because an entity named like one of them crashes the server; no
range index on a time as text, because ``<`` is ignored there (of numbers it is right); no
constraint, because a value with a leading blank crashes the server. No range index on what people
write, such as a session's name: equality on indexed text does not find a value with a leading
blank.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Protocol

from gralkord.errors import BackendUnavailable, LeaseLost
from gralkord.graph.failures import AlreadyIndexed

SCHEMA: Final = 1

# Every write query begins with the fence of its lane. Where another process has raised the fence no
# row comes out of it, so that nothing after it happens; `m.seq` is then the number of this write.
# Each lane has its own, because two processes may hold the two lanes of a group at the same time.
INDEX_FENCE: Final = (
    "MATCH (m:Meta) WHERE m.fence_index <= $epoch "
    "SET m.fence_index = $epoch, m.seq = m.seq + 1 WITH m "
)
UNDERSTAND_FENCE: Final = INDEX_FENCE.replace("fence_index", "fence_understand")

NODE_INDICES: Final = (
    ("Meta", "group_id"),
    ("Passage", "uuid"),
    ("Passage", "seq"),
    ("Passage", "waiting"),
    ("Passage", "turn_key"),
    ("Passage", "place_key"),
    ("Passage", "unembedded"),
    ("Entity", "uuid"),
    ("Entity", "seq"),
    ("Entity", "unembedded"),
    ("Episodic", "uuid"),
    ("Episodic", "valid_ms"),
    ("Origin", "key"),
)
EDGE_INDICES: Final = (
    ("RELATES_TO", "uuid"),
    ("RELATES_TO", "seq"),
    ("RELATES_TO", "unembedded"),
)

_READ_INDICES: Final = (
    "CALL db.indexes() YIELD label, properties, status RETURN label, properties, status"
)
_READ_META: Final = "MATCH (m:Meta) RETURN m.schema"
# The start of `generation` is the time, so that a graph dropped and made again is another one.
_MERGE_META: Final = (
    "MERGE (m:Meta {group_id: $group}) ON CREATE SET m.schema = $schema, m.fence_index = 0, "
    "m.fence_understand = 0, m.seq = 0, m.generation = timestamp(), m.passages = 0, "
    "m.waiting = 0, m.embedder = ''"
)
_POLL: Final = 0.005


class Queries(Protocol):
    """What this module needs of a connection."""

    async def read(
        self,
        group: str,
        query: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int = 1_000,
    ) -> list[list[Any]]:
        """Run a query that changes nothing."""
        ...

    async def write(
        self,
        group: str,
        query: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int = 10_000,
    ) -> list[list[Any]]:
        """Run a query that changes the graph."""
        ...


async def create_group(connection: Queries, group: str) -> None:
    """Bring the graph of *group* to the present schema; return when its indices are usable.

    Several processes may do this at once. Each index is a statement of its own, refused if it
    exists. They come before MERGE: a query is planned before it waits for its turn to write, and
    with a label that nobody has used before its plan finds nothing, so that each would make a Meta.

    Raises:
        BackendUnavailable: The server does not answer, or the graph is of a later schema.
    """
    found = await connection.read(group, _READ_META)
    if found and found[0][0] > SCHEMA:
        raise BackendUnavailable(
            f"group {group} was written by a later gralkord (schema {found[0][0]})",
            hint="upgrade gralkord",
        )
    await complete_indices(connection, group)
    if not found:
        await connection.write(group, _MERGE_META, {"group": group, "schema": SCHEMA})
    await operational(connection, group)


async def complete_indices(connection: Queries, group: str) -> tuple[int, int]:
    """Make the indices that *group* lacks; return how many it has, and how many of them are new.

    Raises:
        BackendUnavailable: The server does not answer.
    """
    indices = await _indices(connection, group)
    present = {(label, name) for label, names, _ in indices for name in names}
    created = 0
    for statement in _missing(present):
        try:
            await connection.write(group, statement)
            created += 1
        except AlreadyIndexed:  # by another process
            continue
    return len(NODE_INDICES) + len(EDGE_INDICES), created


async def operational(connection: Queries, group: str) -> None:
    """Return once no index of *group* is under construction; at once where there is no graph.

    While an index is built the server answers from labels, which is right but slow.
    """
    while any(  # noqa: ASYNC110
        status != "OPERATIONAL" for _, _, status in await _indices(connection, group)
    ):
        await asyncio.sleep(_POLL)  # the server sends no word when it is done


async def refused(connection: Queries, group: str, epoch: int) -> LeaseLost | None:
    """Say why the fence let a write of *group* through with no row.

    Returns:
        The error of a lost lease, or ``None`` if the group has no Meta node, so must be made anew.
    """
    found = await connection.read(group, "MATCH (m:Meta) RETURN m.fence_index, m.fence_understand")
    if not found:
        return None
    return LeaseLost(
        f"group {group} is at the epochs {found[0][0]} (index) and {found[0][1]} (understand), "
        f"this process holds {epoch}"
    )


def _missing(present: set[tuple[str, str]]) -> list[str]:
    nodes = [
        f"CREATE INDEX FOR (n:{label}) ON (n.{name})"
        for label, name in NODE_INDICES
        if (label, name) not in present
    ]
    return nodes + [
        f"CREATE INDEX FOR ()-[e:{label}]-() ON (e.{name})"
        for label, name in EDGE_INDICES
        if (label, name) not in present
    ]


async def _indices(connection: Queries, group: str) -> list[tuple[str, list[str], str]]:
    return [(row[0], row[1], row[2]) for row in await connection.read(group, _READ_INDICES)]
