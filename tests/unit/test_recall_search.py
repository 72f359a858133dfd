from __future__ import annotations

import numpy as np
from rows_of_tests import MAY_FIRST, cache_of, fact, passage, uuid_of

from gralkord.graph.validity import View
from gralkord.graph.vectors import encode
from gralkord.groups import Group
from gralkord.recall.query import QueryReader
from gralkord.recall.search import Searched, search
from gralkord.recall.top import best

NOW_MS = int(MAY_FIRST.timestamp() * 1000) + 86_400_000
READER = QueryReader()
DEFAULT = Group("t", "ann", "default")
WORK = Group("t", "ann", "work")


def ask(question: str, *caches, limit: int = 10, vector=None, view=None):
    query = READER.read(question, MAY_FIRST)
    groups = [
        Searched(group, cache, vector)
        for group, cache in zip((DEFAULT, WORK), caches, strict=False)
    ]
    return search(query, groups, limit, view or View(NOW_MS))


def texts(memories) -> list[str]:
    return [memory.text for memory in memories]


def test_the_answer_to_a_question_is_found_with_it():
    """A turn without any of the words is found beside one that has them."""
    talk = [
        passage("Which boat did you buy?", 0, speaker="Bo"),
        passage("A small red dinghy.", 1),
        *[passage(f"Talk about other things {n}", n, session="other") for n in range(30)],
    ]
    found = ask("what boat was bought", cache_of(*talk))
    assert set(texts(found)) == {"Which boat did you buy?", "A small red dinghy."}
    assert {tuple(memory.arms) for memory in found} == {("lexical",), ("neighbours",)}


def test_memories_carry_where_they_come_from():
    """Speaker, time, session, turn, source, offset and lens come with the words."""
    row = passage("I keep bees", speaker="Ann", source="log", offset="line 3")
    (found,) = ask("bees", cache_of(row))
    assert (found.kind, found.id, found.text, found.lens) == (
        "passage",
        row.uuid,
        "I keep bees",
        "default",
    )
    assert (found.speaker, found.role, found.event_time) == ("Ann", "user", "2024-05-01T12:00:00Z")
    assert (found.session, found.turn_id, found.source, found.offset) == (
        "s",
        "s-0",
        "log",
        "line 3",
    )
    assert 0 < found.score <= 1


def test_the_named_speaker_comes_first():
    """Who is named in the question is likelier to have said the answer."""
    rows = [passage("I like tea", 0, speaker="Bo"), passage("I like tea", 0, session="t")]
    found = ask("Does Ann like tea?", cache_of(*rows))
    assert [memory.speaker for memory in found] == ["Ann", "Bo"]


def test_the_month_that_is_named_comes_first():
    """Of two same turns the one of that time is better."""
    june = MAY_FIRST.replace(month=6)
    rows = [passage("We went sailing", 0), passage("We went sailing", 0, session="t", at=june)]
    (first, second) = ask("sailing in June 2024", cache_of(*rows))
    assert first.event_time.startswith("2024-06")
    assert "time" in first.arms
    assert "time" not in second.arms


def test_a_fact_and_the_passage_that_says_it_are_one_memory():
    """The fact stays, names the passage, and has the better one's place."""
    said = passage("Ann keeps bees in Graz", 0, episode="e")
    told = fact("Ann keeps bees in Graz.", episodes=("e",), valid_at="2024-04-01T00:00:00Z")
    (found,) = ask("Who keeps bees?", cache_of(said, told))
    assert (found.kind, found.id, found.passages) == ("fact", told.uuid, [said.uuid])


def test_a_fact_of_another_episode_stays_beside_the_passage():
    """Only a passage that a fact was understood from may be merged with it."""
    said = passage("Ann keeps bees in Graz", 0, episode="other")
    told = fact("Ann keeps bees in Graz.", episodes=("e",))
    assert {memory.kind for memory in ask("Who keeps bees?", cache_of(said, told))} == {
        "fact",
        "passage",
    }


def test_a_fact_names_the_passages_that_support_it():
    """Of all passages of its episode those that share its words are named."""
    rows = [
        passage("Hello there", 0, episode="e"),
        passage(
            "My sister Eva moved to Graz with three cats and a piano last week", 1, episode="e"
        ),
    ]
    told = fact("Eva moved to Graz", episodes=("e",))
    found = ask("Where did Eva move?", cache_of(*rows, told))
    assert [memory.passages for memory in found if memory.kind == "fact"] == [[rows[1].uuid]]


def test_invalid_facts_are_hidden():
    """What is superseded or over is not returned."""
    rows = [
        fact("Ann lives in Graz"),
        fact("Ann lives in Linz", expired_at="2024-04-01T00:00:00Z"),
        fact("Ann lives in Wels", invalid_at="2024-04-01T00:00:00Z"),
    ]
    assert texts(ask("Where does Ann live?", cache_of(*rows))) == ["Ann lives in Graz"]


def test_a_turn_that_two_lenses_hold_comes_once():
    """The lens that was asked for first keeps it."""
    row = passage("I keep bees")
    found = ask("bees", cache_of(row), cache_of(row._replace(uuid=uuid_of("other"))))
    assert [(memory.id, memory.lens) for memory in found] == [(row.uuid, "default")]


def test_lenses_are_searched_together():
    """The best memory comes first, whichever lens holds it."""
    found = ask(
        "bees in Graz", cache_of(passage("I saw a bee")), cache_of(passage("bees in Graz", 1))
    )
    assert [memory.lens for memory in found] == ["work", "default"]


def test_what_meets_nothing_has_no_answer():
    """There is no memory rather than any memory."""
    assert ask("xylophone", cache_of(passage("I keep bees"))) == []
    assert ask("xylophone") == []
    assert ask("xylophone", cache_of()) == []


def test_what_has_no_vector_yet_is_found_by_its_words():
    """It does not stand behind what says less only because that has its vector."""
    said = [f"a {animal} crossed the road" for animal in ("goat", "hen", "fox", "gnu")]
    vectors = [*encode(np.ones((3, 2), dtype=np.float32)), None]
    cache = cache_of()
    for number, (text, vector) in enumerate(zip(said, vectors, strict=True)):
        cache.passages.put(passage(text, number), vector)
        cache.facts.put(fact(f"They said: {text}"), vector)
    found = ask("which road did the gnu cross", cache, vector=np.ones(2, dtype=np.float32))
    first = {memory.kind: memory for memory in reversed(found)}
    assert ["gnu" in first[kind].text for kind in ("passage", "fact")] == [True, True]
    assert [first[kind].arms for kind in ("passage", "fact")] == [["lexical"]] * 2


def test_vectors_find_what_shares_no_word():
    """A near vector is enough."""
    cache = cache_of()
    row = np.asarray([[0.9, 0.1], [0, 1]], dtype=np.float32)
    for number, text in enumerate(encode(row)):
        cache.passages.put(passage(f"text {number}", 0, session=f"s{number}"), text)
    (found,) = ask("holiday", cache, vector=row[0])
    assert (found.text, found.arms) == ("text 0", ["vector"])


def test_the_limit_counts_memories():
    """No more than asked for, and as many as asked for where there are enough."""
    cache = cache_of(*[passage(f"bee {number}", number) for number in range(50)])
    assert len(ask("bee", cache, limit=7)) == 7
    assert len(ask("bee", cache, limit=200)) == 50


def test_the_same_question_has_the_same_answer_in_whatever_order_rows_came():
    """Two processes that know the same answer the same."""
    rows = [
        passage(f"bee number {number % 5}", number, session=f"s{number % 7}")
        for number in range(60)
    ]
    one = ask("which bee number", cache_of(*rows), limit=30)
    other = ask("which bee number", cache_of(*reversed(rows)), limit=30)
    assert one == other


def test_of_many_equal_rows_the_first_uuids_are_taken():
    """A crowd of same words is cut, the same way in every process."""
    scores = np.asarray([1, 3, 1, 1, -np.inf, 2], dtype=np.float32)
    names = {0: "d", 2: "a", 3: "c"}
    assert best(scores, 4, lambda number: names.get(number, "z")) == [1, 5, 2, 3]


def test_what_has_ended_does_not_take_the_place_of_what_holds():
    """Shown side by side, an invalidated fact and the words that still hold are two memories."""
    said = passage("I work at Acme.", 0, episode="e1")
    ended = fact(
        "Ann work at Acme.",
        episodes=("e1",),
        withdrawn_at="2024-05-01T00:00:00Z",
        withdrawn_reason="x",
    )
    cache = cache_of(said, ended)
    assert texts(ask("Acme", cache)) == ["I work at Acme."]
    found = ask("Acme", cache, view=View(NOW_MS, include_invalidated=True))
    assert {(one.text, one.invalidated, one.reason) for one in found} == {
        ("I work at Acme.", False, None),
        ("Ann work at Acme.", True, "x"),
    }
    same = cache_of(said, fact("Ann work at Acme.", episodes=("e1",)))
    assert texts(ask("Acme", same)) == ["Ann work at Acme."]
