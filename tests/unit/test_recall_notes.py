"""Notes in recall: learnings, generalisations and memories beside what was said."""

from __future__ import annotations

import numpy as np
import pytest
from rows_of_tests import MAY_FIRST, cache_of, fact, passage, uuid_of

from gralkord.graph.validity import View
from gralkord.graph.vectors import encode
from gralkord.groups import Group
from gralkord.recall.query import QueryReader
from gralkord.recall.search import Found, Searched, find

NOW = View(int(MAY_FIRST.timestamp() * 1000) + 86_400_000)
READER = QueryReader()
DEFAULT = Group("t", "ann", "default")
WORK = Group("t", "ann", "work")


def note(text: str, kind: str = "learning", name: object = None, **values):
    """Return a note that says *text*; its uuid follows from its name, else from its text."""
    return fact(text, note_kind=kind, uuid=uuid_of((kind, name or text)), **values)


def ask(question: str, *caches, limit: int = 10, **more) -> Found:
    """Return what is found in the caches of one operator's lenses."""
    settings = {key: more.pop(key) for key in ("kinds", "vector") if key in more}
    groups = [
        Searched(group, cache, settings.get("vector"), settings.get("kinds"), cap)
        for group, cache, cap in zip(
            (DEFAULT, WORK), caches, more.pop("caps", (None, None)), strict=False
        )
    ]
    return find(READER.read(question, MAY_FIRST), groups, limit, NOW, **more)


def kinds(found: Found) -> dict[str, int]:
    """Return how many memories of each kind there are."""
    told = [memory.kind for memory in found.memories]
    return {kind: told.count(kind) for kind in sorted(set(told))}


def bees(kind: str, count: int):
    """Return so many notes about bees."""
    return [note(f"Bees need care, number {at}", kind) for at in range(count)]


def test_learnings_and_generalisations_have_shares_of_their_own():
    """A third of the room each, and what was said fills the rest."""
    said = [passage(f"The bees flew, number {at}", at, session=f"s{at}") for at in range(20)]
    cache = cache_of(*said, *bees("learning", 9), *bees("generalisation", 9))
    assert kinds(ask("bees", cache)) == {"generalisation": 3, "learning": 3, "passage": 4}
    assert kinds(ask("bees", cache_of(*said, *bees("learning", 1)))) == {
        "learning": 1,
        "passage": 9,
    }


def test_memories_compete_with_facts():
    """They have no share of their own, so the best of both are returned."""
    facts = [fact(f"Ann has seen a bee {at}") for at in range(8)]
    cache = cache_of(*facts, note("Ann keeps bees in Graz", "memory"))
    first, *rest = ask("Who keeps bees in Graz?", cache).memories
    assert (first.kind, first.arms, len(rest)) == ("memory", ["lexical", "memories"], 8)


@pytest.mark.parametrize("limit", [1, 2])
def test_with_little_room_the_best_are_taken(limit):
    """There are never more results than asked for, whatever the shares."""
    said = passage("Ann keeps bees in Graz")
    cache = cache_of(said, *bees("learning", 3), *bees("generalisation", 3))
    found = ask("Who keeps bees in Graz?", cache, limit=limit).memories
    assert found[0].text == said.text
    assert len(found) == limit


def test_a_note_that_meets_nothing_is_not_returned():
    """Its share of the room is no reason to return it."""
    cache = cache_of(*bees("learning", 3), passage("A xylophone"))
    assert kinds(ask("xylophone", cache)) == {"passage": 1}


def test_a_near_vector_finds_a_note():
    """As it finds everything else."""
    cache = cache_of()
    vectors = np.asarray([[0.9, 0.1], [0, 1]], dtype=np.float32)
    for at, text in enumerate(encode(vectors)):
        cache.facts.put(note(f"text {at}"), text)
    (found,) = ask("holiday", cache, vector=vectors[0]).memories
    assert (found.text, found.arms) == ("text 0", ["learnings", "vector"])


def test_what_succeeded_is_favoured():
    """Of two learnings that fit alike the one that worked comes first."""
    rows = [
        note("Bees: smoke them", name=at, attributes={"success": success, "lesson": "x"})
        for at, success in enumerate((False, True))
    ]
    rows[0] = note("Bees: chase them", name=0, attributes={"success": False})
    found = ask("bees", cache_of(*rows)).memories
    assert [memory.attributes["success"] for memory in found] == [True, False]
    assert found[0].attributes["lesson"] == "x"


def test_notes_of_the_same_words_are_one():
    """Also if two lenses hold them; what differs in a word stays, for it may say the contrary."""
    one, same = note("Bees like rain", name=1), note("bees like  rain.", name=2)
    other = note("Bees do not like rain")
    found = ask("bees rain", cache_of(one, other), cache_of(same)).memories
    assert sorted(memory.text for memory in found) == ["Bees do not like rain", "Bees like rain"]


def test_a_fact_with_the_words_of_a_generalisation_is_not_told_beside_it():
    """The generalisation says more: how sure it is."""
    known = note("Ann likes tea", "generalisation", confidence=0.8)
    (found,) = ask("tea", cache_of(fact("Ann likes tea."), known)).memories
    assert (found.kind, found.attributes) == ("generalisation", {"confidence": 0.8})


def test_a_memory_takes_the_place_of_the_passage_that_says_the_same():
    """As a fact does, and it names the passage."""
    said = passage("Ann keeps bees in Graz", episode="e")
    known = note("Ann keeps bees in Graz.", "memory", episodes=("e",))
    (found,) = ask("bees", cache_of(said, known)).memories
    assert (found.kind, found.passages) == ("memory", [said.uuid])


def test_kinds_that_are_asked_for_have_all_the_room():
    """Where nothing else is asked for, learnings need not leave room for it."""
    cache = cache_of(passage("bees"), *bees("learning", 9), *bees("memory", 9))
    assert kinds(ask("bees", cache, limit=6, kinds=["learning"])) == {"learning": 6}
    assert kinds(ask("bees", cache, limit=6, kinds=["passage", "fact"])) == {"passage": 1}
    assert kinds(ask("bees", cache_of(fact("bees")), kinds=["passage"])) == {}


def test_a_group_gives_no_more_than_it_may():
    """What it does not give another one does."""
    one = cache_of(*[passage(f"bee {at}", at) for at in range(9)], *bees("learning", 5))
    other = cache_of(*[passage(f"bees {at}", at, session="t") for at in range(9)])
    found = ask("bees", one, other, limit=6, caps=(2, None)).memories
    assert [memory.lens for memory in found].count("default") <= 2
    assert len(found) == 6


def test_a_note_that_cannot_be_shown_hides_nothing_else():
    """Its arm is named as missing, and the rest is the answer."""
    odd = note("Ann keeps bees", "memory", attributes={"metadata": "no JSON"})
    found = ask("bees", cache_of(odd, note("Bees sting"), passage("bees")))
    assert kinds(found) == {"learning": 1, "passage": 1}
    assert found.missing == {"memories"}


def test_notes_that_would_be_late_are_left_out_and_named():
    """What was said is returned all the same."""
    cache = cache_of(passage("bees"), *bees("learning", 1))
    found = ask("bees", cache, in_time=lambda: False)
    assert (kinds(found), found.missing) == ({"passage": 1}, {"learnings"})


def test_a_note_changes_its_attributes_in_place():
    """What it succeeded in, or its kind, is what the last write says."""
    cache = cache_of(note("Bees sting", name=1, attributes={"success": True}), note("Bees fly"))
    cache.facts.put(note("Bees sting", name=1, attributes={"success": False}, seq=2), None)
    assert cache.facts.succeeded.tolist() == [False, False]
    assert cache.facts.notes.tolist() == [1, 1]
    assert cache.facts.has_notes
