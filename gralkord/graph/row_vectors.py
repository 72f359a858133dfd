"""Vectors of rows that are in the graph: made of their words, written where nothing has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gralkord.errors import MalformedOutput, Permanent
from gralkord.graph import spaces
from gralkord.graph.connection import GraphConnection
from gralkord.graph.vectors import encode
from gralkord.groups import parse_group
from gralkord.providers.base import Embedder

# How each kind of row is matched, and what its vector is made of.
KINDS: Final = (
    ("(x:Passage{})", "x.speaker + ': ' + x.text"),
    ("()-[x:RELATES_TO{}]->()", "x.fact"),
    # The words of a note are those of its fact.
    ("(x:Entity{})", "CASE WHEN x.note_kind IS NULL THEN x.name END"),
)
# Rows whose words an embedder does not take; more are no matter of their words any more.
MOST_HOPELESS: Final = 100

_ONE: Final = " {uuid: row.uuid}"
# Nothing that a reader looks at: no number changes.
_BESIDE: Final = (
    "MATCH (m:Meta) WHERE m.embedder_next = $to AND m.space_next = $tag UNWIND $rows AS row "
    "MATCH {place} WHERE x.seq = row.seq SET x.vector_next = row.vector RETURN count(x)"
)
_FILL: Final = (
    "MATCH (m:Meta) WHERE m.embedder IN ['', $to] AND coalesce(m.space, '') = $tag "
    "SET m.seq = m.seq + 1, m.embedder = $to WITH m UNWIND $rows AS row "
    "MATCH {place} WHERE x.seq = row.seq "
    "SET x.vector = row.vector, x.unembedded = NULL, x.seq = m.seq RETURN count(x)"
)


@dataclass(frozen=True, slots=True)
class Target:
    """The space that vectors are made for.

    Attributes:
        to: Its fingerprint.
        tag: What stands in front of the vectors.
        beside: Whether the group is not in it yet.
    """

    to: str
    tag: str
    beside: bool = False


@dataclass(slots=True)
class RowVectors:
    """Makes and writes vectors of rows of one group.

    Attributes:
        stage: What is being done, for the ledger.
        embedded: How many rows have got a vector so far.
        hopeless: Uuids of rows for whose words there is no vector.
    """

    graph: GraphConnection
    group: str
    embedder: Embedder
    stage: str
    embedded: int = 0
    hopeless: set[str] = field(default_factory=set)

    async def make(self, target: Target, match: str, rows: Sequence[Sequence[Any]]) -> None:
        """Give rows their vectors, unless they have changed or the group is elsewhere by now.

        Args:
            target: Which vectors.
            match: How the rows are matched, of `KINDS`.
            rows: Of each its uuid, number and words first.

        Raises:
            BackendUnavailable: The graph does not answer.
            GralkorError: The embedder's failure.
        """
        words = [plain(row[2]) for row in rows]
        try:
            vectors = await self.embedder.embed(
                words, group=parse_group(self.group), stage=self.stage
            )
        except (MalformedOutput, Permanent) as error:
            if type(error) not in {MalformedOutput, Permanent}:  # it is of the settings
                raise
            if len(rows) == 1:  # the embedder does not take these words
                self.hopeless.add(rows[0][0])
                if len(self.hopeless) > MOST_HOPELESS:
                    raise
                return
            half = len(rows) // 2
            await self.make(target, match, rows[:half])
            await self.make(target, match, rows[half:])
            return
        changed = []
        for row, text, body, vector in zip(rows, words, encode(vectors), vectors, strict=True):
            head = spaces.head_of(target.tag, text) if target.tag else ""
            if vector.any():
                changed.append({"uuid": row[0], "seq": row[1], "vector": head + body})
            elif target.beside:  # so that it is not asked again
                changed.append({"uuid": row[0], "seq": row[1], "vector": head})
            else:
                self.hopeless.add(row[0])
        if changed:
            query = (_BESIDE if target.beside else _FILL).format(place=match.format(_ONE))
            params = {"to": target.to, "tag": target.tag, "rows": changed}
            found = await self.graph.write(self.group, query, params)
            self.embedded += found[0][0] if found else 0


def plain(words: str) -> str:
    """Return words as they are embedded."""
    return words.replace("\n", " ")
