"""Moving memories from one system to another: the lines of an export, and what an import answers.

An export is JSON lines: a header, one line a row, a trailer with counts and a check sum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from gralkord.models.base import Identifier, Wire
from gralkord.models.row_properties import Kind, Value, check_needed, check_property

FORMAT: Final = "gralkord-export"
VERSION: Final = 1

MAX_ROWS: Final = 1_000

# In the order in which they follow each other in a file: what a row refers to stands before it.
KINDS: Final[tuple[Kind, ...]] = ("episode", "entity", "mention", "fact", "passage")


def _plain(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        return check(value)
    except ValidationError:
        raise ValueError("must be a text, a number, true or false, or a list of those") from None


# Its own words, because those for a union name a part of it that nobody has written.
Property = Annotated[Value, WrapValidator(_plain)]

MAX_UUID_CHARS: Final = 128
MAX_LABELS: Final = 16

# Labels of other nodes than entities.
_OUR_LABELS: Final = frozenset({"Episodic", "Community", "Saga", "Meta", "Passage", "Origin"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")

# What each kind of row refers to.
_REFERENCES: Final[Mapping[Kind, tuple[str, ...]]] = {
    "episode": (),
    "entity": (),
    "mention": ("episode", "entity"),
    "fact": ("source", "target"),
    "passage": (),
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
    if text in _OUR_LABELS:
        raise ValueError(f"{text} is no type of an entity")
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
    properties: dict[str, Property] = Field(default_factory=dict)
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
        check_needed(self.kind, self.properties)
        for name, value in list(self.properties.items()):
            _check_name(self.kind, name)
            note_kind = self.properties.get("note_kind")
            self.properties[name] = check_property(self.kind, name, value, note_kind)
        if self.kind == "fact":
            self._check_note()
        return self

    def _check_note(self) -> None:
        """Refuse a note that does not lead from its own node to itself, and other facts that do.

        The node goes with its note: it must be nobody else's.
        """
        ends = {self.source, self.target}
        if "note_kind" in self.properties:
            if ends != {self.uuid}:
                raise ValueError("source: a note leads from the entity of its own uuid to itself")
        elif self.uuid in ends:
            raise ValueError("uuid: only a note has that of an entity")


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


def _check_name(kind: Kind, name: str) -> None:
    ours = _OURS_IN_PASSAGES if kind == "passage" else _OURS
    if not _NAME.fullmatch(name) or name in ours:
        raise ValueError(f"properties.{name[:64]}: cannot be the name of a property here")
