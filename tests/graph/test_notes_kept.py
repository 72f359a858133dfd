"""Notes where facts are: erased with what they were made of, moved, shown, corrected."""

from __future__ import annotations

from datetime import timedelta

import pytest
from memories_of_tests import AxisEmbedder, remember
from notes_of_tests import ANN, BOB, WHEN, draft, note, write
from test_transfer import exported, imported, plain

from gralkord.clock import SystemClock
from gralkord.errors import InvalidInput, NotFound
from gralkord.graph.cache import CachePool
from gralkord.graph.comparison import compare
from gralkord.graph.drafts import NoteEnd, note_uuid, origin_key
from gralkord.graph.erasure import GroupEraser, Named
from gralkord.graph.filling import Filling
from gralkord.graph.invalidation import Invalidations
from gralkord.graph.reembedding import Reembedding
from gralkord.graph.triple_search import find_triples
from gralkord.graph.validity import View
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.items import Item
from gralkord.memories.covered import Covered
from gralkord.memories.lookup import Lookup
from gralkord.memories.memories import Memories
from gralkord.memories.sources import Sources
from gralkord.models.erasure import EraseScope
from gralkord.models.memories import (
    HistoryQuery,
    InvalidateRequest,
    MemoryQuery,
    ReactivateRequest,
    UndoRequest,
)
from gralkord.models.sources import SourceQuery, SourcesQuery
from gralkord.models.transfer import TransferRow
from gralkord.models.triples import TripleQuery
from gralkord.providers.embedders.choice import Embedders
from gralkord.wire import read_model

LATER = WHEN + timedelta(days=30)
TEA, COFFEE = note("Ann likes tea"), note("Ann likes coffee")
EVERYTHING = View(int(LATER.timestamp() * 1000), include_invalidated=True)


def contradicted(old, by):
    """Return the end of a note."""
    return NoteEnd(old.uuid, by, "contradicts", LATER)


async def erase(graph, group=ANN, *, origins=(), **scope):
    """Erase a part of a group; return the counts."""
    eraser = GroupEraser(graph)
    named = EraseScope(operator="ann", **scope) if scope else None
    doomed = await eraser.find(group, Named(named, frozenset(origins)))
    await eraser.take(group, 9, doomed)
    return doomed.counts()


async def left(graph, group=ANN):
    """Return all words of notes that are left anywhere in a group, each with its end."""
    nodes = await graph.read(group, "MATCH (n:Entity) RETURN n.summary")
    facts = await graph.read(group, "MATCH ()-[f:RELATES_TO]->() RETURN f.fact, f.invalid_at")
    assert sorted(text for (text,) in nodes) == sorted(text for text, _ in facts)
    return dict(facts)


async def test_a_note_goes_with_the_turn_that_it_was_made_of(graph):
    """Its node goes as well, though it names a source; another operator's stays."""
    for group in (ANN, BOB):
        passages = await remember(graph, group, "I like tea", session="s")
        said = note("Ann likes tea", "learning", group, source="book")
        await write(graph, draft("one", said, passages=tuple(passages)), group=group)
    counts = await erase(graph, session="s")
    assert (counts["notes"], counts["facts"], counts["entities"]) == (1, 0, 0)
    assert await left(graph) == {}
    assert list(await left(graph, BOB)) == ["Ann likes tea"]


async def test_a_note_that_is_erased_by_its_id_leaves_no_word(graph):
    """Neither in its node nor in its episode, and what it had ended holds again."""
    await write(
        graph,
        draft("one", TEA),
        draft("two", COFFEE, ends=[contradicted(TEA, COFFEE.uuid)]),
    )
    assert (await left(graph))[TEA.text] is not None
    counts = await erase(graph, ids=[COFFEE.uuid])
    assert (counts["notes"], counts["episodes"], counts["facts_revived"]) == (1, 1, 1)
    assert await left(graph) == {TEA.text: None}
    assert await graph.read(ANN, "MATCH (e:Episodic) RETURN e.name, e.content") == [["one", ""]]


async def test_of_two_notes_of_one_episode_one_stays(graph):
    """The episode stays with it."""
    await write(graph, draft("one", TEA, COFFEE))
    await erase(graph, ids=[TEA.uuid])
    assert list(await left(graph)) == [COFFEE.text]
    assert await graph.read(ANN, "MATCH (e:Episodic) RETURN count(e)") == [[1]]


async def test_an_end_is_taken_back_with_the_episode_that_has_made_it(graph):
    """Where no note took its place, the episode is what has ended it."""
    passages = await remember(graph, ANN, "I never said so", session="s")
    ends = [contradicted(TEA, note_uuid("episode", "two"))]
    await write(graph, draft("one", TEA), draft("two", ends=ends, passages=tuple(passages)))
    assert (await left(graph))[TEA.text] is not None
    assert (await erase(graph, session="s"))["facts_revived"] == 1
    assert await left(graph) == {TEA.text: None}


async def test_a_source_takes_the_notes_that_name_it(graph):
    """With the episode that was written for them alone; others stay."""
    await write(
        graph,
        draft("one", note("Ann likes tea", "memory", source="crm", offset="3")),
        draft("two", note("Ann likes coffee", "memory", source="book")),
    )
    assert (await erase(graph, source="crm"))["notes"] == 1
    assert list(await left(graph)) == ["Ann likes coffee"]


async def test_notes_of_turns_that_are_kept_elsewhere_go_by_their_origin(graph):
    """Also where that is the same group, of which the turns are no part of this episode."""
    keys = [origin_key(ANN, turn) for turn in ("t1", "t2")]
    await write(graph, draft("one", TEA, origins=(keys[0],)), draft("two", COFFEE, origins=keys))
    assert (await erase(graph, origins=keys[:1]))["notes"] == 2
    assert await left(graph) == {}
    assert await graph.read(ANN, "MATCH (o:Origin) RETURN count(o)") == [[0]]


async def test_counts_tell_notes_from_facts_and_entities(graph):
    """They are no entities and no facts."""
    await write(graph, draft("one", TEA, COFFEE))
    counts = await GroupEraser(graph).counts(ANN)
    assert (counts["notes"], counts["facts"], counts["entities"]) == (2, 0, 0)


async def test_notes_are_the_same_after_an_export_and_an_import(graph):
    """Labels, attributes, ends and vectors; the node gets none of its own."""
    embedder = AxisEmbedder()
    said = note("Ann likes tea", "learning", attributes={"success": True, "lesson": "Ask."})
    ends = [contradicted(said, COFFEE.uuid)]
    await write(graph, draft("one", said), draft("two", COFFEE, ends=ends), embedder=embedder)
    before = await exported(graph, ANN)
    await graph.drop_group(ANN)
    assert (await imported(graph, ANN, before, embedder=embedder)).created == len(before)
    assert plain(await exported(graph, ANN)) == plain(before)
    rows = await graph.read(ANN, "MATCH (n:Learning) RETURN n.uuid, n.lesson, n.unembedded")
    assert rows == [[said.uuid, "Ask.", None]]


async def test_without_vectors_in_the_file_only_the_note_gets_one(graph):
    """Its node is found by the note."""
    await write(graph, draft("one", TEA))
    rows = await exported(graph, ANN)
    await imported(graph, BOB, rows, embedder=AxisEmbedder())
    count = "MATCH (n:Entity)-[f:RELATES_TO]->(n) RETURN count(n.vector), count(f.vector)"
    assert await graph.read(BOB, count) == [[0, 1]]


def test_a_row_that_pretends_to_be_a_note_is_refused():
    """Else an erasure of it would take somebody else's node."""
    fact = {"kind": "fact", "uuid": "f", "properties": {"name": "x", "fact": "y"}}
    noted = fact | {"properties": fact["properties"] | {"note_kind": "memory"}}
    for row in (
        fact | {"source": "f", "target": "g"},
        noted | {"source": "e", "target": "e"},
        noted | {"source": "f", "target": "e"},
        {**noted, "properties": {**noted["properties"], "note_kind": "rumour"}}
        | {"source": "f", "target": "f"},
        {"kind": "entity", "uuid": "e", "properties": {"name": "n"}, "labels": ["Meta"]},
    ):
        with pytest.raises(InvalidInput):
            read_model(TransferRow, {"operator": "ann", "lens": "default"} | row)


async def test_a_note_without_its_node_and_a_fact_about_a_note_are_left_out(graph):
    """An entity of the note's uuid that is none does not become one."""
    await write(graph, draft("one", TEA, COFFEE))
    rows = await exported(graph, ANN)
    episode, tea, *rest = sorted(
        rows, key=lambda row: (row.kind != "episode", row.uuid != TEA.uuid)
    )
    plain_node = tea.model_copy(update={"properties": {"name": "Tea"}, "labels": []})
    about = {
        "kind": "fact",
        "uuid": "f",
        "source": COFFEE.uuid,
        "target": COFFEE.uuid,
        "properties": {"name": "LIKES", "fact": "A note likes itself."},
        "operator": "ann",
    }
    hostile = [episode, plain_node, *(row for row in rest if row.kind != "mention")]
    hostile.sort(key=lambda row: ("episode", "entity", "fact").index(row.kind))
    hostile.append(read_model(TransferRow, about))
    written = await imported(graph, BOB, hostile)
    missing = {row.uuid for at, row in enumerate(hostile) if at not in written.numbers}
    assert missing == {TEA.uuid, "f"}


async def test_no_vector_is_waited_for_by_the_node_of_a_note(graph):
    """Neither after a write without an embedder nor by a move to another one."""
    await write(graph, draft("one", TEA))
    moving = Reembedding(graph, ANN, embedder := AxisEmbedder())
    assert (await moving.plan()).rows == 1
    async for _ in moving.run():
        pass
    assert moving.embedded == 1
    while await Filling(graph, Embedders.of(embedder)).step(ANN) != "done":
        pass
    pool = CachePool(graph, 1 << 22)
    assert (await compare(graph, await pool.fresh(ANN))).different == 0
    await pool.close()


async def test_a_note_is_no_triple(graph):
    """Not in the list of all, nor by the id of its node."""
    await write(graph, draft("one", TEA))
    pool = CachePool(graph, 1 << 22)
    cache = await pool.fresh(ANN)
    for subject in (None, TEA.uuid, "Ann likes tea"):
        query = TripleQuery(operator="ann", subject=subject)
        assert find_triples(cache, query, EVERYTHING).triples == []
    assert cache.entities.lexical("tea", 5) == []
    assert [row.uuid for row, _ in cache.facts.lexical("tea", 5)] == [TEA.uuid]
    await pool.close()


@pytest.fixture
async def lookup(graph):
    """Return where the memories of a tenant are."""
    caches = CachePool(graph, 1 << 22)
    yield Lookup(caches, LensRegistry({}), SystemClock())
    await caches.close()


async def test_a_note_is_shown_with_what_is_known_of_it_to_its_operator(graph, lookup):
    """Kind, title, confidence, source and attributes; another operator has no such memory."""
    said = note(
        "Ann likes tea", "memory", confidence=0.7, source="crm", attributes={"importance": 0.5}
    )
    await write(graph, draft("one", said))
    memories = Memories(graph, lookup, Invalidations(graph))
    shown = await memories.show("default", said.uuid, MemoryQuery(operator="ann"))
    assert (shown.kind, shown.title, shown.text) == ("memory", "Ann likes tea", "Ann likes tea")
    assert (shown.confidence, shown.source, shown.subject) == (0.7, "crm", None)
    assert shown.attributes == {"importance": 0.5}
    with pytest.raises(NotFound):
        await memories.show("default", said.uuid, MemoryQuery(operator="bob"))


async def test_the_end_of_a_note_can_be_undone(graph, lookup):
    """By a note as by an episode; the history names both."""
    ends = [contradicted(TEA, COFFEE.uuid)]
    more = note("Ann likes milk")
    forgot = note_uuid("episode", "three")
    await write(
        graph,
        draft("one", TEA, more),
        draft("two", COFFEE, ends=ends),
        draft("three", ends=[contradicted(more, forgot)]),
    )
    memories = Memories(graph, lookup, Invalidations(graph))
    history = await memories.history("default", TEA.uuid, HistoryQuery(operator="ann", text=True))
    assert (history.superseded.id, history.superseded.text) == (COFFEE.uuid, COFFEE.text)
    for one, by in ((TEA, COFFEE.uuid), (more, forgot)):
        undone = await memories.undo("default", UndoRequest(operator="ann", id=one.uuid, by=by))
        assert undone.superseded.undone
        assert not undone.memory.invalidated


async def test_a_source_shows_and_invalidates_the_notes_that_name_it(graph, lookup):
    """They count as notes, and hold again when that is taken back."""
    await write(graph, draft("one", note("Ann likes tea", "memory", source="crm")))
    sources = Sources(lookup)
    (listed,) = (await sources.page("default", SourcesQuery(operator="ann"))).sources
    assert (listed.source, listed.passages, listed.facts, listed.notes) == ("crm", 0, 0, 1)
    shown = await sources.content("default", "crm", SourceQuery(operator="ann"))
    assert (shown.entries, shown.notes) == ([], [TEA.uuid])
    memories = Memories(graph, lookup, Invalidations(graph))
    done = await memories.invalidate("default", InvalidateRequest(operator="ann", source="crm"))
    assert (done.facts, done.notes) == (0, 1)
    query = MemoryQuery(operator="ann")
    assert (await memories.show("default", TEA.uuid, query)).invalidated
    await memories.reactivate("default", ReactivateRequest(operator="ann", ids=[TEA.uuid]))
    assert not (await memories.show("default", TEA.uuid, query)).invalidated


async def test_notes_take_memory_for_what_is_known_of_them(graph):
    """So that a group of many does not crowd out others unseen."""
    sizes = []
    for group, attributes in ((ANN, {}), (BOB, {"lesson": "x" * 5_000})):
        said = note("Ann likes tea", "learning", attributes=attributes)
        await write(graph, draft("one", said), group=group)
        pool = CachePool(graph, 1 << 24)
        sizes.append((await pool.fresh(group)).nbytes)
        await pool.close()
    assert sizes[1] - sizes[0] > 10_000


def test_what_waits_to_be_written_goes_with_its_source():
    """And communities with any erasure of the group: they are made of any words of it."""
    covered = Covered(EraseScope(operator="ann", source="crm"))
    observed = [Item(name, {"kind": "observe", "source": name}) for name in ("crm", "book")]
    assert [covered.item("understand", ANN, item) for item in observed] == [None, observed[1]]
    found = Item("3", {"kind": "communities", "rows": [{"summary": "words"}]})
    for scope in (covered.scope, EraseScope(operator="ann", turn="t1")):
        assert Covered(scope).item("understand", ANN, found) is None
