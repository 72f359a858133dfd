"""What is ingested is cut into turns, and refused in plain words."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gralkord.errors import InvalidInput
from gralkord.models.ingest import MAX_CONTENT_BYTES, Ingest
from gralkord.models.ingested import MAX_TURNS, TURN_CHARS, read_ingest
from gralkord.wire import read_model

BASE = {"operator": "ann", "source_description": "the kitchen's handbook"}


def cut(content, **fields):
    """Return what is to be captured of something ingested."""
    return read_ingest(read_model(Ingest, {**BASE, "content": content, **fields}), "new")


def texts(whole):
    return [turn.turn[0].content for turn in whole.turns]


def said(whole):
    return [[(m.speaker, m.role, m.content) for m in turn.turn] for turn in whole.turns]


@given(
    st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=200), st.integers(1, 200)
)
def test_a_document_is_kept_whole(text, times):
    """Whatever the text, its turns joined are the text but for blanks alone, and none is long."""
    document = f"x{text}\n" * times
    whole = cut(document)
    assert "".join(texts(whole)).split() == document.split()
    assert all(len(one) <= TURN_CHARS for one in texts(whole))


@pytest.mark.parametrize("kind", ["document", "conversation", "structured_record"])
def test_a_byte_order_mark_is_no_word_of_it(kind):
    """Files of some systems begin with one, and their first speaker has no other name for it."""
    whole = cut("\ufeffEve: tea", kind=kind)
    assert "\ufeff" not in str(whole)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("structured_record", [1] * 300_000),
        ("conversation", "Eve: tea\n" + " " * 800_000),
        ("conversation", "Eve: tea\n" + ("a" + " " * 200 + "b\n") * 1_000),
    ],
    ids=["members", "blanks", "wide"],
)
def test_the_time_to_read_it_grows_with_its_length_only(kind, content):
    """A megabyte of anything takes no minutes, for which all others would wait."""
    began = time.process_time()
    assert cut(content, kind=kind).turns
    assert time.process_time() - began < 4


def test_a_document_is_cut_in_front_of_a_heading():
    """A chapter stays together where it can, else a paragraph does."""
    whole = cut("# Tea\n" + "leaf " * 1000 + "\n\nmore\n## Milk\n" + "white " * 800, source="k.md")
    assert [one[:7] for one in texts(whole)] == ["# Tea\nl", "## Milk"]
    assert [(turn.source, turn.offset) for turn in whole.turns] == [("k.md", "#1"), ("k.md", "#2")]
    assert whole.turns[0].turn[0].speaker == "k.md"


def test_turns_of_a_source_are_known_by_their_places_and_others_by_their_id():
    """The same words of a source are the same turns whatever the id; without a source it counts."""
    one, other = cut("tea", source="k.md", id="1"), cut("tea", source="k.md", id="2")
    assert (one.turns, one.version) == (other.turns, other.version)
    changed = cut("milk", source="k.md")
    assert (changed.session, changed.version == one.version) == (one.session, False)
    first, second, same = cut("tea", id="1"), cut("tea", id="2"), cut("milk", id="1")
    assert first.turns[0].turn_id == same.turns[0].turn_id != second.turns[0].turn_id
    assert first.session != second.session
    assert cut("tea", id="1", operator="bob").session != first.session


def test_lines_become_messages_of_their_speakers():
    """What no short name and colon begins goes on with the words before; the agent assists."""
    whole = cut(
        "Ann: Look at\nhttps://example.com\n\nBob Lee:\nThanks\nAda:  I see",
        kind="conversation",
        agent="Ada",
    )
    assert said(whole) == [
        [
            ("Ann", "user", "Look at\nhttps://example.com\n"),
            ("Bob Lee", "user", "\nThanks"),
            ("Ada", "assistant", "I see"),
        ]
    ]
    assert (whole.turns[0].user, whole.turns[0].agent) == ("Ann", "Ada")


def test_where_the_agent_acts_a_turn_is_an_exchange():
    """What an agent did belongs to what it was asked, so that a turn can be summed up."""
    talk = [
        {"speaker": "Ann", "content": "Where is my bike?"},
        {"role": "behaviour", "content": "looked into the shed"},
        {"role": "assistant", "content": "In the shed."},
        {"speaker": "Ann", "content": "And my hat?"},
    ]
    assert [len(turn.turn) for turn in cut(talk, kind="conversation", agent="Ada").turns] == [3, 1]
    assert len(cut(talk[::3], kind="conversation").turns) == 1


def test_a_long_record_is_cut_into_records():
    """Each turn of a list is a list, each of an object an object, one member a line."""
    rows = [{"name": f"kettle {n}", "note": "x" * 90} for n in range(200)]
    for content in (rows, json.dumps(rows)):
        found = [json.loads(one) for one in texts(cut(content, kind="structured_record"))]
        assert [row for part in found for row in part] == rows
    members = {str(n): "y" * 500 for n in range(40)}
    found = [json.loads(one) for one in texts(cut(members, kind="structured_record"))]
    assert {name: value for part in found for name, value in part.items()} == members
    assert len(found) > 2
    assert texts(cut("a;b\n1;2", kind="structured_record")) == ["a;b\n1;2"]


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"content": 3}, "content", "a text, a list or an object"),
        ({"content": " \n"}, "content", "is empty"),
        ({"content": {}, "kind": "structured_record"}, "content", "is empty"),
        ({"content": ["x"]}, "content", "must be a text in a document"),
        ({"content": {"a": 1}, "kind": "conversation"}, "content", "lines `Speaker: words`"),
        ({"content": "a\x00b"}, "content", "control character U+0000"),
        ({"content": "x" * (MAX_CONTENT_BYTES + 1)}, "content", "the limit is 1048576 bytes"),
        ({"content": "hello", "kind": "conversation"}, "content", "line 1 names no speaker"),
        ({"content": "Ann:\n ", "kind": "conversation"}, "content", "has no words"),
        ({"content": "x", "source_description": " "}, "source_description", "must not be blank"),
        ({"content": "x", "offset": "1"}, "offset", "goes with a source"),
        ({"content": "x", "source": "s", "offset": "é" * 121}, "offset", "the limit is 240 bytes"),
        ({"content": "x", "kind": "poem"}, "kind", "must be one of"),
        ({"content": {"a": {1, 2}}, "kind": "structured_record"}, "content", "as JSON"),
        (
            {"content": [{"content": "x"}], "kind": "conversation"},
            "content.0.speaker",
            "is missing",
        ),
        (
            {"content": [{"speaker": "A", "content": "x"}, "y"], "kind": "conversation"},
            "content.1",
            "must be an object",
        ),
        (
            {"content": [{"speaker": "A", "content": "x", "role": "system"}], "kind": "conversation"},
            "content.0.role",
            "must be one of",
        ),
        ({"content": {"a": "x" * 262_144}, "kind": "structured_record"}, "content", "be parted"),
    ],
)  # fmt: skip
def test_what_cannot_be_ingested_is_refused(fields, field, words):
    """The field, what is wrong with it, and the limit if there is one."""
    with pytest.raises(InvalidInput) as refusal:
        cut(**fields)
    assert (refusal.value.field, words in refusal.value.message) == (field, True)
    assert "xxxx" not in refusal.value.message


def test_too_many_turns_are_refused():
    """A talk of very many exchanges has to come in parts."""
    talk = [
        {"speaker": "Ann", "content": "?"},
        {"speaker": "Ada", "role": "behaviour", "content": "!"},
    ] * (MAX_TURNS + 1)
    with pytest.raises(InvalidInput) as refusal:
        cut(talk, kind="conversation")
    assert (refusal.value.limit, "1001 turns" in refusal.value.message) == (MAX_TURNS, True)
