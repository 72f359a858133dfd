"""Where words come from: a source and an offset in it name a place, and a place holds one turn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from gralkord.models.turns import Capture

_PREFIX: Final = "place-"


def place_key(source: str, offset: str) -> str:
    """Return what stands for a place in an index, whatever is in its names."""
    return _digest(source, offset)


def content_key(messages: Iterable[Mapping[str, Any]]) -> str:
    """Return what stands for the words of a turn: who says what.

    Args:
        messages: With `role` and `content`, and `speaker` where it is named.
    """
    said = [[each["role"], each["content"], each.get("speaker")] for each in messages]
    return _digest(orjson.dumps(said).decode())


def place_turn_id(capture: Capture) -> str | None:
    """Return the id of a turn that is known by its place and words; None if it has no place.

    The same words at the same place of the same operator are one turn, however often it is sent.
    """
    if capture.source is None or capture.offset is None:
        return None
    messages = [message.model_dump() for message in capture.turn]
    place = _digest(capture.operator, capture.source, capture.offset, content_key(messages))
    return _PREFIX + place


def _digest(*parts: str) -> str:
    # Ids have no control characters, so that no two lists of them are joined to the same text.
    return hashlib.blake2b("\x00".join(parts).encode(), digest_size=16).hexdigest()
