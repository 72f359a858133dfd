"""What people say about single memories: invalid, valid after all, not superseded.

It is kept in properties that nobody else writes, so it needs no lane: one query each, which takes a
number of its own, for the caches to see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from gralkord.graph.connection import GraphConnection

Kind = Literal["passage", "fact"]

BATCH: Final = 500

_FIND: Final[Mapping[Kind, str]] = {
    "passage": "MATCH (x:Passage) WHERE x.uuid IN $uuids ",
    "fact": "MATCH ()-[x:RELATES_TO]->() WHERE x.uuid IN $uuids ",
}
_COUNT: Final = "MATCH (m:Meta) SET m.seq = m.seq + 1 WITH m "
# Who has invalidated it first has found it out; later calls correct the reason and the time.
_MARK: Final = (
    "SET x.withdrawn_at = coalesce(x.withdrawn_at, $at), x.withdrawn_until = $until, "
    "x.withdrawn_reason = $reason, x.replaced_by = NULL, x.seq = m.seq RETURN x.uuid"
)
_CLEAR: Final = (
    "SET x.withdrawn_at = NULL, x.withdrawn_until = NULL, x.withdrawn_reason = NULL, "
    "x.replaced_by = NULL, x.seq = m.seq RETURN x.uuid"
)
_UNDO: Final = (
    "SET x.undone = CASE WHEN x.undone IS NULL THEN [$by] WHEN $by IN x.undone THEN x.undone "
    "ELSE x.undone + [$by] END, x.seq = m.seq RETURN x.uuid"
)


@dataclass(frozen=True, slots=True)
class Invalidations:
    """Marks memories of all groups."""

    connection: GraphConnection

    async def mark(
        self,
        group: str,
        kind: Kind,
        uuids: Sequence[str],
        *,
        at: str,
        until: str | None,
        reason: str | None,
    ) -> set[str]:
        """Say that memories do not hold any more; return those that were there.

        Args:
            group: The group id; it has a graph.
            kind: What they are.
            uuids: Which; any number.
            at: The time, ISO 8601.
            until: Until when they held; default: *at*.
            reason: Why.

        Raises:
            BackendUnavailable: The server does not answer; some may be marked.
        """
        params = {"at": at, "until": until, "reason": reason}
        return await self._change(group, kind, uuids, _MARK, params)

    async def clear(self, group: str, kind: Kind, uuids: Sequence[str]) -> set[str]:
        """Say that memories hold after all; return those that were there.

        Raises:
            BackendUnavailable: The server does not answer; some may be cleared.
        """
        return await self._change(group, kind, uuids, _CLEAR, {})

    async def undo(self, group: str, fact: str, by: str) -> bool:
        """Say that *by* does not end *fact*; return whether *fact* was there.

        Raises:
            BackendUnavailable: The server does not answer.
        """
        return bool(await self._change(group, "fact", [fact], _UNDO, {"by": by}))

    async def _change(
        self, group: str, kind: Kind, uuids: Sequence[str], what: str, params: Mapping[str, Any]
    ) -> set[str]:
        query = _COUNT + _FIND[kind] + what
        done: set[str] = set()
        for some in _batches(uuids):
            rows = await self.connection.write(group, query, {**params, "uuids": some}, resend=True)
            done.update(uuid for (uuid,) in rows)
        return done


def _batches(uuids: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(uuids), BATCH):
        yield list(uuids[start : start + BATCH])
