"""A file that was edited brings no note that its readers cannot read."""

from __future__ import annotations

import pytest

from gralkord.errors import InvalidInput
from gralkord.models.transfer import TransferRow
from gralkord.wire import read_model

HOSTILE = [
    ("learning", "success", "yes"),
    ("learning", "lesson", 5),
    ("learning", "turn", ["t"]),
    ("generalisation", "level", "high"),
    ("generalisation", "generalises", "one"),
    ("generalisation", "taken_from", 1),
    ("memory", "importance", "much"),
    ("memory", "importance", True),
    ("memory", "tags", 5),
    ("memory", "tags", [1]),
    ("memory", "memory_kind", [1]),
    ("memory", "metadata", "no JSON"),
    ("memory", "metadata", "[]"),
    ("memory", "last_accessed", "yesterday"),
]


def row(kind, note_kind, **properties):
    """Return a row of an export: a note's node, or its fact."""
    told = {"name": "Tea", "fact": "Ann likes tea."} if kind == "fact" else {"name": "Tea"}
    if note_kind:
        told["note_kind"] = note_kind
    ends = {"source": "n", "target": "n" if note_kind else "e"} if kind == "fact" else {}
    return {"kind": kind, "operator": "ann", "uuid": "n", "properties": told | properties, **ends}


@pytest.mark.parametrize(("note_kind", "name", "value"), HOSTILE)
def test_what_is_read_of_a_note_has_its_type(note_kind, name, value):
    """Both of its fact and its node; in another row the same name is an attribute of anybody's."""
    for kind in ("fact", "entity"):
        with pytest.raises(InvalidInput, match=name):
            read_model(TransferRow, row(kind, note_kind, **{name: value}))
        other = row(kind, None, **{name: value}) | {"uuid": "o"}
        assert read_model(TransferRow, other).properties[name] == value


def test_notes_as_they_are_exported_are_taken():
    """Each of their own attributes, and any other one."""
    for note_kind, told in {
        "learning": {"success": False, "problem_kind": "a", "approach": "b", "lesson": "c"},
        "generalisation": {"level": 2, "generalises": ["x"], "relation": "broadens"},
        "memory": {"importance": 1, "tags": [], "memory_kind": "semantic", "metadata": "{}"},
    }.items():
        read = read_model(TransferRow, row("fact", note_kind, mood=1.5, **told))
        assert read.properties.items() >= told.items()
