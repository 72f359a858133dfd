"""Moving a group to another embedder while it is used, and making vectors that are missing.

The steps, and what a crash between them leaves: docs/explanation/vectors.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gralkord.errors import BackendUnavailable, Transient
from gralkord.graph import spaces
from gralkord.graph.connection import GraphConnection
from gralkord.graph.reading import Kind, windows
from gralkord.graph.row_vectors import KINDS, RowVectors, Target, plain
from gralkord.groups import parse_group
from gralkord.providers.base import Embedder
from gralkord.providers.embedders.embedder import together

# Rows embedded and written together, and batches under way at once: they are only waited for.
BATCH: Final = 128
BATCHES: Final = 4
SWEPT: Final = 500
READ_MS: Final = 5_000
# Looks at a group that is written to all the while, before it is switched all the same.
LOOKS: Final = 5
STAGE: Final = "reembed"

_RANGE: Final = "WHERE x.seq > $after AND x.seq <= $upto RETURN x.uuid, x.seq, "
_HEADS: Final = f"left(x.vector, {spaces.HEAD}), left(x.vector_next, {spaces.HEAD})"
# Of a move that has not begun: no vector has it.
_NO_TAG: Final = "?:"

_META: Final = (
    "MATCH (m:Meta) RETURN m.seq, m.embedder_next, m.space_next, m.vectors_old IS NOT NULL, "
    f"{spaces.META}"
)
# A group without vectors is in the new space at once.
_BEGIN: Final = (
    "MATCH (m:Meta) WHERE m.vectors_old IS NULL AND m.embedder <> $to SET m.seq = m.seq + 1 "
    "SET m.space_next = CASE WHEN m.embedder = '' THEN NULL WHEN m.embedder_next = $to "
    "THEN m.space_next ELSE toString(m.seq) + ':' END, "
    "m.embedder_next = CASE WHEN m.embedder = '' THEN NULL ELSE $to END, "
    "m.embedder = CASE WHEN m.embedder = '' THEN $to ELSE m.embedder END RETURN m.seq"
)
# Vectors that were made for another move are swept out.
_STAY: Final = (
    "MATCH (m:Meta) WHERE m.embedder = $to AND m.embedder_next IS NOT NULL "
    "SET m.embedder_next = NULL, m.space_next = NULL, m.vectors_old = true RETURN m.seq"
)
# Without $upto also where something was written since: those rows are marked.
_SWITCH: Final = (
    "MATCH (m:Meta) WHERE m.embedder_next = $to AND m.space_next = $tag "
    "AND (m.seq = $upto OR $anyhow) "
    "SET m.seq = m.seq + 1, m.embedder = $to, m.space = $tag, m.embedder_next = NULL, "
    "m.space_next = NULL, m.vectors_old = true WITH m "
)
_MARK: Final = (
    "OPTIONAL MATCH {late} WHERE x.seq > $upto AND NOT coalesce(x.vector_next, '') "
    "STARTS WITH $tag SET x.unembedded = true WITH m, count(x) AS rows "
    "SET m.unembedded = CASE WHEN rows > 0 THEN m.seq ELSE m.unembedded END WITH m "
)
_OLD: Final = "x.vector_next IS NOT NULL OR (x.vector IS NOT NULL AND NOT {ours})"
_OURS: Final = "(x.vector STARTS WITH $tag AND ($tag <> '' OR NOT x.vector CONTAINS ':'))"
_SWEEP: Final = (
    "MATCH (m:Meta) WHERE m.vectors_old AND coalesce(m.space, '') = $tag UNWIND $rows AS row "
    "MATCH {place} "
    f"SET x.vector = CASE WHEN {_OURS} THEN x.vector WHEN $tag <> '' AND x.vector_next STARTS WITH "
    "$tag AND NOT x.vector_next ENDS WITH ':' THEN x.vector_next END, x.vector_next = NULL "
    "RETURN count(x)"
)
_SWEPT: Final = (
    "MATCH (m:Meta) WHERE m.vectors_old AND coalesce(m.space, '') = $tag "
    "SET m.vectors_old = NULL RETURN m.seq"
)


@dataclass(frozen=True, slots=True)
class Move:
    """Where a group stands.

    Attributes:
        seq: Number of its last write.
        space: Its space.
        to: Fingerprint of the space it is moving to, if it is.
        tag: What stands in front of the vectors there.
        sweeping: Whether vectors of other spaces are still there.
    """

    seq: int
    space: spaces.Space
    to: str | None
    tag: str
    sweeping: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done with a group.

    Attributes:
        moves: Whether it moves to another space.
        rows: How many rows need a vector.
        characters: How long their words are together.
    """

    moves: bool
    rows: int
    characters: int


@dataclass(slots=True)
class Reembedding:
    """Moves one group to an embedder, or makes what vectors it lacks; can be begun again."""

    graph: GraphConnection
    group: str
    embedder: Embedder
    _vectors: RowVectors = field(init=False)

    def __post_init__(self) -> None:
        self._vectors = RowVectors(self.graph, self.group, self.embedder, STAGE)

    @property
    def embedded(self) -> int:
        """How many rows have got a vector so far."""
        return self._vectors.embedded

    async def run(self) -> AsyncIterator[int]:
        """Do all of it; yield how many rows are done, now and then.

        Raises:
            Transient: Somebody moves the group elsewhere.
            BackendUnavailable: The graph does not answer in time.
            GralkorError: The embedder's failure.
        """
        await self.embedder.embed(["dimension"], group=parse_group(self.group), stage=STAGE)
        to = self.embedder.fingerprint
        if (await self.move()).sweeping:  # a move before this one was interrupted at its end
            await self._sweep()
        await self.graph.write(self.group, _STAY, {"to": to}, resend=True)
        if (await self.move()).sweeping:
            await self._sweep()
        await self.graph.write(self.group, _BEGIN, {"to": to}, resend=True)
        move = await self.move()
        if move.space.embedder != to:
            async for number in self._beside(move, to):
                yield number
            await self._sweep()
        async for number in self._fill(to):
            yield number
        await self.graph.wait_durable()

    async def plan(self) -> Plan:
        """Return what `run` would do; nothing is written or embedded.

        Raises:
            BackendUnavailable: The graph does not answer in time.
        """
        move = await self.move()
        moves = bool(move.space.embedder) and not self.embedder.fits(move.space.embedder)
        begun = moves and move.to is not None and self.embedder.fits(move.to)
        tag = (move.tag if begun else _NO_TAG) if moves else move.space.tag
        target = Target("", tag, beside=moves)
        rows = characters = 0
        async for _, page in self._pages(target, 0, move.seq):
            rows += len(page)
            characters += sum(len(row[2]) for row in page)
        return Plan(moves, rows, characters)

    async def count(self) -> int:
        """Return how many rows the group has."""
        counts = [f"MATCH {match.format('')} RETURN count(x)" for match, _ in KINDS]
        found = [await self.graph.read(self.group, each, timeout_ms=READ_MS) for each in counts]
        return sum(rows[0][0] for rows in found if rows)

    async def move(self) -> Move:
        """Return where the group stands.

        Raises:
            BackendUnavailable: The graph does not answer in time, or the group is gone.
        """
        rows = await self.graph.read(self.group, _META, timeout_ms=READ_MS)
        if not rows:
            raise BackendUnavailable(f"group {self.group} was dropped under way")
        seq, to, tag, sweeping, embedder, space = rows[0]
        return Move(seq, spaces.Space(embedder or "", space), to, tag or "", sweeping)

    async def _beside(self, move: Move, to: str) -> AsyncIterator[int]:
        """Make the vectors of the new space, and switch to it."""
        if move.to != to:
            raise self._taken()
        after, target = 0, Target(to, move.tag, beside=True)
        for look in range(1, LOOKS + 1):
            upto = (await self.move()).seq
            async for number in self._pass(target, after, upto):
                yield number
            marks = "".join(_MARK.format(late=match.format("")) for match, _ in KINDS)
            switch = {"to": to, "tag": move.tag, "upto": upto, "anyhow": look == LOOKS}
            if await self.graph.write(self.group, f"{_SWITCH}{marks}RETURN m.seq", switch):
                return
            now = await self.move()
            if now.space.tag == move.tag:  # the answer to it was lost
                return
            if (now.to, now.tag) != (to, move.tag):
                raise self._taken()
            after = upto
        raise self._taken()

    async def _fill(self, to: str) -> AsyncIterator[int]:
        """Make the vectors that the group lacks in its present space."""
        after = 0
        for _ in range(LOOKS):
            now, before = await self.move(), self.embedded
            if now.space.embedder != to:
                raise self._taken()
            target = Target(to, now.space.tag)
            async for number in self._pass(target, after, now.seq):
                yield number
            if self.embedded == before:
                return
            after = now.seq

    async def _pass(self, target: Target, after: int, upto: int) -> AsyncIterator[int]:
        """Embed the rows of some write numbers that have no vector yet."""
        async for match, rows in self._pages(target, after, upto):
            for start in range(0, len(rows), BATCH * BATCHES):
                some = rows[start : start + BATCH * BATCHES]
                batches = [some[first : first + BATCH] for first in range(0, len(some), BATCH)]
                await together([self._vectors.make(target, match, each) for each in batches])
                yield self.embedded

    async def _pages(
        self, target: Target, after: int, upto: int
    ) -> AsyncIterator[tuple[str, list[Sequence[Any]]]]:
        """Yield the rows of some write numbers that need a vector, and how they are matched."""
        for match, words in KINDS:
            kind = Kind(
                f"MATCH {match.format('')} {_RANGE} {words}, {_HEADS}", wanted=500, plain=True
            )
            pages = windows(self.graph, self.group, kind, after, upto, timeout_ms=READ_MS)
            async for _, page in pages:
                yield match, [row for row in page if self._lacks(target, row)]

    def _lacks(self, target: Target, row: Sequence[Any]) -> bool:
        """Return whether a row needs a vector."""
        uuid, _, words, head, head_next = row
        if not words or uuid in self._vectors.hopeless:
            return False
        if target.beside:
            return not (head_next or "").startswith(spaces.head_of(target.tag, plain(words)))
        if target.tag:
            return not any((each or "").startswith(target.tag) for each in (head, head_next))
        return not head or ":" in head

    async def _sweep(self) -> None:
        """Take away vectors of other spaces; what readers see stays the same."""
        move = await self.move()
        params = {"tag": move.space.tag}
        for match, _ in KINDS:
            old = _OLD.format(ours=_OURS)
            kind = Kind(
                f"MATCH {match.format('')} WHERE x.seq > $after AND x.seq <= $upto AND ({old}) "
                "RETURN x.uuid",
                wanted=2_000,
                plain=True,
            )
            sweep = _SWEEP.format(place=match.format(" {uuid: row.uuid}"))
            pages = windows(
                self.graph, self.group, kind, 0, move.seq, timeout_ms=READ_MS, more=params
            )
            async for _, page in pages:
                for start in range(0, len(page), SWEPT):
                    some = [{"uuid": uuid} for (uuid,) in page[start : start + SWEPT]]
                    await self.graph.write(self.group, sweep, {**params, "rows": some}, resend=True)
        await self.graph.write(self.group, _SWEPT, params, resend=True)

    def _taken(self) -> Transient:
        return Transient(f"group {self.group} is moved to another embedder by somebody else")
