"""Moving memories from one system to another: the lines of an export, and what an import answers.

An export is JSON lines: a header, one line a row, a trailer with counts and a check sum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from gralkord.models.base import Identifier, Wire, parse_time

FORMAT: Final = "gralkord-export"
VERSION: Final = 1

MAX_ROWS: Final = 1_000

Kind = Literal["episode", "entity", "mention", "fact", "passage"]
# In the order in which they follow each other in a file: what a row refers to stands before it.
KINDS: Final[tuple[Kind, ...]] = ("episode", "entity", "mention", "fact", "passage")

Value = str | int | float | bool | list[str | int | float | bool]

MAX_UUID_CHARS: Final = 128
MAX_LABELS: Final = 16

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_INT64: Final = 2**63

# What each kind of row cannot be without: properties by their type, and references.
_NEEDED: Final[Mapping[Kind, Mapping[str, type]]] = {
    "episode": {"name": str, "content": str, "valid_at": str},
    "entity": {"name": str},
    "mention": {},
    "fact": {"name": str, "fact": str},
    "passage": {
        **dict.fromkeys(("text", "speaker", "role", "agent", "session", "turn_id"), str),
        **dict.fromkeys(("ordinal", "part", "created_ms"), int),
        "event_time": str,
    },
}
_REFERENCES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "episode": (),
    "entity": (),
    "mention": ("episode", "entity"),
    "fact": ("source", "target"),
    "passage": (),
}
_TIMES: Final[Mapping[Kind, frozenset[str]]] = {
    "episode": frozenset({"valid_at", "created_at"}),
    "entity": frozenset({"created_at"}),
    "mention": frozenset({"created_at"}),
    "fact": frozenset({"valid_at", "invalid_at", "expired_at", "created_at", "reference_time"}),
    "passage": frozenset({"event_time"}),
}
# They follow from where a row is written, or stand beside the properties.
_OURS: Final = frozenset({"uuid", "seq", "vector", "group_id", "labels"})
_OURS_IN_PASSAGES: Final = _OURS | {"waiting", "episode", "replaced_by"}


def _check_uuid(text: str) -> str:
    if not text.isascii() or not text.isprintable() or not 0 < len(text) <= MAX_UUID_CHARS:
        raise ValueError(f"must be 1 to {MAX_UUID_CHARS} printable ASCII characters")
    return text


def _check_label(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("must be a word of letters, digits and _")
    return text


Uuid = Annotated[str, AfterValidator(_check_uuid)]
Label = Annotated[str, AfterValidator(_check_label)]


class PassagePlace(Wire):
    """What the uuid of a passage is made of, besides its group."""

    turn_id: Identifier
    index: int = Field(ge=0)
    part: int = Field(ge=0)


class TransferRow(Wire):
    """One line of an export between header and trailer."""

    kind: Kind
    operator: Identifier | None = Field(None, description="Whose; none: the tenant's shared group.")
    lens: Identifier | None = None
    uuid: Uuid
    properties: dict[str, Value] = Field(default_factory=dict)
    labels: list[Label] = Field(default_factory=list, max_length=MAX_LABELS)
    vector: str | None = Field(None, description="int8 numbers as base64.")
    source: Uuid | None = Field(None, description="Of a fact: the entity that it begins at.")
    target: Uuid | None = Field(None, description="Of a fact: the entity that it leads to.")
    episode: Uuid | None = Field(None, description="Of a mention or passage.")
    entity: Uuid | None = Field(None, description="Of a mention.")
    origins: list[str] = Field(
        default_factory=list, description="Of an episode: marks of the turns of other groups."
    )
    waiting: bool = Field(False, description="Of a passage: it is still to be understood.")
    index: int | None = Field(None, ge=0, description="Of a passage: its message in the turn.")
    replaced_by: PassagePlace | None = Field(
        None, description="Of a passage: the one that stands in its place now."
    )

    @model_validator(mode="after")
    def _whole(self) -> TransferRow:
        for name in _REFERENCES[self.kind]:
            if getattr(self, name) is None:
                raise ValueError(f"{name}: is missing in a {self.kind}")
        for name, kind in _NEEDED[self.kind].items():
            if type(self.properties.get(name)) is not kind:
                words = "a text" if kind is str else "a whole number"
                raise ValueError(f"properties.{name}: must be {words} in a {self.kind}")
        for name, value in self.properties.items():
            _check_property(self.kind, name, value)
        return self


class ExportQuery(Wire):
    """What is exported."""

    operator: Identifier | None = Field(None, description="All lenses of this operator.")
    everything: bool = Field(False, description="Instead: all operators and the shared group.")
    vectors: bool = Field(False, description="Vectors too; else they are made anew at the import.")

    @model_validator(mode="after")
    def _one_scope(self) -> ExportQuery:
        if (self.operator is None) != self.everything:
            raise ValueError("operator: name one, or say everything=true")
        return self


class ImportRows(Wire):
    """Rows of an export, to be written."""

    rows: list[TransferRow] = Field(min_length=1, max_length=MAX_ROWS)
    tenant: Identifier = Field(description="The tenant that they were exported from.")
    embedder: str = Field("", max_length=256, description="Which embedder their vectors are from.")
    as_operator: Identifier | None = Field(None, description="Write them into this operator's.")


class RowFailure(Wire):
    """A row that was not written."""

    index: int = Field(description="Its place in the request, from 0.")
    message: str


class ImportResult(Wire):
    """What became of rows. Those that failed hinder no other."""

    created: int
    known: int = Field(description="Rows that were there already; they stay as they are.")
    skipped: int = Field(
        0, description="Rows of the shared group, which is nobody's: left out with `as_operator`."
    )
    failed: list[RowFailure] = Field(default_factory=list)
    lenses: list[str] = Field(
        default_factory=list, description="Lenses of these rows that are not configured here."
    )


def _check_property(kind: Kind, name: str, value: Any) -> None:
    ours = _OURS_IN_PASSAGES if kind == "passage" else _OURS
    if not _NAME.fullmatch(name) or name in ours:
        raise ValueError(f"properties.{name[:64]}: cannot be the name of a property here")
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and "\x00" in one:
            raise ValueError(f"properties.{name}: a NUL cannot be stored")
        if isinstance(one, int) and not -_INT64 <= one < _INT64:
            raise ValueError(f"properties.{name}: does not fit into 64 bits")
    if name in _TIMES[kind]:
        try:
            parse_time(value)
        except ValueError as error:
            raise ValueError(f"properties.{name}: {error}") from None
