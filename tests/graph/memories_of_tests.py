"""Passages written straight into a group, and a connection that can be held, broken and counted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from gralkord.errors import BackendUnavailable
from gralkord.graph.passages import Passage, PassageStore, passage_uuid
from gralkord.graph.vectors import encode

WHEN = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
FINGERPRINT = "test:axes:4"


def axis(text: str) -> np.ndarray:
    """Return the vector of a text: the axis that its length falls on."""
    row = np.zeros(4, dtype=np.float32)
    row[len(text) % 4] = 1
    return row


class AxisEmbedder:
    """An embedder whose vectors can be told from the text."""

    fingerprint = FINGERPRINT
    dimension = 4
    inline = True

    def fits(self, fingerprint):
        """Whether that is its own."""
        return fingerprint == self.fingerprint

    async def close(self):
        """Do nothing."""

    async def embed(self, texts, **_):
        """Return the axes of *texts*."""
        return np.stack([axis(text) for text in texts])


async def remember(
    graph, group, *texts, session="s", start=0, speaker="Ann", embed=True, spoken=False
):
    """Write the texts as turns of a session; return their uuids.

    With *spoken* their vectors are of speaker and text, as those that the index lane writes.
    """
    rows = [
        Passage(
            uuid=passage_uuid(group, f"{session}-{number}", 0, 0),
            text=text,
            speaker=speaker,
            role="user",
            agent="bot",
            session=session,
            ordinal=number,
            part=0,
            event_time=WHEN + timedelta(minutes=number),
            turn_id=f"{session}-{number}",
            vector=encode(axis(f"{speaker}: {text}" if spoken else text)[None])[0]
            if embed
            else None,
        )
        for number, text in enumerate(texts, start)
    ]
    store = PassageStore(graph)
    return await store.write(group, 1, rows, created_ms=1, fingerprint=FINGERPRINT)


class WatchedGraph:
    """A connection whose reads can be counted, held, answered with an error, or accompanied.

    Attributes:
        queries: The query of every read.
        down: Whether reads fail.
        gate: What every read waits for first.
        before: Called with the query before each read.
        run: The name of the server's run; default: the true one.
    """

    def __init__(self, graph) -> None:
        self._graph = graph
        self.queries = []
        self.down = False
        self.gate = None
        self.before = None
        self.run = None

    async def read(self, group, query, params=None, **options):
        """Read, as the attributes have it."""
        self.queries.append(query)
        if self.gate is not None:
            await self.gate.wait()
        if self.before is not None:
            await self.before(query)
        if self.down:
            raise BackendUnavailable("held down by a test")
        return await self._graph.read(group, query, params, **options)

    async def run_id(self):
        """Return the name of this run of the server."""
        return self.run or await self._graph.run_id()
