"""Words at a source and an offset replace those that stood there, on a real graph."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from groups_of_tests import ANN, BOB

from gralkord.errors import LeaseLost
from gralkord.graph.invalidation import Invalidations
from gralkord.graph.passages import Passage, PassageStore, passage_uuid
from gralkord.models.places import content_key

WHEN = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
STATE = "MATCH (p:Passage) RETURN p.text, p.withdrawn_reason, p.replaced_by IS NULL ORDER BY p.text"
KEPT = [None, True]
REPLACED = ["replaced", False]


@pytest.fixture
def store(graph):
    """The passages."""
    return PassageStore(graph)


def said(text, group=ANN, source="notes.md", offset="1", part=0, **more):
    """Return the passage of a turn of these words at a place."""
    return Passage(
        passage_uuid(group, f"turn {text}", 0, part), text, "Ann", "user", "bot", "s", 1, part, WHEN,
        f"turn {text}", source, offset, None,
        content_key([{"role": "user", "content": text}]), **more,
    )  # fmt: skip


async def write(store, *passages, group=ANN, epoch=1, now_ms=1_714_555_800_000):
    return await store.write(group, epoch, passages, created_ms=now_ms, fingerprint="")


async def state(graph, group=ANN):
    return {row[0]: row[1:] for row in await graph.read(group, STATE)}


async def test_other_words_at_a_place_replace_those_before(graph, store):
    """Words that came to another place, source or operator stay as they are."""
    await write(store, said("old", BOB), group=BOB)
    await write(store, said("old"), said("beside", offset="2"), said("else", source="other.md"))
    await write(store, said("new"))
    assert await state(graph) == {
        "old": REPLACED,
        "new": KEPT,
        "beside": KEPT,
        "else": KEPT,
    }
    assert await state(graph, BOB) == {"old": KEPT}
    assert await graph.read(
        ANN,
        "MATCH (old:Passage) WHERE old.replaced_by IS NOT NULL MATCH (new:Passage) "
        "WHERE new.uuid = old.replaced_by RETURN old.text, new.text, old.withdrawn_at",
    ) == [["old", "new", "2024-05-01T09:30:00Z"]]


async def test_words_that_come_back_hold_again(graph, store):
    """The last words at a place are those that hold, also where they were there before."""
    for text in ("old", "new", "old"):
        await write(store, said(text))
    assert await state(graph) == {"old": KEPT, "new": REPLACED}


async def test_the_last_of_one_write_counts(graph, store):
    """Of words for one place in one write the last hold."""
    await write(store, said("first"), said("second"), said("third"))
    assert await state(graph) == {"first": REPLACED, "second": REPLACED, "third": KEPT}


async def test_a_repeat_changes_nothing(graph, store):
    """The same words again make no write and no new number."""
    await write(store, said("old"))
    await write(store, said("new"))
    seq = await graph.read(ANN, "MATCH (p:Passage) RETURN p.text, p.seq ORDER BY p.text")
    assert await write(store, said("new")) == []
    assert await graph.read(ANN, "MATCH (p:Passage) RETURN p.text, p.seq ORDER BY p.text") == seq


async def test_what_was_invalidated_is_neither_replaced_nor_brought_back(graph, store):
    """An invalidation stays when the same words come again, and when others come to the place."""
    (old,) = await write(store, said("old"))
    marks = Invalidations(graph)
    await marks.mark(ANN, "passage", [old], at="2024-05-02", until=None, reason="wrong")
    await write(store, said("old"))
    assert await state(graph) == {"old": ["wrong", True]}
    await write(store, said("new"))
    await write(store, said("old"))
    assert await state(graph) == {"old": ["wrong", True], "new": REPLACED}


async def test_all_passages_of_a_long_turn_are_replaced(graph, store):
    """A turn in pieces is one thing: its pieces do not replace each other, and go together."""
    piece = said("long")
    await write(store, piece, replace(piece, uuid=passage_uuid(ANN, "l", 0, 1), text="ly", part=1))
    assert await state(graph) == {"long": KEPT, "ly": KEPT}
    await write(store, said("short"))
    assert await state(graph) == {"long": REPLACED, "ly": REPLACED, "short": KEPT}


async def test_who_has_lost_the_lease_replaces_nothing(graph, store):
    """A late holder's words replace nothing."""
    await write(store, said("old"))
    await write(store, said("new"), epoch=5)
    with pytest.raises(LeaseLost):
        await write(store, said("old"), epoch=4)
    assert await state(graph) == {"old": REPLACED, "new": KEPT}


async def test_replaced_words_are_not_offered_to_be_understood(graph, store):
    """What was replaced before it was understood is not found by a backfill."""
    await write(store, said("old"), said("beside", offset="2"))
    await write(store, said("new"))
    assert {one.text for one in await store.waiting(ANN, 10)} == {"beside", "new"}
    found = await store.of_turns(ANN, "s", ["turn old", "turn new"])
    assert {one.text: one.withdrawn for one in found} == {"old": True, "new": False}


async def test_the_place_is_found_by_an_index(graph, store):
    """The look for what stands at a place scans no passages."""
    await write(store, said("old"))
    query = (
        "CYPHER keys=['a'] MATCH (p:Passage) WHERE p.place_key IN $keys "
        "AND (p.withdrawn_at IS NULL OR p.replaced_by IS NOT NULL) RETURN p.uuid"
    )
    plan = await graph._call(["GRAPH.EXPLAIN", ANN, query], 1.0)
    assert any("Node By Index Scan" in line for line in plan), plan
