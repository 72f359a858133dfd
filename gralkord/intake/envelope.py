"""The envelope: what stands in an entry of the intake stream, and how it is read.

An entry has two fields, ``kind`` and ``data`` (JSON). Kinds: ``turn`` (a `Capture`) and ``flush``
(a session). Whatever cannot be read becomes a dead letter with its reason; nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import ValidationError

from gralkord.errors import InvalidInput
from gralkord.models import Capture, Identifier, Wire


class FlushEntry(Wire):
    """Hand a session's buffered turns over."""

    session: Identifier


_MODELS: Final[Mapping[str, type[Capture] | type[FlushEntry]]] = {
    "turn": Capture,
    "flush": FlushEntry,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an intake stream, not yet read.

    Attributes:
        id: Its id in the stream, ``<milliseconds>-<number>``.
        fields: Its fields as Redis gave them.
    """

    id: str
    fields: Mapping[bytes, bytes]

    @property
    def received_ms(self) -> int:
        """When it was written, in ms since 1970, by the queue's clock."""
        return int(self.id.partition("-")[0])


def read(entry: Entry) -> Capture | FlushEntry:
    """Return what an entry says.

    Raises:
        InvalidInput: It has no known kind, is not JSON, or does not fit its model.
    """
    kind = entry.fields.get(b"kind", b"").decode(errors="replace")
    if kind not in _MODELS:
        raise InvalidInput(f"unknown kind {kind[:64]!r}, expected turn or flush", field="kind")
    data = load_json(entry.fields.get(b"data", b""))
    try:
        return _MODELS[kind].model_validate(data)
    except ValidationError as error:
        raise from_validation(error) from None


def load_json(raw: bytes) -> Any:
    """Return the value that *raw* holds.

    Raises:
        InvalidInput: It is not UTF-8, or not JSON.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        reason = str(error).partition(": ")[0]
        raise InvalidInput(f"not JSON in UTF-8: {reason}", field="data") from None


def from_validation(error: ValidationError) -> InvalidInput:
    """Return the first complaint of *error* with its field; the refused value is not repeated."""
    first = error.errors(include_input=False, include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "unknown field"
    limits = first.get("ctx", {})
    limit = next(
        (limits[key] for key in ("max_length", "le", "lt", "ge", "gt") if key in limits), None
    )
    if not field and ":" in message:  # a check over several fields names its own
        field, _, message = message.partition(": ")
    return InvalidInput(
        f"{field}: {message}" if field else message, field=field or None, limit=limit
    )
