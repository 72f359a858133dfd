"""Vectors for rows that were written without the one they should have, and are marked so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from gralkord.graph.connection import GraphConnection
from gralkord.graph.row_vectors import KINDS, RowVectors, Target, plain
from gralkord.graph.spaces import META
from gralkord.groups import parse_group
from gralkord.providers.embedders.choice import Embedders

# Rows read, embedded and written together.
BATCH: Final = 128
READ_MS: Final = 2_000
STAGE: Final = "index"

Step = Literal["more", "done", "foreign"]

_MARKED: Final = " {unembedded: true}"
_META: Final = f"MATCH (m:Meta) RETURN m.unembedded, {META}"
_DONE: Final = "MATCH (m:Meta) WHERE m.unembedded = $seen SET m.unembedded = NULL RETURN m.seq"
_LEAVE: Final = (
    "UNWIND $rows AS row MATCH {place} WHERE x.seq = row.seq SET x.unembedded = NULL "
    "RETURN count(x)"
)


@dataclass(frozen=True, slots=True)
class Filling:
    """Gives the marked rows of groups their vectors; interrupted anywhere, it can go on."""

    graph: GraphConnection
    embedders: Embedders

    async def step(self, group: str) -> Step:
        """Do some rows of *group*; say whether there are more.

        Returns:
            ``foreign`` where no embedder fits the group's vectors.

        Raises:
            BackendUnavailable: The graph does not answer.
            GralkorError: The embedder's failure.
        """
        meta = await self.graph.read(group, _META, timeout_ms=READ_MS)
        if not meta or meta[0][0] is None:
            return "done"
        seen, space, tag = meta[0]
        embedder = self.embedders.fitting(space)
        if embedder is None:
            return "foreign"
        vectors = RowVectors(self.graph, group, embedder, STAGE)
        for match, words in KINDS:
            query = f"MATCH {match.format(_MARKED)} RETURN x.uuid, x.seq, {words} LIMIT {BATCH}"
            rows = await self.graph.read(group, query, timeout_ms=READ_MS)
            if not rows:
                continue
            wordy = [row for row in rows if row[2]]
            if wordy:
                # The dimension is part of the name, and not known before the first answer.
                first = [plain(wordy[0][2])]
                await embedder.embed(first, group=parse_group(group), stage=STAGE)
                if space and not embedder.fits(space):
                    return "foreign"
                await vectors.make(Target(embedder.fingerprint, tag), match, wordy)
            left = await self._leave(group, match, rows, vectors.hopeless)
            # Where all rows have changed meanwhile, or the group has moved, the next ring goes on.
            return "more" if vectors.embedded or left else "done"
        await self.graph.write(group, _DONE, {"seen": seen}, resend=True)
        return "done"

    async def waiting(self, group: str) -> int | None:
        """Return the number of the last write that left rows without a vector, if there are any.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        found = await self.graph.read(group, _META, timeout_ms=READ_MS)
        return found[0][0] if found else None

    async def _leave(self, group: str, match: str, rows: list[list[Any]], lost: set[str]) -> int:
        """Take the marks of rows that will not get a vector; return how many there were."""
        left = [{"uuid": row[0], "seq": row[1]} for row in rows if row[0] in lost or not row[2]]
        if left:
            place = match.format(" {uuid: row.uuid}")
            await self.graph.write(group, _LEAVE.format(place=place), {"rows": left})
        return len(left)
