"""Reading one kind of row out of a group's graph, in windows of write numbers.

A row that is rewritten meanwhile moves to a higher number, never to a lower one, and the last
window is open at its end: so a row that was there when the reading began is never missed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gralkord.errors import BackendUnavailable
from gralkord.graph import spaces
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
    "MATCH (x:Passage) WHERE x.seq > $after AND x.seq <= $upto RETURN x.uuid, x.text, x.speaker, "
    "x.role, x.agent, x.session, x.ordinal, x.part, x.event_time, x.event_ms, x.turn_id, x.source, "
    f"x.offset, x.created_ms, x.waiting, x.episode, x.invalid_at, x.seq, {spaces.READ}, "
    "x.withdrawn_at, x.withdrawn_until, x.withdrawn_reason, x.replaced_by, x.metadata, "
    "x.form, x.description",
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
    graph: GraphConnection,
    group: str,
    kind: Kind,
    after: int,
    upto: int,
    *,
    timeout_ms: int,
    more: Mapping[str, Any] | None = None,
) -> AsyncIterator[tuple[int, list[list[Any]]]]:
    """Yield the rows written after *after*, window by window, each with the number it reaches to.

    Args:
        graph: Where to read.
        group: The group id.
        kind: Which rows.
        after: Number of the last write whose rows are known.
        upto: Number of the last write there is; rows of later writes may come, too.
        timeout_ms: Limit of each read.
        more: Further values of the query's names.

    Raises:
        BackendUnavailable: The server does not answer in time.
    """
    step = FIRST_STEP
    while after < upto:
        reach = min(after + step, upto)
        params = {"after": after, "upto": END if reach == upto else reach, **(more or {})}
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
