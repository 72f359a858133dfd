"""New vectors for a group that has none, or those of another embedder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gralkord.errors import BackendUnavailable, Transient
from gralkord.graph.connection import GraphConnection
from gralkord.graph.reading import Kind, windows
from gralkord.graph.vectors import encode
from gralkord.providers.base import Embedder

BATCH: Final = 200
READ_MS: Final = 5_000
# Rows may be written while others are embedded; after so many looks the rest is left for later.
PASSES: Final = 4

_RANGE: Final = "WHERE x.seq > $after AND x.seq <= $upto RETURN x.uuid, x.seq, "
_HAS: Final = "CASE WHEN x.vector IS NULL THEN 0 ELSE 1 END"
# Where each kind of row is, and what its vector is made of.
_KINDS: Final = (
    (
        "(x:Passage {uuid: row.uuid})",
        Kind(
            f"MATCH (x:Passage) {_RANGE} x.speaker + ': ' + x.text, {_HAS}", wanted=500, plain=True
        ),
    ),
    (
        "()-[x:RELATES_TO {uuid: row.uuid}]->()",
        Kind(f"MATCH ()-[x:RELATES_TO]->() {_RANGE} x.fact, {_HAS}", wanted=500, plain=True),
    ),
    (
        "(x:Entity {uuid: row.uuid})",
        Kind(f"MATCH (x:Entity) {_RANGE} x.name, {_HAS}", wanted=500, plain=True),
    ),
)
_META: Final = "MATCH (m:Meta) RETURN m.seq, m.embedder"
# While it is under way the group has a fingerprint that no embedder has: nobody searches or adds
# vectors then. The number of the write that began it tells old vectors from new ones, also after a
# crash.
_BEGIN: Final = (
    "MATCH (m:Meta) WITH m, m.seq + 1 AS seq, m.embedder = $mark AS again, m.embedding AS began "
    "SET m.seq = seq, m.embedder = $mark, m.embedding = CASE WHEN again THEN began ELSE seq END "
    "RETURN m.embedding"
)
_WRITE: Final = (
    "MATCH (m:Meta) WHERE m.embedder = $mark SET m.seq = m.seq + 1 WITH m UNWIND $rows AS row "
    "MATCH {place} WHERE x.seq = row.seq SET x.vector = row.vector, x.seq = m.seq RETURN count(x)"
)
# Caches begin anew with it, for theirs may have vectors of another length.
_END: Final = (
    "MATCH (m:Meta) WHERE m.embedder = $mark SET m.seq = m.seq + 1, m.embedder = $fingerprint, "
    "m.embedding = NULL, m.generation = m.generation + 1 RETURN m.seq"
)


@dataclass(slots=True)
class Reembedding:
    """Makes the vectors of one group anew; interrupted, it can be begun again and goes on.

    Attributes:
        embedded: How many rows have got a vector so far.
    """

    graph: GraphConnection
    group: str
    embedder: Embedder
    embedded: int = 0

    async def run(self) -> AsyncIterator[int]:
        """Embed what has no vector of this embedder; yield how many rows are done, now and then.

        Until it has ended the group is searched by words alone.

        Raises:
            Transient: Another embedder was begun with meanwhile.
            BackendUnavailable: The graph does not answer in time.
            GralkorError: The embedder's failure.
        """
        _, embedder = await self._meta()
        fingerprint = self.embedder.fingerprint
        if embedder == fingerprint:
            async for number in self._fill(fingerprint, 0):
                yield number
            return
        mark = f"~{fingerprint}"
        began = (await self.graph.write(self.group, _BEGIN, {"mark": mark}, resend=True))[0][0]
        async for number in self._fill(mark, began):
            yield number
        ended = {"mark": mark, "fingerprint": fingerprint}
        if not await self.graph.write(self.group, _END, ended):
            raise Transient(f"group {self.group} is embedded by somebody else")
        async for number in self._fill(fingerprint, 0):  # what came between the last look and now
            yield number
        await self.graph.wait_durable()

    async def _fill(self, mark: str, began: int) -> AsyncIterator[int]:
        """Embed rows without a vector, and those last written before *began*."""
        after = 0
        for _ in range(PASSES):
            upto, _ = await self._meta()
            before = self.embedded
            for place, kind in _KINDS:
                pages = windows(self.graph, self.group, kind, after, upto, timeout_ms=READ_MS)
                async for _, page in pages:
                    old = [row for row in page if row[2] and (row[1] <= began or not row[3])]
                    for start in range(0, len(old), BATCH):
                        await self._embed(place, mark, old[start : start + BATCH])
                        yield self.embedded
            if self.embedded == before:
                return
            after = upto

    async def _embed(self, place: str, mark: str, rows: Sequence[Sequence[Any]]) -> None:
        vectors = await self.embedder.embed([row[2].replace("\n", " ") for row in rows])
        texts = encode(vectors)
        changed = [
            {"uuid": row[0], "seq": row[1], "vector": text if vector.any() else None}
            for row, text, vector in zip(rows, texts, vectors, strict=True)
        ]
        params = {"mark": mark, "rows": changed}
        ((written,),) = await self.graph.write(self.group, _WRITE.format(place=place), params)
        self.embedded += written
        if not written and (await self._meta())[1] != mark:
            raise Transient(f"group {self.group} is embedded by somebody else")

    async def _meta(self) -> tuple[int, str]:
        rows = await self.graph.read(self.group, _META, timeout_ms=READ_MS)
        if not rows:
            raise BackendUnavailable(f"group {self.group} was dropped under way")
        return rows[0][0], rows[0][1]
