"""Whether a group's cache holds what the graph holds: row by row, by number, words and vector."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gralkord.errors import Transient
from gralkord.graph import spaces
from gralkord.graph.cache import GroupCache
from gralkord.graph.connection import GraphConnection
from gralkord.graph.passage_table import PassageTable
from gralkord.graph.reading import Kind, windows
from gralkord.graph.rows import EntityRow, FactRow, PassageRow
from gralkord.graph.tables import EntityTable, FactTable

What = Literal["missing", "extra", "older", "text", "vector", "unnumbered"]

READ_MS: Final = 5_000
# So many are named; of the others only the number is told.
NAMED: Final = 20

_RANGE: Final = "WHERE x.seq > $after AND x.seq <= $upto RETURN x.uuid, x.seq, "
_META: Final = "MATCH (m:Meta) RETURN m.seq, m.generation"
_VECTOR: Final = (
    f"CASE WHEN {spaces.READ} STARTS WITH $space AND NOT {spaces.READ} ENDS WITH ':' "
    f"AND ($space <> '' OR NOT {spaces.READ} CONTAINS ':') THEN 1 END"
)


@dataclass(frozen=True, slots=True)
class _Part:
    """One kind of row: how the graph tells it, and where the cache has it."""

    name: str
    kind: Kind
    count: str
    table: Callable[[GroupCache], PassageTable | FactTable | EntityTable]
    text: Callable[[Any], str]


_PARTS: Final = (
    _Part(
        "passage",
        Kind(f"MATCH (x:Passage) {_RANGE} x.text, {_VECTOR}", wanted=1_000, plain=True),
        "MATCH (x:Passage) RETURN count(x)",
        lambda cache: cache.passages,
        lambda row: str(row.text),
    ),
    _Part(
        "fact",
        Kind(f"MATCH ()-[x:RELATES_TO]->() {_RANGE} x.fact, {_VECTOR}", wanted=1_000, plain=True),
        "MATCH ()-[x:RELATES_TO]->() RETURN count(x)",
        lambda cache: cache.facts,
        lambda row: str(row.fact),
    ),
    _Part(
        "entity",
        Kind(
            f"MATCH (x:Entity) {_RANGE} x.name + ': ' + coalesce(x.summary, ''), {_VECTOR}",
            wanted=1_000,
            plain=True,
        ),
        "MATCH (x:Entity) RETURN count(x)",
        lambda cache: cache.entities,
        lambda row: f"{row.name}: {row.summary}",
    ),
)


@dataclass(slots=True)
class Comparison:
    """What was found.

    Attributes:
        rows: How many rows the graph has.
        vectors: How many of them have a vector.
        dimension: Of the vectors that the cache holds.
        different: How many differ.
        named: The first of those: kind, uuid, and what is different.
    """

    rows: int = 0
    vectors: int = 0
    dimension: int | None = None
    different: int = 0
    named: list[tuple[str, str, What]] = field(default_factory=list)

    def note(self, kind: str, uuid: str, what: What, number: int = 1) -> None:
        """Count a difference."""
        self.different += number
        if len(self.named) < NAMED:
            self.named.append((kind, uuid, what))


async def compare(graph: GraphConnection, cache: GroupCache) -> Comparison:
    """Return how *cache*, which was just read, differs from the graph.

    What is written meanwhile counts as no difference.

    Args:
        graph: Where to read.
        cache: The group in memory.

    Raises:
        Transient: Memories were erased meanwhile.
        BackendUnavailable: The graph does not answer in time.
    """
    found = Comparison()
    before = await _meta(graph, cache)
    seen = {part.name: await _compare(graph, cache, part, before, found) for part in _PARTS}
    counts = {
        part.name: (await graph.read(cache.group, part.count, timeout_ms=READ_MS))[0][0]
        for part in _PARTS
    }
    if await _meta(graph, cache) == before:  # else rows of those writes are in the count
        for name, count in counts.items():
            if count > seen[name]:
                found.note(name, "", "unnumbered", count - seen[name])
    dimensions = (part.table(cache).vectors.dimension for part in _PARTS)
    found.dimension = next((each for each in dimensions if each), None)
    return found


async def _meta(graph: GraphConnection, cache: GroupCache) -> int:
    rows = await graph.read(cache.group, _META, timeout_ms=READ_MS)
    if not rows or rows[0][1] != cache.generation:
        raise Transient("memories were erased meanwhile", hint="ask again", retry_after=1)
    seq: int = rows[0][0]
    return seq


async def _compare(
    graph: GraphConnection, cache: GroupCache, part: _Part, now: int, found: Comparison
) -> int:
    """Compare one kind of row, up to write *now*; return how many the graph has of it."""
    reading = _Reading(part, cache, found, cache.seq)
    await asyncio.to_thread(reading.begin)
    more = {"space": cache.space.tag}
    pages = windows(graph, cache.group, part.kind, 0, now, timeout_ms=READ_MS, more=more)
    async for _, rows in pages:
        await asyncio.to_thread(reading.take, rows)
    reading.end()
    return len(reading.seen)


@dataclass(slots=True)
class _Reading:
    """One kind of row, page by page.

    Attributes:
        read: The cache has all that was written up to this number.
        left: Rows of the cache that the graph has not told yet, each with its number.
        seen: Uuids that it has told.
    """

    part: _Part
    cache: GroupCache
    found: Comparison
    read: int
    left: dict[str, int] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Note which rows the cache has."""
        table = self.part.table(self.cache)
        with self.cache.lock:
            self.left = {table.uuid(number): number for number in range(len(table))}

    def take(self, rows: Sequence[Sequence[Any]]) -> None:
        """Compare a page; a row that was rewritten meanwhile may come twice."""
        table = self.part.table(self.cache)
        with self.cache.lock:
            present = table.vectors.present(len(table))
            for uuid, seq, text, vector in rows:
                if uuid in self.seen:
                    continue
                self.seen.add(uuid)
                self.found.vectors += vector is not None
                number = self.left.pop(uuid, None)
                if seq > self.read:  # the cache need not have it yet
                    continue
                if number is None:
                    self.found.note(self.part.name, uuid, "missing")
                    continue
                row, has_vector = table.row(number), bool(present[number])
                if what := self._differs(row, seq, text, has_vector != (vector is not None)):
                    self.found.note(self.part.name, uuid, what)

    def end(self) -> None:
        """Count what the graph has, and what it has not."""
        self.found.rows += len(self.seen)
        for uuid in self.left:
            self.found.note(self.part.name, uuid, "extra")

    def _differs(
        self, row: PassageRow | FactRow | EntityRow, seq: int, text: str, vectors_differ: bool
    ) -> What | None:
        if row.seq != seq:  # later than what was read here: that is old by now
            return "older" if row.seq < seq else None
        if self.part.text(row) != text:
            return "text"
        return "vector" if vectors_differ else None
