"""Communities of a group: entities that belong together, each with a name and maybe a summary.

Those of one build take the place of those before all at once: readers follow the build that Meta
names. They are made of other rows and can be made again, so they are not exported, and an erasure
takes each that has to do with what goes.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gralkord.errors import BackendUnavailable
from gralkord.graph import schema
from gralkord.graph.clustering import clusters
from gralkord.graph.connection import GraphConnection
from gralkord.graph.sanitise import MAX_FACT_CHARS, clean_name, clean_text

if TYPE_CHECKING:
    from gralkord.graph.cache import GroupCache
    from gralkord.graph.rows import FactRow
    from gralkord.graph.validity import View

READ_MS: Final = 1_000
# What of a community a model is shown.
OUTLINE_FACTS: Final = 40
OUTLINE_CHARS: Final = 4_000
# How many members give a community its name where no model does.
NAMING: Final = 3
SWEPT: Final = 200

_NAMESPACE: Final = uuid.UUID("6d0e4a52-0f5b-5f7e-8a0c-5c2f5a1f7d13")

# An erasure since the build began has taken words that may be in what it made; another build, or
# somebody who has stopped this one, has taken its name away.
_FENCE: Final = (
    "MATCH (m:Meta) WHERE m.fence_understand <= $epoch AND m.generation = $generation "
    "AND m.building = $build SET m.fence_understand = $epoch WITH m "
)
_WRITE: Final = (
    f"{_FENCE}UNWIND $rows AS row MERGE (c:Community {{uuid: row.uuid}}) SET c += row.values, "
    "c.build = $build WITH m, count(c) AS rows RETURN rows"
)
_MEMBERS: Final = (
    f"{_FENCE}UNWIND $rows AS row MATCH (c:Community {{uuid: row.uuid}}) UNWIND row.members AS one "
    "MATCH (n:Entity {uuid: one}) MERGE (c)-[r:HAS_MEMBER]->(n) WITH m, count(r) AS rows "
    "RETURN rows"
)
# Sent again it finds its own work done.
_FINISH: Final = (
    _FENCE.replace("m.building = $build", "(m.building = $build OR m.communities = $build)")
    + "SET m.communities = $build, m.building = NULL RETURN m.communities"
)
_SWEEP: Final = (
    f"{schema.UNDERSTAND_FENCE.split('SET', maxsplit=1)[0]}WITH m "
    "MATCH (c:Community) WHERE c.build <> coalesce(m.communities, '') "
    f"AND c.build <> coalesce(m.building, '') WITH c LIMIT {SWEPT} DELETE c RETURN count(c)"
)
_BEGIN: Final = (
    "MATCH (m:Meta) WHERE m.generation = $generation SET m.building = $build RETURN m.building"
)
_STOP: Final = "MATCH (m:Meta) WHERE m.building IS NOT NULL SET m.building = NULL RETURN m.seq"
_STATE: Final = "MATCH (m:Meta) RETURN m.building, m.generation, m.fence_understand"
_READ: Final = (
    "MATCH (m:Meta) MATCH (c:Community) WHERE c.build = m.communities "
    "WITH c ORDER BY c.size DESC, c.uuid LIMIT $limit "
    "OPTIONAL MATCH (c)-[:HAS_MEMBER]->(n:Entity) WITH c, n ORDER BY n.name "
    "WITH c, count(n) AS members, collect(n.name) AS names "
    "RETURN c.uuid, c.name, c.summary, c.created_at, members, names[0..$names] "
    "ORDER BY members DESC, c.uuid"
)


@dataclass(frozen=True, slots=True)
class Outline:
    """A community that was found, and is not written yet.

    Attributes:
        name: Made of the names of those members that have most facts in it.
        members: Uuids of its entities.
        facts: Texts of facts between them, the newest first, for a model to sum up.
    """

    uuid: str
    name: str
    members: tuple[str, ...]
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outlined:
    """What was found in a group.

    Attributes:
        entities: How many entities it has.
        facts: How many facts of two entities hold now.
        found: How many communities there are.
        outlines: The largest of them.
    """

    entities: int
    facts: int
    found: int
    outlines: tuple[Outline, ...]


@dataclass(frozen=True, slots=True)
class Community:
    """A community as a reader sees it.

    Attributes:
        size: How many members it has.
        names: The names of some of them.
    """

    uuid: str
    name: str
    summary: str
    created_at: str
    size: int
    names: tuple[str, ...]


def outlined(cache: GroupCache, view: View, build: str, most: int) -> Outlined:
    """Return the communities of a group; it takes seconds for a large one, so in a thread.

    Args:
        cache: What the group knows.
        view: From where memory is looked at: only facts that hold count.
        build: The build's id.
        most: How many communities at most.
    """
    with cache.lock:
        shown = cache.shown_facts(view)
        rows = [row for row, holds in zip(cache.facts.rows(), shown, strict=True) if holds]
        entities = [row for row in cache.entities.rows() if not row.note_kind]
    facts = [row for row in rows if not row.note_kind]
    names = {row.uuid: row.name for row in entities}
    facts = [row for row in facts if row.source_uuid in names and row.target_uuid in names]
    found = clusters((row.source_uuid, row.target_uuid) for row in facts)
    kept = found[:most]
    home = {member: place for place, members in enumerate(kept) for member in members}
    inside: list[list[FactRow]] = [[] for _ in kept]
    for row in facts:
        place = home.get(row.source_uuid)
        if place is not None and place == home.get(row.target_uuid):
            inside[place].append(row)
    outlines = (
        _outline(members, own, names, build) for members, own in zip(kept, inside, strict=True)
    )
    return Outlined(len(entities), len(facts), len(found), tuple(outlines))


def _outline(
    members: Sequence[str], facts: Sequence[FactRow], names: Mapping[str, str], build: str
) -> Outline:
    touched = dict.fromkeys(members, 0)
    for row in facts:
        touched[row.source_uuid] += 1
        touched[row.target_uuid] += 1
    first = sorted(members, key=lambda uuid: (-touched[uuid], names[uuid], uuid))[:NAMING]
    texts: list[str] = []
    size = 0
    for row in sorted(facts, key=lambda row: (row.created_at or "", row.uuid), reverse=True):
        size += len(row.fact)
        if len(texts) >= OUTLINE_FACTS or size > OUTLINE_CHARS:
            break
        texts.append(row.fact)
    own = str(uuid.uuid5(_NAMESPACE, f"{build}\x00{members[0]}"))
    return Outline(own, ", ".join(names[uuid] for uuid in first), tuple(members), tuple(texts))


@dataclass(frozen=True, slots=True)
class CommunityStore:
    """Reads and writes the communities of groups."""

    graph: GraphConnection

    async def begin(self, group: str, build: str, generation: int) -> bool:
        """Begin a build, which ends any other; whether nothing was erased since it was prepared.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        params = {"build": build, "generation": generation}
        return bool(await self.graph.write(group, _BEGIN, params, resend=True))

    async def stop(self, group: str) -> bool:
        """Stop the build that is under way, in whatever process; whether there was one.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        return bool(await self.graph.write(group, _STOP, resend=True))

    async def building(self, group: str) -> tuple[str | None, int]:
        """Return which build is under way, and in which generation the group is.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        rows = await self.graph.read(group, _STATE, timeout_ms=READ_MS)
        return (rows[0][0], rows[0][1]) if rows else (None, -1)

    async def write(
        self, group: str, epoch: int, build: str, generation: int, rows: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Write communities of a build, which nobody sees yet; whether it is still under way.

        Args:
            group: The group id.
            epoch: The lease's epoch.
            build: The build's id.
            generation: Of the group when the build began.
            rows: Of each its ``uuid``, ``name``, ``summary``, ``created_at`` and ``size``,
                and uuids of some of its ``members``.

        Raises:
            LeaseLost: Another process holds a later epoch.
            BackendUnavailable: The graph does not answer.
        """
        named = [
            {
                "uuid": row["uuid"],
                "members": row["members"],
                "values": {
                    "name": clean_name(row["name"]),
                    "summary": clean_text(row["summary"], MAX_FACT_CHARS),
                    "created_at": row["created_at"],
                    "group_id": group,
                    "size": row["size"],
                },
            }
            for row in rows
        ]
        params = {"epoch": epoch, "build": build, "generation": generation, "rows": named}
        if not await self._fenced(group, epoch, _WRITE, params):
            return False
        await self.graph.write(group, _MEMBERS, params, resend=True)
        return True

    async def finish(self, group: str, epoch: int, build: str, generation: int) -> bool:
        """Let the communities of a build take the place of those before; whether they have.

        Raises:
            LeaseLost: Another process holds a later epoch.
            BackendUnavailable: The graph does not answer; done again it goes on.
        """
        params = {"epoch": epoch, "build": build, "generation": generation}
        done = await self._fenced(group, epoch, _FINISH, params)
        await self.sweep(group, epoch)
        return done

    async def sweep(self, group: str, epoch: int) -> None:
        """Take away what is of no build that counts.

        Raises:
            BackendUnavailable: The graph does not answer; done again it goes on.
        """
        while True:
            rows = await self.graph.write(group, _SWEEP, {"epoch": epoch}, resend=True)
            if not rows or not rows[0][0]:
                return

    async def read(self, group: str, limit: int, shown: int) -> list[Community]:
        """Return the communities of a group, the largest first.

        Args:
            group: The group id; where there is none, it has none.
            limit: How many at most.
            shown: Of how many members each the names.

        Raises:
            BackendUnavailable: The graph does not answer in time.
        """
        params = {"limit": limit, "names": shown}
        rows = await self.graph.read(group, _READ, params, timeout_ms=READ_MS)
        return [
            Community(uuid, name, summary, created_at, size, tuple(names))
            for uuid, name, summary, created_at, size, names in rows
        ]

    async def _fenced(self, group: str, epoch: int, query: str, params: Mapping[str, Any]) -> bool:
        if await self.graph.write(group, query, params, resend=True):
            return True
        rows = await self.graph.read(group, _STATE, timeout_ms=READ_MS)
        if not rows:
            self.graph.forget_group(group)
            raise BackendUnavailable(f"group {group} was dropped under way")
        if rows[0][2] > epoch and (lost := await schema.refused(self.graph, group, epoch)):
            raise lost
        return False
