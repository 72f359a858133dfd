from __future__ import annotations

import numpy as np
import pytest
from rows_of_tests import MAY_FIRST, cache_of, entity, fact, passage, uuid_of

from gralkord.graph.validity import View
from gralkord.graph.vectors import encode

DAY_MS = 86_400_000
MAY_FIRST_MS = int(MAY_FIRST.timestamp() * 1000)


def one_hot(place: int) -> np.ndarray:
    row = np.zeros(4, dtype=np.float32)
    row[place] = 1
    return row


def vector(place: int) -> str:
    return encode(one_hot(place)[None])[0]


def facts_of(found) -> list[str]:
    return [row.fact for row, _ in found]


def test_a_newer_row_replaces_the_older():
    """What the graph says last is what is known."""
    table = cache_of(passage("tea", seq=1)).passages
    table.put(passage("coffee", seq=2, episode="e"), None)
    assert [row.text for row in table.by_uuid([passage("").uuid])] == ["coffee"]
    assert np.flatnonzero(table.words.scores(["tea"])).tolist() == []
    assert np.flatnonzero(table.words.scores(["coffe"])).tolist() == [0]


def test_an_older_row_changes_nothing():
    """Rows that come twice or late do no harm."""
    table = cache_of(passage("tea", seq=2)).passages
    table.put(passage("coffee", seq=1), None)
    assert table.row(0).text == "tea"
    assert len(table) == 1


def test_an_episode_knows_its_passages():
    """A passage that is understood is found under its episode."""
    table = cache_of(passage("tea", 0), passage("cake", 1, episode="e")).passages
    table.put(passage("tea", 0, seq=2, episode="e"), None)
    table.put(passage("cake", 1, seq=2, episode="f"), None)
    assert [row.text for row in table.of_episode("e")] == ["tea"]
    assert table.of_episode("unknown") == []


def test_speakers_are_found_by_a_word_of_their_name():
    """One word of a name is enough, and two may share it."""
    rows = [passage("x", number, speaker=name) for number, name in enumerate(["Ann Lee", "Bo Lee"])]
    table = cache_of(*rows).passages
    assert table.named({"lee"}) == ["Ann Lee", "Bo Lee"]
    assert table.named({"ann", "x"}) == ["Ann Lee"]


def test_passages_stop_being_valid_when_they_say_so():
    """Before the time of its invalidation a passage is valid."""
    table = cache_of(passage("tea", invalid_at="2024-05-02T12:00:00Z"), passage("cake", 1)).passages
    assert table.shown(View(MAY_FIRST_MS)).tolist() == [True, True]
    assert table.shown(View(MAY_FIRST_MS + DAY_MS)).tolist() == [False, True]


def test_questions_are_marked():
    """The question marks of several scripts count."""
    rows = [passage(text, number) for number, text in enumerate(["a?", "b", "c？", "d؟"])]
    assert cache_of(*rows).passages.asks.tolist() == [True, False, True, True]


def test_facts_are_found_by_words_best_first():
    """The fact that shares most words comes first, with its score."""
    facts = cache_of(fact("Ann plays chess"), fact("Ann plays chess on Mondays"), fact("Bo swims"))
    found = facts.facts.lexical("chess on mondays", 10)
    assert facts_of(found) == ["Ann plays chess on Mondays", "Ann plays chess"]
    assert found[0][1] > found[1][1] > 0


def test_similar_facts_are_scored_as_graphiti_does():
    """The score is (1 + cosine) / 2, and rows without a vector are never similar."""
    table = cache_of(fact("no vector")).facts
    for place in range(3):
        table.put(fact(f"fact {place}"), vector(place))
    found = table.similar(one_hot(1), 10, 0.5)
    assert found[0][0].fact == "fact 1"
    assert [score for _, score in found] == pytest.approx([1, 0.5, 0.5])
    assert facts_of(table.similar(one_hot(1), 10, 0.6)) == ["fact 1"]


def test_a_filter_does_not_shorten_the_answer():
    """The limit counts what the caller's filter lets through."""
    table = cache_of().facts
    for number in range(20):
        table.put(fact(f"fact {number}"), vector(0))
    found = table.similar(one_hot(0), 2, 0.6, lambda row: int(row.fact.split()[1]) >= 17)
    assert facts_of(found) == ["fact 17", "fact 18"]


def test_facts_are_found_by_their_ends():
    """Direction counts between two entities, not at one."""
    ends = {"source_uuid": uuid_of("a"), "target_uuid": uuid_of("b")}
    back = {"source_uuid": uuid_of("b"), "target_uuid": uuid_of("a")}
    loop = {"source_uuid": uuid_of("a"), "target_uuid": uuid_of("a")}
    table = cache_of(fact("to", **ends), fact("back", **back), fact("self", **loop)).facts
    assert [row.fact for row in table.between(uuid_of("a"), uuid_of("b"))] == ["to"]
    assert [row.fact for row in table.touching(uuid_of("a"))] == ["to", "back", "self"]
    assert table.touching("unknown") == []


def test_superseded_facts_are_not_valid():
    """A fact that has expired is hidden at any time, an invalid one since it is."""
    table = cache_of(
        fact("holds"),
        fact("expired", expired_at="2024-06-01T00:00:00Z"),
        fact("ended", invalid_at="2024-05-01T00:00:00Z"),
        fact("ends", invalid_at="2024-06-01T00:00:00+00:00"),
    ).facts
    assert table.shown(View(MAY_FIRST_MS), {}).tolist() == [True, False, False, True]


def test_many_rows_at_once_are_as_one_by_one():
    """New rows, and rows that come again with other words, end up the same in one go."""
    rows = [
        entity(f"word{number % 7}", uuid=uuid_of(number % 20), seq=number) for number in range(60)
    ]
    rows.insert(30, entity("late", uuid=uuid_of(3), seq=0))
    one, many = cache_of(*rows).entities, cache_of().entities
    many.put_all((row, None) for row in rows)
    for number in range(7):
        found = many.lexical(f"word{number}", 99)
        assert found == one.lexical(f"word{number}", 99)
        assert found
    assert many.lexical("late", 9) == []
    assert many.nbytes == one.nbytes


def test_entities_are_found_by_name_whatever_its_case():
    """Blanks around a name and its case do not count; the name before a change is forgotten."""
    table = cache_of(entity("Ann "), entity("IT")).entities
    assert [row.uuid for row in table.by_name(" it")] == [uuid_of("IT")]
    table.put(entity("Anna", uuid=uuid_of("Ann "), seq=2), None)
    assert table.by_name("ann") == []
    assert [row.name for row in table.by_name("ANNA")] == ["Anna"]


def test_an_entity_named_like_a_stop_word_is_found_by_it():
    """The word "IT" is a name, and asking for it alone finds it."""
    table = cache_of(entity("IT", summary="a department"), entity("Ann")).entities
    assert [row.name for row, _ in table.lexical("it", 5)] == ["IT"]


def test_unknown_uuids_are_left_out():
    """Rows come in the order they were asked for."""
    table = cache_of(entity("Ann"), entity("Bo")).entities
    found = table.by_uuid([uuid_of("Bo"), "unknown", uuid_of("Ann")])
    assert [row.name for row in found] == ["Bo", "Ann"]


def test_sizes_grow_with_the_rows():
    """The pool is told what a table takes."""
    assert cache_of(passage("tea " * 1_000)).nbytes > cache_of(passage("tea")).nbytes + 3_000
