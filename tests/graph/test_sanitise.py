from __future__ import annotations

import math

import pytest

from gralkord.graph.sanitise import MAX_ATTRIBUTE_CHARS, MAX_NAME_CHARS, clean_answer, clean_name

EDGE = {
    "source_entity_name": " Ann ",
    "target_entity_name": "Acme\x00",
    "relation_type": "works at",
    "fact": "Ann works\x07 at Acme\ud800.",
    "valid_at": "2024-05-01",
    "invalid_at": "when pigs fly",
}


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("  Ann\n Smith ", "Ann Smith"),
        ("a\x00b\x1b\x7f", "ab"),
        ("\ud800x", "x"),
        (" \t\n", ""),
        ("_", "_"),
        ("n" * 1000, "n" * MAX_NAME_CHARS),
        ("👩‍💻 می‌خواهم", "👩‍💻 می‌خواهم"),
    ],
)
def test_names_are_one_visible_line(name, clean):
    """A name has no control characters, no blanks around it, and an end."""
    assert clean_name(name) == clean


def test_entities_without_a_name_are_dropped():
    """What has no name that can be seen is no entity."""
    answer = {
        "extracted_entities": [{"name": n, "entity_type_id": 0} for n in (" ", "\x00", "IT ")]
    }
    cleaned = clean_answer("extract_nodes.extract_message", answer, ["extracted_entities"])
    assert [each["name"] for each in cleaned["extracted_entities"]] == ["IT"]


def test_facts_are_made_fit():
    """Names, text and relation of a fact are cleaned; a time that is none is dropped."""
    cleaned = clean_answer("extract_edges.edge", {"edges": [EDGE], "extra": 1}, ["edges"])
    assert cleaned == {
        "edges": [
            {
                "source_entity_name": "Ann",
                "target_entity_name": "Acme",
                "relation_type": "works_at",
                "fact": "Ann works at Acme.",
                "valid_at": "2024-05-01T00:00:00Z",
                "invalid_at": None,
            }
        ]
    }


@pytest.mark.parametrize("part", ["source_entity_name", "target_entity_name", "fact"])
def test_facts_with_a_blank_part_are_dropped(part):
    """A fact needs two names and a text."""
    cleaned = clean_answer("extract_edges.edge", {"edges": [EDGE | {part: " \x00"}]}, ["edges"])
    assert cleaned == {"edges": []}


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", 7, ""])
def test_times_outside_the_calendar_are_dropped(time):
    """A time that UTC cannot hold would fail the whole episode later."""
    answer = {"valid_at": time, "invalid_at": "2024-05-01T10:00:00+02:00"}
    cleaned = clean_answer("extract_edges.extract_timestamps", answer, ["valid_at", "invalid_at"])
    assert cleaned == {"valid_at": None, "invalid_at": "2024-05-01T08:00:00Z"}


def test_attributes_are_flat_and_short():
    """Attributes become texts, numbers, booleans and lists of them; fields of no schema go."""
    answer = {
        "address": {"city": "Rome", "geo": {"lat": 41.9}},
        "phones": ["1", {"kind": "work", "number": "2"}, None, math.nan],
        "age": 41,
        "score": math.inf,
        "huge": 2**70,
        "member": True,
        "bio": "x" * 1000,
        "unknown": "y",
    }
    fields = set(answer) - {"unknown"}
    cleaned = clean_answer("extract_nodes.extract_attributes", answer, fields)
    assert cleaned == {
        "address": "city: Rome; geo: lat: 41.9",
        "phones": ["1", "kind: work; number: 2"],
        "age": 41,
        "score": None,
        "huge": None,
        "member": True,
        "bio": "x" * MAX_ATTRIBUTE_CHARS,
    }
