"""Memories that are changed in place: other attributes, the same words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gralkord.errors import LeaseLost
from gralkord.graph import schema
from gralkord.graph.memory_notes import READ_MS
from gralkord.graph.schema import UNDERSTAND_FENCE

if TYPE_CHECKING:
    from gralkord.graph.connection import GraphConnection

_WRITTEN: Final = "MATCH (e:Episodic {uuid: $uuid}) WHERE e.done RETURN e.uuid"
# A null in the values removes a property.
_CHANGE: Final = (
    f"{UNDERSTAND_FENCE}MATCH (n:Entity {{uuid: $uuid}}) SET n += $values, n.seq = m.seq "
    "WITH m, n MATCH (n)-[f:RELATES_TO {uuid: $uuid}]->(n) SET f += $values, f.seq = m.seq "
    "RETURN f.uuid"
)


@dataclass(frozen=True, slots=True)
class MemoryNotes:
    """Changes memories of groups, under their lease."""

    connection: GraphConnection

    async def written(self, group: str, episode: str) -> bool:
        """Return whether an episode is in the graph.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        await self.connection.ensure_group(group)
        return bool(
            await self.connection.read(group, _WRITTEN, {"uuid": episode}, timeout_ms=READ_MS)
        )

    async def change(self, group: str, epoch: int, memory: str, values: Mapping[str, Any]) -> None:
        """Give a memory other attributes, and leave its words.

        Args:
            group: The group id.
            epoch: The lease's epoch.
            memory: Uuid of a memory that is there.
            values: The attributes; None takes one away.

        Raises:
            LeaseLost: Another process holds a later epoch, or it was erased meanwhile.
            BackendUnavailable: The graph does not answer.
        """
        params = {"epoch": epoch, "uuid": memory, "values": dict(values)}
        if await self.connection.write(group, _CHANGE, params, resend=True):
            return
        refusal = await schema.refused(self.connection, group, epoch)
        if refusal is None:
            self.connection.forget_group(group)
            refusal = LeaseLost(f"group {group} was dropped under way")
        raise refusal
