from __future__ import annotations

import json
from datetime import timedelta

import pytest
from rows_of_tests import MAY_FIRST, cache_of, fact, passage, uuid_of

from gralkord.errors import InvalidInput
from gralkord.graph.scope import Scope
from gralkord.graph.validity import View
from gralkord.groups import Group
from gralkord.models.filters import MAX_ANY_OF, Filters
from gralkord.recall.query import QueryReader
from gralkord.recall.search import Searched, search
from gralkord.wire import read_model

NOW_MS = int(MAY_FIRST.timestamp() * 1000) + 86_400_000
READER = QueryReader()


def scope_of(**filters) -> Scope:
    return Scope.of(read_model(Filters, filters))


def metadata(**values) -> str:
    return json.dumps(values)


def ask(question: str, cache, limit: int = 10, **filters) -> list:
    query = READER.read(question, MAY_FIRST)
    group = Searched(Group("t", "ann", "default"), cache, None, scope=scope_of(**filters))
    return search(query, [group], limit, View(NOW_MS))


def texts(memories) -> list[str]:
    return [memory.text for memory in memories]


@pytest.mark.parametrize(
    ("wanted", "value", "fits"),
    [
        ("red", "red", True),
        ("red", "Red", False),
        (1, 1.0, True),
        (1, True, False),
        (True, True, True),
        (1, "1", False),
        (["red", 2], 2, True),
        (["red", 2], "blue", False),
        ("red", ["blue", "red"], True),
        (["green"], ["blue", "red"], False),
        ({"gte": 2, "lte": 5}, 2, True),
        ({"gte": 2, "lte": 5}, 5.0, True),
        ({"gte": 2, "lte": 5}, 5.1, False),
        ({"gte": 2}, "3", False),
        ({"gte": 0}, True, False),
        ({"lte": 5}, -(10**12), True),
        ({"gte": "b", "lte": "d"}, "c", True),
        ({"gte": "b", "lte": "d"}, "da", False),
        ({"gte": "b"}, 3, False),
        ({"gte": "2024-05-01", "lte": "2024-05-31"}, "2024-05-31T23:59:00", True),
        ({"gte": "2024-05-01", "lte": "2024-05-31"}, "2024-06-01", False),
        ({"lte": "2024-05-31T12:00:00+02:00"}, "2024-05-31T10:00:00Z", True),
        ({"lte": "2024-05-31"}, "2024-05-31 or so", False),
        ({"gte": 3}, [1, 2, 3], True),
    ],
)
def test_metadata_is_as_it_was_asked_for(wanted, value, fits):
    """Values are equal by type, of lists any fits, and ranges hold their ends."""
    row = passage("words", metadata=metadata(it=value))
    assert scope_of(metadata={"it": wanted}).accepts(row) is fits


def test_what_is_not_told_does_not_fit():
    """A passage without the name, metadata, or source fits no filter on it."""
    assert not scope_of(metadata={"it": 1}).accepts(passage("words"))
    assert not scope_of(metadata={"it": {"lte": 1}}).accepts(
        passage("words", metadata=metadata(other=1))
    )
    assert not scope_of(source="log").accepts(passage("words"))
    for said in ("{", "[1]", "1", '{"it": null}', '{"it": {"it": 1}}'):
        assert not scope_of(metadata={"it": 1}).accepts(passage("words", metadata=said))


def test_all_that_is_named_must_fit():
    """Speaker, source, session, time and metadata are asked for together."""
    row = passage("words", speaker="Ann", session="s", source="log", metadata=metadata(it=1))
    fitting = {
        "speaker": ["Bo", "Ann"],
        "session": "s",
        "source": "log",
        "event_time": {"gte": "2024-05-01", "lte": "2024-05-01"},
        "metadata": {"it": 1},
    }
    assert scope_of(**fitting).accepts(row)
    others = {
        "speaker": "Bo",
        "session": "t",
        "source": "logs",
        "event_time": {"lte": "2024-04-30"},
        "metadata": {"it": 2},
    }
    for name, value in others.items():
        assert not scope_of(**fitting | {name: value}).accepts(row)


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"metadata": {"it": []}}, "metadata"),
        ({"metadata": {"it": None}}, "metadata"),
        ({"metadata": {"it": {}}}, "metadata"),
        ({"metadata": {"it": {"gt": 1}}}, "metadata"),
        ({"metadata": {"it": {"gte": 1, "lte": "2"}}}, "metadata"),
        ({"metadata": {"it": {"gte": True}}}, "metadata"),
        ({"metadata": {"it": {"gte": [1]}}}, "metadata"),
        ({"metadata": {"it": [[1]]}}, "metadata"),
        ({"metadata": {"it": float("nan")}}, "metadata"),
        ({"metadata": {"it": 10**400}}, "metadata"),
        ({"metadata": {" ": 1}}, "metadata"),
        ({"metadata": {str(at): at for at in range(33)}}, "metadata"),
        ({"metadata": {"it": list(range(MAX_ANY_OF + 1))}}, "metadata"),
        ({"speaker": []}, "speaker"),
        ({"speaker": [" "]}, "speaker.0"),
        ({"source": 3}, "source"),
        ({"event_time": {}}, "event_time"),
        ({"event_time": {"gte": "May"}}, "event_time.gte"),
        ({"boat": 1}, "boat"),
    ],
)
def test_what_is_no_filter_is_refused_by_name(filters, field):
    """Nothing is read as something else."""
    with pytest.raises(InvalidInput) as refusal:
        read_model(Filters, filters)
    assert refusal.value.field == field


def test_no_filter_is_no_scope():
    """Filters that let everything through cost nothing."""
    assert Scope.of(None) is None
    assert Scope.of(Filters()) is None


def test_filters_hold_before_the_best_are_chosen():
    """Hundreds of better passages that do not fit take no place from the one that does."""
    rows = [passage("boat boat boat", at, metadata=metadata(of="bo")) for at in range(300)]
    rows.append(passage("the harbour has a boat", 0, session="t", metadata=metadata(of="ann")))
    found = ask("boat", cache_of(*rows), limit=1, metadata={"of": "ann"})
    assert texts(found) == ["the harbour has a boat"]


def test_a_time_is_asked_for_to_the_millisecond():
    """Both ends of the range are within it."""
    rows = [
        passage(f"boat {at}", at, session=str(at), at=MAY_FIRST + timedelta(milliseconds=at))
        for at in range(5)
    ]
    found = ask(
        "boat",
        cache_of(*rows),
        event_time={
            "gte": MAY_FIRST + timedelta(milliseconds=1),
            "lte": MAY_FIRST + timedelta(milliseconds=3),
        },
    )
    assert sorted(texts(found)) == ["boat 1", "boat 2", "boat 3"]


def test_a_fact_fits_if_all_that_its_episode_holds_does():
    """From an episode in which others spoke, too, nobody can tell whose words a fact is."""
    rows = [
        passage("I sold it", 0, speaker="Ann", episode="of-ann"),
        passage("I rent mine", 0, speaker="Ann", session="t", episode="of-both"),
        passage("Do you", 1, speaker="Bo", session="t", episode="of-both"),
        fact("Ann sold the boat", episodes=("of-ann",)),
        fact("Ann rents the boat", episodes=("of-both",)),
        fact("Ann paints the boat", episodes=("of-both", "of-ann")),
        fact("Ann has the boat", episodes=("of-nobody",)),
        fact("Ann owns the boat"),
    ]
    found = ask("boat", cache_of(*rows), speaker="Ann")
    told = {memory.text for memory in found if memory.kind == "fact"}
    assert told == {"Ann sold the boat", "Ann paints the boat"}
    (painted,) = [memory for memory in found if memory.text == "Ann paints the boat"]
    assert painted.passages == [rows[0].uuid]


def test_a_note_of_one_turn_fits_by_that_turn():
    """What else is in the episode does not matter."""
    rows = [
        passage("Mend it", 0, episode="e", metadata=metadata(of="ann")),
        passage("Paint it", 1, episode="e", metadata=metadata(of="bo")),
        fact(
            "Tar the boat",
            note_kind="learning",
            episodes=("e",),
            attributes={"turn": "s-0", "success": True},
        ),
        fact("Scrape the boat", note_kind="learning", episodes=("e",), attributes={"turn": "s-1"}),
    ]
    found = ask("boat", cache_of(*rows), metadata={"of": "ann"})
    assert [each.text for each in found if each.kind == "learning"] == ["Tar the boat"]


def test_what_a_memory_says_of_itself_goes_before_its_passages():
    """A stored memory has metadata, a source and a time of its own."""
    stored = {
        "note_kind": "memory",
        "source": "notebook",
        "reference_time": "2024-04-01T00:00:00Z",
        "attributes": {"metadata": metadata(of="ann")},
    }
    rows = [
        fact("The boat is red", **stored),
        fact("The boat is old", **stored | {"attributes": {"metadata": metadata(of="bo")}}),
        fact("The boat is here", **stored | {"source": "log"}),
        fact("The boat is wet", **stored | {"reference_time": "2024-03-01T00:00:00Z"}),
        fact("The boat is new", **stored | {"reference_time": None}),
        fact("The boat is long", **stored | {"attributes": {}}),
    ]
    filters = {
        "metadata": {"of": "ann"},
        "source": "notebook",
        "event_time": {"gte": "2024-04-01", "lte": "2024-04-01"},
    }
    assert texts(ask("boat", cache_of(*rows), **filters)) == ["The boat is red"]
    assert ask("boat", cache_of(*rows), **filters, speaker="Ann") == []


def test_a_scope_follows_what_changes():
    """Rows that come, are understood or get other metadata count in the next question."""
    cache = cache_of(passage("boat one", 0, metadata=metadata(of="ann")))
    filters = {"metadata": {"of": "ann"}}
    assert texts(ask("boat", cache, **filters)) == ["boat one"]
    cache.passages.put(passage("boat two", 1, metadata=metadata(of="ann")), None)
    cache.passages.put(passage("boat three", 2, metadata=metadata(of="bo")), None)
    cache.facts.put(fact("the boat sank", episodes=("e",)), None)
    assert sorted(texts(ask("boat", cache, **filters))) == ["boat one", "boat two"]
    understood = passage("boat two", 1, seq=2, episode="e", metadata=metadata(of="ann"))
    cache.passages.put(understood, None)
    assert "the boat sank" in texts(ask("boat", cache, **filters))
    cache.passages.put(passage("boat one", 0, seq=3, metadata=metadata(of="bo")), None)
    assert "boat one" not in texts(ask("boat", cache, **filters))


def test_many_scopes_do_not_pile_up():
    """Only the masks of the last few are kept."""
    cache = cache_of(passage("boat", metadata=metadata(it=1)))
    for at in range(100):
        assert bool(ask("boat", cache, metadata={"it": at})) is (at == 1)
    assert len(cache.masks._passages) <= 8


def test_each_row_is_judged_as_the_scope_says():
    """What is found for all rows at once is what each row fits by itself."""
    rows = []
    for at in range(60):
        said = metadata(n=at % 7) if at % 3 else None
        episode = f"e{at // 5}" if at % 2 else None
        rows.append(passage(f"boat {at}", at, speaker="AB"[at % 2], episode=episode, metadata=said))
    facts = [
        fact(
            f"boat fact {at}",
            uuid=uuid_of(at),
            episodes=(f"e{at % 12}",),
            reference_time=None if at % 4 else "2024-05-01T12:00:00Z",
            source="log" if at % 5 == 0 else None,
        )
        for at in range(40)
    ]
    cache = cache_of(*rows, *facts)
    scopes = [
        scope_of(metadata={"n": [1, 2]}),
        scope_of(speaker="B", metadata={"n": {"gte": 2}}),
        scope_of(speaker="B", event_time={"gte": "2024-05-01"}),
        scope_of(source="log"),
        scope_of(session="s", event_time={"lte": "2024-04-01"}),
    ]
    for scope in scopes:
        assert cache.masks.passages(cache.passages, scope).tolist() == [
            scope.accepts(row) for row in rows
        ]
        assert cache.masks.facts(cache.facts, cache.passages, scope).tolist() == [
            scope.accepts_fact(row, cache.passages.of_episode) for row in facts
        ]
