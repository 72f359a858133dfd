"""Notes written straight into a group, as a worker writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft, Note, note_uuid
from gralkord.graph.episodes import EpisodeWriter
from gralkord.groups import Group

ANN = Group("default", "ann").id
BOB = Group("default", "bob").id
WHEN = datetime(2026, 3, 4, tzinfo=UTC)


def note(text, kind="generalisation", group=ANN, **more):
    """Return a note that says *text*."""
    return Note(note_uuid(group, text), kind, text[:40], text, WHEN, **more)


def draft(name, *notes, ends=(), **more):
    """Return an episode of which only notes are known."""
    return EpisodeDraft(
        uuid=note_uuid("episode", name),
        name=name,
        body=f"the words of {name}",
        reference_time=WHEN,
        source_description="a test",
        extract=False,
        notes=notes,
        ends=tuple(ends),
        **more,
    )


async def write(graph, *drafts, group=ANN, embedder=None):
    """Write episodes of notes into a group."""
    caches = CachePool(graph, 1 << 22)
    writer = EpisodeWriter(graph, caches, None, embedder)
    for one in drafts:
        await writer.add(group, 1, one)
    await caches.close()
