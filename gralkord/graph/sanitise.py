"""What a language model answers, made fit for the graph.

A model may return blank names, control characters, objects where a text was asked for, or dates
that no calendar has. Some would fail the write of a whole episode, others are never found again.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from gralkord.clock import to_iso
from gralkord.models import parse_time

MAX_NAME_CHARS: Final = 250
MAX_FACT_CHARS: Final = 2_000
MAX_TEXT_CHARS: Final = 20_000
MAX_ATTRIBUTE_CHARS: Final = 250
MAX_ATTRIBUTE_ITEMS: Final = 50
DEFAULT_RELATION: Final = "RELATES_TO"
_INT64: Final = 2**63

# Tab and line feed are text; other control characters and lone surrogates are not.
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_BLANKS = re.compile(r"\s+")
# Signs that take no room and change no word: soft hyphen, zero-width blank, word joiner, byte order
# mark. Joiners stay, for emoji and whole scripts need them.
_INVISIBLE: Final = re.compile("[\u00ad\u200b\u2060\ufeff]")
_NOT_WORD = re.compile(r"\W+")


def clean_text(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Return *text* without control characters, surrogates and blanks around, cut at *limit*."""
    return _UNFIT.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip()[:limit].rstrip()


def clean_name(name: str) -> str:
    """Return *name* on one line, without blanks around it; the index finds no other.

    Returns:
        At most 250 characters; empty if nothing is left that can be seen.
    """
    visible = _INVISIBLE.sub("", clean_text(name))
    return _BLANKS.sub(" ", visible).strip()[:MAX_NAME_CHARS].rstrip()


def fold_name(name: str) -> str:
    """Return what all spellings of a name have in common.

    This is Unicode's compatibility caseless match with one blank between words: ``STRASSE`` is
    ``straße``, width does not count, and an accent may be a sign of its own. No language's own rule
    applies: the Turkish ``İ`` is an i with a dot above, not ``I``.
    """
    if name.isascii():
        return " ".join(name.casefold().split())
    folded = unicodedata.normalize("NFD", _INVISIBLE.sub("", name)).casefold()
    folded = unicodedata.normalize("NFKD", folded).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def clean_answer(stage: str, answer: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Return a model's *answer* fit for the graph.

    Args:
        stage: Name of the prompt that was answered.
        answer: An object that the prompt's schema accepts.
        fields: Names of the schema's fields; others are dropped.
    """
    known = {name: value for name, value in answer.items() if name in fields}
    if stage.endswith(".extract_fields"):
        return known  # names within it are an ontology's; values are cleaned one by one
    if stage.endswith(".extract_attributes"):
        return {name: clean_attribute(value) for name, value in known.items()}
    return _object(known)


def _object(answer: Mapping[str, Any]) -> dict[str, Any]:
    fit: dict[str, Any] = {}
    for name, value in answer.items():
        if name in {"valid_at", "invalid_at"}:
            fit[name] = _time(value)
        elif name == "extracted_entities":
            fit[name] = [item for item in map(_entity, value) if item["name"]]
        elif name == "edges":
            fit[name] = [item for item in map(_fact, value) if all(item[part] for part in _NEEDED)]
        else:
            fit[name] = _clean(value)
    return fit


def _entity(item: Mapping[str, Any]) -> dict[str, Any]:
    return _object(item) | {"name": clean_name(item["name"])}


_NEEDED: Final = ("source_entity_name", "target_entity_name", "fact")


def _fact(item: Mapping[str, Any]) -> dict[str, Any]:
    return _object(item) | {
        "source_entity_name": clean_name(item["source_entity_name"]),
        "target_entity_name": clean_name(item["target_entity_name"]),
        "fact": clean_text(item["fact"], MAX_FACT_CHARS),
        "relation_type": _relation(item["relation_type"]),
    }


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return _number(value)


def _number(value: Any) -> Any:
    """Return a number or boolean, ``None`` for what no number of the graph can be."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) and abs(value) < _INT64 else None


def _relation(name: str) -> str:
    return _NOT_WORD.sub("_", clean_name(name)).strip("_") or DEFAULT_RELATION


def _time(value: Any) -> str | None:
    """Return a time that the graph library's own reading of it cannot fail on."""
    if not isinstance(value, str):
        return None
    try:
        moment = parse_time(value)
    except ValueError:
        return None
    return to_iso(moment) if isinstance(moment, datetime) else None


def clean_attribute(value: Any) -> Any:
    """Return a value that a node can hold: text, number, boolean, or a list of them."""
    if isinstance(value, str):
        return clean_text(value, MAX_ATTRIBUTE_CHARS)
    if isinstance(value, Mapping):
        return _flat(value)
    if isinstance(value, (list, tuple)):
        items = [
            _flat(item) if isinstance(item, (Mapping, list, tuple)) else clean_attribute(item)
            for item in value[:MAX_ATTRIBUTE_ITEMS]
        ]
        return [item for item in items if item is not None]
    return _number(value)


def _flat(value: Any) -> str:
    """Return a nested value as text: ``city: Rome; zip: 00100``."""
    if isinstance(value, Mapping):
        text = "; ".join(f"{name}: {_flat(part)}" for name, part in value.items())
    elif isinstance(value, (list, tuple)):
        text = ", ".join(_flat(part) for part in value)
    else:
        text = "" if value is None else str(value)
    return clean_text(text, MAX_ATTRIBUTE_CHARS)
