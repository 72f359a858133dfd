"""The envelope: what stands in an entry of the intake stream, and how it is read.

An entry has two fields, ``kind`` and ``data`` (JSON). Kinds: ``turn`` (a `Capture`), ``flush`` (a
session) and ``ingest`` (an `Ingest`: turns and their flush in one). Whatever cannot be read becomes
a dead letter with its reason; nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gralkord.errors import InvalidInput
from gralkord.models import Capture, Identifier, Wire
from gralkord.models.ingest import Ingest
from gralkord.wire import parse_object, read_model


class FlushEntry(Wire):
    """Hand a session's buffered turns over."""

    session: Identifier


_MODELS: Final[Mapping[str, type[Capture | FlushEntry | Ingest]]] = {
    "turn": Capture,
    "flush": FlushEntry,
    "ingest": Ingest,
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


def read(entry: Entry) -> Capture | FlushEntry | Ingest:
    """Return what an entry says.

    Raises:
        Malformed: Its data is not JSON.
        InvalidInput: It has no known kind, or does not fit its model.
    """
    kind = entry.fields.get(b"kind", b"").decode(errors="replace")
    if kind not in _MODELS:
        expected = "turn, flush or ingest"
        raise InvalidInput(f"unknown kind {kind[:64]!r}, expected {expected}", field="kind")
    return read_model(_MODELS[kind], parse_object(entry.fields.get(b"data", b"")))
