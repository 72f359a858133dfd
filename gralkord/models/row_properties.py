"""What the properties of a row of an export have to be, so that all else can rely on them.

A file may have been edited. One wrong value in the graph would fail each question, export and
erasure of its group from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, Literal

import orjson

from gralkord.clock import to_iso
from gralkord.models.base import parse_time

Kind = Literal["episode", "entity", "mention", "fact", "passage"]
Value = str | int | float | bool | list[str | int | float | bool]

FORMS: Final = ("conversation", "document", "structured_record")
NOTE_KINDS: Final = ("learning", "generalisation", "memory")

_INT64: Final = 2**63


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")  # noqa: TRY004
    return value


def _whole(value: Any) -> Value:
    if type(value) is not int:
        raise ValueError("must be a whole number")
    return value


def _number(value: Any) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")  # noqa: TRY004
    return value


def _truth(value: Any) -> Value:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004
    return value


def _texts(value: Any) -> Value:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("must be a list of texts")
    return value


def _time(value: Any) -> Value:
    moment: datetime = parse_time(value)
    # Times are compared as they are stored, which needs a zone.
    return value if datetime.fromisoformat(value.strip()).tzinfo else to_iso(moment)


def _note_kind(value: Any) -> Value:
    if value not in NOTE_KINDS:
        raise ValueError(f"must be one of {', '.join(NOTE_KINDS)}")
    return str(value)


def _form(value: Any) -> Value:
    if value not in FORMS:
        raise ValueError(f"must be one of {', '.join(FORMS)}")
    return str(value)


def _json_object(value: Any) -> Value:
    try:
        found = orjson.loads(_text(value))
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("must be a JSON object as a text")  # noqa: TRY004
    return str(value)


_Check = Callable[[Any], Value]


def _all(check: _Check, names: str) -> dict[str, _Check]:
    return dict.fromkeys(names.split(), check)


# Those that a kind of row cannot be without.
_NEEDED: Final[Mapping[Kind, dict[str, _Check]]] = {
    "episode": _all(_text, "name content") | _all(_time, "valid_at"),
    "entity": _all(_text, "name"),
    "mention": {},
    "fact": _all(_text, "name fact"),
    "passage": _all(_text, "text speaker role agent session turn_id")
    | _all(_whole, "ordinal part created_ms")
    | _all(_time, "event_time"),
}
# Those that gralkord reads; others are attributes, and may be anything.
_KNOWN: Final[Mapping[Kind, dict[str, _Check]]] = {
    "episode": _NEEDED["episode"]
    | _all(_time, "created_at")
    | _all(_text, "source source_description lens")
    | _all(_texts, "entity_edges")
    | _all(_whole, "valid_ms entities facts notes")
    | _all(_truth, "done"),
    "entity": _NEEDED["entity"]
    | _all(_text, "summary")
    | _all(_note_kind, "note_kind")
    | _all(_time, "created_at")
    | _all(_texts, "handles told_in"),
    "mention": _all(_time, "created_at"),
    "fact": _NEEDED["fact"]
    | _all(_time, "created_at valid_at invalid_at expired_at reference_time")
    | _all(_time, "superseded_at superseded_invalid_at withdrawn_at withdrawn_until")
    | _all(_text, "superseded_by superseded_reason superseded_episode withdrawn_reason")
    | _all(_text, "replaced_by source offset")
    | _all(_note_kind, "note_kind")
    | _all(_texts, "episodes undone")
    | _all(_number, "confidence"),
    "passage": _NEEDED["passage"]
    | _all(_text, "source offset content_key place_key withdrawn_reason description")
    | _all(_form, "form")
    | _all(_texts, "through")
    | _all(_time, "invalid_at withdrawn_at withdrawn_until")
    | _all(_json_object, "metadata"),
}

# What gralkord reads of a note besides, by its kind; both its fact and its node have them.
_OF_NOTES: Final[Mapping[str, dict[str, _Check]]] = {
    "learning": _all(_text, "problem_kind approach lesson turn") | _all(_truth, "success"),
    "generalisation": _all(_whole, "level")
    | _all(_texts, "generalises taken_from")
    | _all(_text, "relation"),
    "memory": _all(_text, "memory_kind")
    | _all(_number, "importance")
    | _all(_texts, "tags")
    | _all(_time, "last_accessed")
    | _all(_json_object, "metadata"),
}


def _check_storable(value: Any) -> None:
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and "\x00" in one:
            raise ValueError("a NUL cannot be stored")
        if isinstance(one, int) and not -_INT64 <= one < _INT64:
            raise ValueError("does not fit into 64 bits")


def check_needed(kind: Kind, properties: Mapping[str, Any]) -> None:
    """Refuse properties without one that each row of this kind has.

    Raises:
        ValueError: One is missing or of another type.
    """
    article = "an" if kind[0] in "aeiou" else "a"
    for name, check in _NEEDED[kind].items():
        try:
            check(properties.get(name))
        except ValueError as error:
            raise ValueError(f"properties.{name}: {error} in {article} {kind}") from None


def check_property(kind: Kind, name: str, value: Any, note_kind: Any = None) -> Value:
    """Return a property as it is stored.

    Args:
        kind: What row has it.
        name: Its name.
        value: What came.
        note_kind: What note the row is of, if of one.

    Raises:
        ValueError: It cannot be stored, or is not what it has to be.
    """
    try:
        _check_storable(value)
        of_note = _OF_NOTES.get(note_kind, {}) if isinstance(note_kind, str) else {}
        check = _KNOWN[kind].get(name) or of_note.get(name)
        stored: Value = check(value) if check else value
    except ValueError as error:
        raise ValueError(f"properties.{name}: {error}") from None
    return stored
