"""Notes: statements that stand for themselves, in the graph."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gralkord.clock import SystemClock
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft, Note, NoteEnd, note_uuid
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.notes import NoteFinder
from gralkord.graph.validity import View
from gralkord.groups import Group
from gralkord.providers.embedders.choice import Embedders
from gralkord.providers.local import LocalEmbedder

ANN = Group("default", "ann").id
BOB = Group("default", "bob").id
WHEN = datetime(2026, 3, 4, tzinfo=UTC)
LATER = datetime(2026, 4, 4, tzinfo=UTC)
EMBEDDER = LocalEmbedder()


def note(text, kind="generalisation", group=ANN, **more):
    """Return a note that says *text*."""
    return Note(note_uuid(group, text), kind, text[:40], text, WHEN, **more)


def draft(name, *notes, ends=()):
    """Return an episode of which only notes are known."""
    return EpisodeDraft(
        uuid=note_uuid("episode", name),
        name=name,
        body=name,
        reference_time=WHEN,
        source_description="a test",
        extract=False,
        notes=notes,
        ends=tuple(ends),
    )


@pytest.fixture
def caches(graph):
    """Return the caches that writer and finder share."""
    return CachePool(graph, 1 << 22)


@pytest.fixture
def writer(graph, caches):
    """Return a writer that has no model."""
    return EpisodeWriter(graph, caches, None, EMBEDDER)


@pytest.fixture
def finder(caches):
    """Return what finds notes."""
    return NoteFinder(caches, Embedders.of(EMBEDDER), SystemClock())


async def texts(finder, query, group=ANN, kinds=("generalisation",)):
    """Return what is found."""
    [found] = await finder.near(group, [query], kinds, 5)
    return [each.row.fact for each in found]


async def test_a_note_is_a_node_with_its_label_and_is_found_in_its_own_group_only(
    graph, writer, finder
):
    """Without any model it is written, and another operator does not find it."""
    said = note("Ann likes tea in the morning", attributes={"level": 0}, confidence=0.8)
    await writer.add(ANN, 1, draft("one", said))
    await writer.add(BOB, 1, draft("two", note("Bob likes coffee", group=BOB)))
    assert await texts(finder, "who drinks tea?") == ["Ann likes tea in the morning"]
    assert await texts(finder, "who drinks tea?", BOB) == ["Bob likes coffee"]
    assert await texts(finder, "tea", kinds=("learning",)) == []
    rows = await graph.read(ANN, "MATCH (n:Generalisation) RETURN n.uuid, n.level, n.note_kind")
    assert rows == [[said.uuid, 0, "generalisation"]]


async def test_a_note_that_ends_is_found_no_more_and_keeps_the_reason(caches, writer, finder):
    """What takes its place is named, so that it can be undone."""
    old, new = note("Ann likes tea"), note("Ann dislikes tea")
    await writer.add(ANN, 1, draft("one", old))
    end = NoteEnd(old.uuid, new.uuid, "contradicts", LATER)
    await writer.add(ANN, 2, draft("two", new, ends=[end]))
    assert await texts(finder, "tea") == ["Ann dislikes tea"]
    known = await caches.fresh(ANN)
    [row] = known.facts.by_uuid([old.uuid])
    assert (row.superseded_by, row.superseded_reason) == (new.uuid, "contradicts")
    assert known.ending(row, View(int(LATER.timestamp() * 1000))).at.startswith("2026-04-04")


async def test_notes_written_twice_are_one(graph, writer):
    """An episode that is there already writes nothing."""
    await writer.add(ANN, 1, draft("one", note("Ann likes tea")))
    done = await writer.add(ANN, 2, draft("one", note("Ann likes tea")))
    assert not done.created
    assert await graph.read(ANN, "MATCH (n:Generalisation)-[f]->(n) RETURN count(f)") == [[1]]


async def test_a_note_is_no_entity_that_a_name_means(caches, writer):
    """Its title may be anybody's name."""
    await writer.add(ANN, 1, draft("one", replace(note("Ann likes tea"), title="Ann")))
    known = await caches.fresh(ANN)
    assert known.entities.called("Ann") == []
