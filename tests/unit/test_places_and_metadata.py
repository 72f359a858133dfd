"""What a capture says of where it comes from, and in its producer's words."""

from __future__ import annotations

import pytest

from gralkord.client.calls import read_capture
from gralkord.errors import InvalidInput
from gralkord.models import Capture
from gralkord.models.places import place_turn_id
from gralkord.turns.passages import passages_of
from gralkord.wire import read_model


def capture(text="Ada likes tea", **changes):
    """Return a capture as JSON values."""
    return {
        "session": "s1",
        "operator": "ada",
        "agent": "helper",
        "user": "Ada",
        "turn": [{"role": "user", "content": text}],
        "source": "notes.md",
        "offset": "12",
    } | changes


def id_of(text="Ada likes tea", **changes):
    """Return the id that a turn has by its place and words."""
    return place_turn_id(read_model(Capture, capture(text, **changes)))


def test_a_turn_is_known_by_its_place_and_words():
    """Operator, source, offset and words make the id; session, time and metadata do not."""
    same = {"session": "s2", "event_time": "2024-05-01", "metadata": {"a": 1}}
    assert id_of() == id_of(**same)
    others = [
        id_of("Ada likes coffee"),
        id_of(operator="bob"),
        id_of(source="other.md"),
        id_of(offset="13"),
        id_of(turn=[{"role": "assistant", "content": "Ada likes tea"}]),
    ]
    assert len({id_of(), *others}) == 6


@pytest.mark.parametrize("missing", ["source", "offset"])
def test_half_a_place_is_none(missing):
    """A source without an offset, or the other way round, gives no id."""
    assert id_of(**{missing: None}) is None


def test_the_client_names_a_turn_by_its_place():
    """A turn without an id gets that of its place; an id of its own goes before."""
    assert read_capture(capture())[0]["turn_id"] == id_of()
    assert read_capture(read_model(Capture, capture()))[0]["turn_id"] == id_of()
    assert read_capture(capture(turn_id="mine"))[0]["turn_id"] == "mine"
    assert read_capture(capture(offset=None))[0]["turn_id"] != id_of()


def test_metadata_is_kept_as_it_is():
    """Texts, numbers, truth values and lists of texts come through unchanged."""
    given = {"topic": "tea", "page": 3, "score": 0.5, "draft": False, "tags": ["a", "b"]}
    assert read_model(Capture, capture(metadata=given)).metadata == given


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({f"k{i}": 1 for i in range(33)}, "33 names, the limit is 32"),
        ({"a": "x" * 9_000}, "the limit is 8192 bytes"),
        ({"a": {"b": 1}}, "must be a text, a number"),
        ({"a": None}, "must be a text, a number"),
        ({"a": [1]}, "must be a text, a number"),
        ({"a": float("inf")}, "finite"),
        ({"a": 2**63}, "64 bits"),
        ({"a": "\x00"}, "control character"),
        ({" ": 1}, "blank"),
    ],
)
def test_metadata_that_cannot_be_stored_is_refused(metadata, message):
    """The refusal says what is wrong, and where."""
    with pytest.raises(InvalidInput, match=message) as refusal:
        read_model(Capture, capture(metadata=metadata))
    assert refusal.value.field == "metadata"


def test_every_passage_of_a_turn_carries_place_and_metadata():
    """Each of a turn's passages has what stands for its words, and the metadata as JSON."""
    body = capture("x " * 1_500) | {
        "event_time": "2024-05-01T09:30:00+02:00",
        "ordinal": 1,
        "turn_id": "t",
        "messages": capture("x " * 1_500)["turn"],
        "metadata": {"page": 3},
    }
    found = passages_of("g", body)
    assert len(found) == 2
    assert {(one.metadata, one.content) for one in found} == {('{"page":3}', found[0].content)}
    assert found[0].content is not None
