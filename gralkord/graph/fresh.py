"""Episodes of a group that were not generalised yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gralkord.errors import BackendUnavailable
from gralkord.graph import schema
from gralkord.graph.connection import GraphConnection
from gralkord.graph.drafts import origin_key
from gralkord.graph.schema import UNDERSTAND_FENCE

READ_MS: Final = 1_000
# Episodes of one answer; one is seldom longer than 12,000 characters.
PAGE: Final = 8

_ROW: Final = (
    "OPTIONAL MATCH (p:Passage)-[:PART_OF]->(e) "
    "RETURN e.uuid, e.seq, e.content, e.valid_at, collect(DISTINCT p.turn_id)"
)
_ONE: Final = f"MATCH (e:Episodic {{uuid: $uuid}}) WHERE e.done {_ROW}"
_AFTER: Final = (
    "MATCH (e:Episodic) WHERE e.seq > $since AND e.done AND e.content <> '' "
    f"WITH e ORDER BY e.seq LIMIT $limit {_ROW}"
)
_SINCE: Final = "MATCH (m:Meta) RETURN coalesce(m.generalised, 0)"
_MARK: Final = (
    f"{UNDERSTAND_FENCE}SET m.generalised = CASE WHEN coalesce(m.generalised, 0) < $seq "
    "THEN $seq ELSE m.generalised END RETURN m.generalised"
)
_DONE: Final = "MATCH (e:Episodic {uuid: $uuid}) WHERE e.done RETURN e.uuid"


@dataclass(frozen=True, slots=True)
class Heard:
    """An episode that was understood.

    Attributes:
        seq: Number of the write that it came with.
        content: Its transcript.
        valid_at: When the last of it was said, UTC.
        turns: Ids of the turns of the same group that it was taken from.
    """

    uuid: str
    seq: int
    content: str
    valid_at: datetime
    turns: tuple[str, ...]

    def origins(self, group: str) -> tuple[str, ...]:
        """Return what stands for its turns in what is made of it."""
        return tuple(origin_key(group, turn) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class FreshEpisodes:
    """Reads episodes that are to be generalised, and keeps up to where that was done."""

    graph: GraphConnection

    async def one(self, group: str, uuid: str) -> Heard | None:
        """Return an episode; None if there is none of that uuid.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        return next(iter(await self._read(group, _ONE, {"uuid": uuid})), None)

    async def since(self, group: str) -> int:
        """Return the number up to which all episodes were generalised.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        rows = await self.graph.read(group, _SINCE, timeout_ms=READ_MS)
        return int(rows[0][0]) if rows else 0

    async def after(self, group: str, since: int, limit: int = PAGE) -> list[Heard]:
        """Return the episodes that were written after number *since*, first ones first.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        return await self._read(group, _AFTER, {"since": since, "limit": limit})

    async def written(self, group: str, uuid: str) -> bool:
        """Return whether there is an episode of that uuid.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        return bool(await self.graph.read(group, _DONE, {"uuid": uuid}, timeout_ms=READ_MS))

    async def mark(self, group: str, epoch: int, seq: int) -> None:
        """Keep that all episodes up to number *seq* were generalised.

        Raises:
            LeaseLost: Another process holds a later epoch.
            BackendUnavailable: The graph does not answer, or is gone.
        """
        if not await self.graph.write(group, _MARK, {"epoch": epoch, "seq": seq}, resend=True):
            gone = BackendUnavailable(f"group {group} was dropped under way")
            raise await schema.refused(self.graph, group, epoch) or gone

    async def _read(self, group: str, query: str, params: dict[str, Any]) -> list[Heard]:
        rows = await self.graph.read(group, query, params, timeout_ms=READ_MS)
        return sorted(map(_heard, rows), key=lambda one: one.seq)


def _heard(row: Sequence[Any]) -> Heard:
    uuid, seq, content, valid_at, turns = row
    when = datetime.fromisoformat(valid_at)
    return Heard(uuid, int(seq), content or "", when, tuple(sorted(turns)))
