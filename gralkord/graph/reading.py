"""Reading one kind of row out of a group's graph, in windows of write numbers.

A row that is rewritten meanwhile moves to a higher number, never to a lower one, and the last
window is open at its end: so a row that was there when the reading began is never missed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from gralkord.errors import BackendUnavailable
from gralkord.graph.connection import GraphConnection

FIRST_STEP: Final = 16
MAX_GROWTH: Final = 8
END: Final = 2**62


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of row is read.

    Attributes:
        query: Returns rows with ``$after < seq <= $upto``.
        wanted: So many rows are wanted in one answer; to decode them takes a few milliseconds.
        plain: See `GraphConnection.read`.
    """

    query: str
    wanted: int
    plain: bool


PASSAGES: Final = Kind(
    "MATCH (p:Passage) WHERE p.seq > $after AND p.seq <= $upto RETURN p.uuid, p.text, p.speaker, "
    "p.role, p.agent, p.session, p.ordinal, p.part, p.event_time, p.event_ms, p.turn_id, p.source, "
    "p.offset, p.created_ms, p.waiting, p.episode, p.invalid_at, p.seq, p.vector, "
    "p.withdrawn_at, p.withdrawn_until, p.withdrawn_reason, p.replaced_by, p.metadata",
    wanted=1_000,
    plain=True,
)
FACTS: Final = Kind(
    "MATCH (a)-[f:RELATES_TO]->(b) WHERE f.seq > $after AND f.seq <= $upto "
    "RETURN properties(f), a.uuid, b.uuid",
    wanted=300,
    plain=False,
)
ENTITIES: Final = Kind(
    "MATCH (n:Entity) WHERE n.seq > $after AND n.seq <= $upto RETURN properties(n), labels(n)",
    wanted=300,
    plain=False,
)


async def windows(
    graph: GraphConnection, group: str, kind: Kind, after: int, upto: int, *, timeout_ms: int
) -> AsyncIterator[tuple[int, list[list[Any]]]]:
    """Yield the rows written after *after*, window by window, each with the number it reaches to.

    Args:
        graph: Where to read.
        group: The group id.
        kind: Which rows.
        after: Number of the last write whose rows are known.
        upto: Number of the last write there is; rows of later writes may come, too.
        timeout_ms: Limit of each read.

    Raises:
        BackendUnavailable: The server does not answer in time.
    """
    step = FIRST_STEP
    while after < upto:
        reach = min(after + step, upto)
        params = {"after": after, "upto": END if reach == upto else reach}
        try:
            rows = await graph.read(
                group, kind.query, params, timeout_ms=timeout_ms, plain=kind.plain
            )
        except BackendUnavailable:
            if step == 1:
                raise
            step = 1 if step <= FIRST_STEP else FIRST_STEP
            continue
        yield reach, rows
        after = reach
        growth = kind.wanted / max(1, len(rows))
        step = max(1, int(step * min(MAX_GROWTH, growth)))
