"""Places: words at a source and an offset replace the words that stood there before."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gralkord.clock import to_iso
from gralkord.graph import schema
from gralkord.graph.validity import REPLACED
from gralkord.models.ingested import MAX_TURNS, place_of
from gralkord.models.places import place_key

if TYPE_CHECKING:
    from gralkord.graph.connection import GraphConnection
    from gralkord.graph.passages import Passage

BATCH: Final = 200

# An earlier version that has none of so many places has no later ones either.
_PLACES_AT_ONCE: Final = 200

# What somebody has invalidated stays as it is, whatever comes to its place. What has just been
# written and is current, which is nearly all, is not sent back.
_AT: Final = (
    "MATCH (p:Passage) WHERE p.place_key IN $keys "
    "AND (p.replaced_by IS NOT NULL OR (p.withdrawn_at IS NULL AND NOT p.uuid IN $current)) "
    "RETURN p.uuid, p.place_key, p.content_key, p.replaced_by"
)
_LEFT: Final = (
    "MATCH (p:Passage) WHERE p.place_key IN $keys RETURN p.uuid, p.withdrawn_at IS NOT NULL"
)
_CHANGE: Final = (
    schema.INDEX_FENCE + "UNWIND $rows AS row MATCH (p:Passage {uuid: row.uuid}) "
    "SET p.withdrawn_at = row.at, p.withdrawn_reason = row.reason, p.replaced_by = row.by, "
    "p.withdrawn_until = NULL, p.seq = m.seq RETURN count(p)"
)


@dataclass(frozen=True, slots=True)
class Places:
    """The places of all groups."""

    connection: GraphConnection

    async def settle(
        self, group: str, epoch: int, passages: Sequence[Passage], now_ms: int
    ) -> None:
        """Withdraw what stood where *passages* stand with other words; bring back what they are.

        Done again it changes nothing.

        Args:
            group: The group id.
            epoch: The lease's epoch of the index lane.
            passages: What was written, in order; the last words at a place are the ones that count.
            now_ms: The time, Unix milliseconds.

        Raises:
            LeaseLost: Another process holds a later epoch.
            BackendUnavailable: The server does not answer.
        """
        current = _current(passages)
        rows: list[Mapping[str, Any]] = []
        keys = list(current)
        at = to_iso(datetime.fromtimestamp(now_ms / 1000, UTC))
        for start in range(0, len(keys), BATCH):
            some = keys[start : start + BATCH]
            params = {"keys": some, "current": [current[key][1] for key in some]}
            found = await self.connection.read(group, _AT, params)
            for uuid, key, content, replaced_by in found:
                words, by = current[key]
                if content == words and replaced_by is not None:
                    rows.append({"uuid": uuid, "at": None, "reason": None, "by": None})
                elif content != words and replaced_by is None:
                    rows.append({"uuid": uuid, "at": at, "reason": REPLACED, "by": by})
        for start in range(0, len(rows), BATCH):
            await self._change(group, epoch, rows[start : start + BATCH])

    async def end_after(
        self,
        group: str,
        epoch: int,
        last: Passage,
        ended: tuple[str, int],
        spared: Collection[str],
        now_ms: int,
    ) -> None:
        """Withdraw what stands at the places behind the last one of something ingested.

        Args:
            group: The group id.
            epoch: The lease's epoch of the index lane.
            last: The first passage at the last place.
            ended: Where in its source the whole stands, and how many turns it has.
            spared: Uuids of what stays.
            now_ms: The time, Unix milliseconds.

        Raises:
            LeaseLost: Another process holds a later epoch.
            BackendUnavailable: The server does not answer.
        """
        offset, turns = ended
        at = to_iso(datetime.fromtimestamp(now_ms / 1000, UTC))
        for start in range(turns + 1, MAX_TURNS + 1, _PLACES_AT_ONCE):
            numbers = range(start, start + _PLACES_AT_ONCE)
            places = (place_of(last.source or "", offset, number) for number in numbers)
            keys = [place_key(*place) for place in places]
            found = await self.connection.read(group, _LEFT, {"keys": keys})
            # Brought back when the same words come again, as all that was replaced.
            rows = [
                {"uuid": uuid, "at": at, "reason": REPLACED, "by": last.uuid}
                for uuid, withdrawn in found
                if not withdrawn and uuid not in spared
            ]
            for first in range(0, len(rows), BATCH):
                await self._change(group, epoch, rows[first : first + BATCH])
            if not found:
                return

    async def _change(self, group: str, epoch: int, rows: Sequence[Mapping[str, Any]]) -> None:
        changed = await self.connection.write(group, _CHANGE, {"epoch": epoch, "rows": rows})
        if changed and changed[0][0]:
            return
        if lost := await schema.refused(self.connection, group, epoch):
            raise lost


def _current(passages: Sequence[Passage]) -> dict[str, tuple[str, str]]:
    """Return for each place the words that came there last, and the uuid of their first passage."""
    current: dict[str, tuple[str, str]] = {}
    for passage in passages:
        if passage.content is None or passage.source is None or passage.offset is None:
            continue
        key = place_key(passage.source, passage.offset)
        if current.get(key, ("", ""))[0] != passage.content:
            current[key] = (passage.content, passage.uuid)
    return current
