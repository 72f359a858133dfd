"""Erasing in one group's graph: found first, then taken away in short queries.

Whoever calls holds the group's understand lane, so that no episode is written meanwhile. Each step
comes before the one that takes away what it was found by, so that an erasure that was interrupted
finds the rest when it is done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gralkord.errors import BackendUnavailable, LeaseLost
from gralkord.graph.doomed import Doomed
from gralkord.graph.finding import ROWS, GroupFinder, Named, slices
from gralkord.graph.schema import UNDERSTAND_FENCE

__all__ = ["GroupEraser", "Named"]

_RAISE: Final = (
    "MATCH (m:Meta) SET m.fence_index = CASE WHEN m.fence_index < $index THEN $index "
    "ELSE m.fence_index END, m.fence_understand = CASE WHEN m.fence_understand < $understand "
    "THEN $understand ELSE m.fence_understand END RETURN m.passages"
)
_END: Final = "WITH m, count(*) AS n RETURN n"
_SUMMARIES: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH (n:Entity {{uuid: row.uuid}}) "
    f"SET n.summary = row.summary, n.seq = m.seq {_END}"
)
_FIELDS: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH (n:Entity {{uuid: row.uuid}}) "
    f"SET n += row.drop, n.told_in = row.told_in, n.seq = m.seq {_END}"
)
_REVIVE: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH ()-[f:RELATES_TO {{uuid: row.uuid}}]->() "
    "SET f.invalid_at = row.invalid_at, f.superseded_by = row.by, f.seq = m.seq, "
    "f.expired_at = CASE WHEN row.back THEN NULL ELSE f.expired_at END, "
    "f.superseded_reason = CASE WHEN row.back THEN NULL ELSE f.superseded_reason END, "
    "f.superseded_at = CASE WHEN row.back THEN NULL ELSE f.superseded_at END, "
    "f.superseded_episode = NULL, "
    "f.superseded_invalid_at = CASE WHEN row.back THEN NULL ELSE f.superseded_invalid_at END "
    f"{_END}"
)
_KEEP: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH ()-[f:RELATES_TO {{uuid: row.uuid}}]->() "
    "SET f.episodes = row.episodes, f.seq = m.seq, "
    "f.source = CASE WHEN row.forget THEN NULL ELSE f.source END, "
    f"f.offset = CASE WHEN row.forget THEN NULL ELSE f.offset END {_END}"
)
_DROP_FACTS: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH ()-[f:RELATES_TO {{uuid: row}}]->() "
    f"DELETE f {_END}"
)
_DROP_ENTITIES: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH (n:Entity {{uuid: row}}) DELETE n {_END}"
)
_DROP_COMMUNITIES: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH (c:Community {{uuid: row}}) DELETE c {_END}"
)
_WAIT_AGAIN: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH (p:Passage {{uuid: row}}) "
    "WITH m, p, CASE WHEN p.waiting THEN 0 ELSE 1 END AS fresh "
    "SET p.waiting = true, p.episode = NULL, p.seq = m.seq "
    "WITH m, sum(fresh) AS n SET m.waiting = m.waiting + toInteger(n) RETURN n"
)
_DROP_EPISODES: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH (e:Episodic {{uuid: row}}) DELETE e {_END}"
)
_DROP_ORIGINS: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH (o:Origin {{key: row}}) "
    f"WHERE NOT (o)-[:PART_OF]->(:Episodic) DELETE o {_END}"
)
_DROP_PASSAGES: Final = (
    f"{UNDERSTAND_FENCE}UNWIND $rows AS row MATCH (p:Passage {{uuid: row}}) "
    "WITH m, p, p.waiting AS waiting DELETE p WITH m, count(p) AS n, count(waiting) AS open "
    "SET m.passages = m.passages - n, m.waiting = m.waiting - open RETURN n"
)
_TURN_OVER: Final = f"{UNDERSTAND_FENCE}SET m.generation = m.generation + 1 RETURN m.generation"


class GroupEraser(GroupFinder):
    """Erases in the graphs of groups."""

    async def fence(self, group: str, index: int, understand: int) -> None:
        """Shut out every earlier holder of the group's lanes; the graph is made if need be.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        params = {"index": index, "understand": understand}
        for _ in range(3):
            await self._graph.ensure_group(group)
            if await self._graph.write(group, _RAISE, params, resend=True):
                return
            self._graph.forget_group(group)
        raise BackendUnavailable(f"group {group} is dropped as often as it is made")

    async def clear(self, group: str, index: int, understand: int) -> None:
        """Drop a whole group and make it again, empty, with its fences raised.

        So a process that was frozen when it was about to write finds a fence when it wakes.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        for _ in range(3):
            await self._graph.drop_group(group)
            await self.fence(group, index, understand)
            if not any((await self.counts(group)).values()):
                return
            # Somebody has woken between the two steps.
        raise BackendUnavailable(f"group {group} is written to while it is erased")

    async def drop_if_empty(self, group: str) -> bool:
        """Drop a group in which nothing is; whether it has gone, or was gone already."""
        if any((await self.counts(group)).values()):
            return False
        await self._graph.drop_group(group)
        return True

    async def take(self, group: str, epoch: int, doomed: Doomed) -> None:
        """Take away what was found.

        Args:
            group: The group.
            epoch: Of the lease of its understand lane.
            doomed: What `find` has returned under that lease.

        Raises:
            LeaseLost: Another process holds a later epoch; some steps may be done.
            BackendUnavailable: The graph does not answer; some steps may be done.
        """
        summaries = [
            {"uuid": uuid, "summary": text} for uuid, text in sorted(doomed.summaries.items())
        ]
        steps: Sequence[tuple[str, Sequence[Any]]] = (
            (_SUMMARIES, summaries),
            (_FIELDS, doomed.fields),
            (_REVIVE, doomed.revived),
            (_KEEP, doomed.kept),
            (_DROP_EPISODES, sorted(doomed.lone)),
            (_DROP_COMMUNITIES, sorted(doomed.communities)),
            (_DROP_ENTITIES, sorted(doomed.entities)),
            (_DROP_FACTS, sorted(doomed.facts)),
            (_WAIT_AGAIN, [passage.uuid for passage in doomed.again]),
            (_DROP_EPISODES, sorted(doomed.episodes)),
            (_DROP_ORIGINS, sorted(doomed.origins)),
            (_DROP_PASSAGES, sorted(doomed.passages)),
        )
        for query, rows in steps:
            for some in slices(rows, ROWS):
                await self._write(group, epoch, query, {"rows": some})
        # Caches see what was deleted only by this; all of them begin anew.
        await self._write(group, epoch, _TURN_OVER, {})

    async def _write(self, group: str, epoch: int, query: str, params: Mapping[str, Any]) -> None:
        """Write; done again it is the same, so it may be sent twice."""
        if await self._graph.write(group, query, {"epoch": epoch, **params}, resend=True):
            return
        rows = await self._graph.read(group, "MATCH (m:Meta) RETURN m.fence_understand")
        if not rows or rows[0][0] > epoch:
            raise LeaseLost(f"group {group} is held by another process")
