"""What the graph holds of one turn: asked for by its receipt."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gralkord.graph.connection import GraphConnection
from gralkord.graph.drafts import origin_key
from gralkord.graph.passages import turn_key

READ_MS: Final = 1_000

_EPISODE: Final = "e.uuid, e.facts, e.entities, e.notes, e.created_at"
_WITHDRAWN: Final = "p.withdrawn_at IS NOT NULL AND p.withdrawn_until IS NULL"
# Not by its session: a turn that was sent again in another one is the one that was there.
_AT_HOME: Final = (
    "MATCH (p:Passage {turn_key: $key}) OPTIONAL MATCH (p)-[:PART_OF]->(e:Episodic) "
    f"RETURN p.uuid, p.created_ms, p.waiting, {_WITHDRAWN}, {_EPISODE}"
)
_ELSEWHERE: Final = (
    "MATCH (o:Origin {key: $key})-[:PART_OF]->(e:Episodic) WHERE e.done "
    f"RETURN o.key, NULL AS created, NULL AS waiting, false AS withdrawn, {_EPISODE}"
)


@dataclass(frozen=True, slots=True)
class Written:
    """What a group holds of one turn.

    Attributes:
        passages: How many; always 0 in a group that is not the turn's home.
        indexed_ms: When the last of them was written, Unix milliseconds.
        understood: Whether an episode holds all of it.
        understood_at: When the last such episode was made.
        episode: Uuid of the last such episode.
        facts: How many facts those episodes hold, of other turns too.
        entities: How many entities.
        notes: How many notes were written with them.
        withdrawn: Whether what no episode holds was invalidated or replaced: none ever will.
    """

    passages: int = 0
    indexed_ms: int | None = None
    understood: bool = False
    understood_at: datetime | None = None
    episode: str | None = None
    facts: int = 0
    entities: int = 0
    notes: int = 0
    withdrawn: bool = False


async def written_of(
    connection: GraphConnection, group: str, turn_id: str, *, home: str | None = None
) -> Written:
    """Return what *group* holds of a turn.

    Args:
        connection: To the graph.
        group: The group id.
        turn_id: The turn's id.
        home: The group that keeps its passages, where that is another one.

    Raises:
        BackendUnavailable: The graph does not answer.
    """
    if home is None:
        query, key = _AT_HOME, turn_key(turn_id)
    else:
        query, key = _ELSEWHERE, origin_key(home, turn_id)
    rows = await connection.read(group, query, {"key": key}, timeout_ms=READ_MS)
    return _fold(rows, at_home=home is None)


def _fold(rows: list[list[Any]], *, at_home: bool) -> Written:
    passages = {row[0]: row[1:4] for row in rows}
    episodes = {row[4]: row[5:] for row in rows if row[4] is not None}
    open_ = [withdrawn for _, waiting, withdrawn in passages.values() if waiting]
    times = {uuid: datetime.fromisoformat(row[3]) for uuid, row in episodes.items()}
    last = max(times, key=lambda uuid: times[uuid], default=None)
    return Written(
        passages=len(passages) if at_home else 0,
        indexed_ms=max(ms for ms, *_ in passages.values()) if at_home and passages else None,
        understood=bool(episodes) and not open_,
        understood_at=times[last] if last else None,
        episode=last,
        facts=sum(row[0] or 0 for row in episodes.values()),
        entities=sum(row[1] or 0 for row in episodes.values()),
        notes=sum(row[2] or 0 for row in episodes.values()),
        withdrawn=bool(open_) and all(open_),
    )
