"""Which memories a question may be answered from: by who said it, where, when, and metadata."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from gralkord.models.base import Identifier, Moment, Wire, check_id, check_text, parse_time
from gralkord.models.metadata import MAX_METADATA_KEYS

MAX_ANY_OF: Final = 100
MAX_VALUE_BYTES: Final = 8_192

BOUNDS: Final = frozenset({"gte", "lte"})

_INT64: Final = 2**63
_NO_CONDITION: Final = (
    "must be a text, a number, true or false, a list of those, or a range such as "
    '{"gte": 2, "lte": 5}'
)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_END: Final = timedelta(days=1) - timedelta(microseconds=1)
_SCALAR: Final[dict[str, Any]] = {
    "anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
}
_BOUND: Final[dict[str, Any]] = {"anyOf": [{"type": "string"}, {"type": "number"}]}
_METADATA_SCHEMA: Final = {
    "type": "object",
    "maxProperties": MAX_METADATA_KEYS,
    "additionalProperties": {
        "anyOf": [
            *_SCALAR["anyOf"],
            {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": MAX_ANY_OF},
            {
                "type": "object",
                "properties": {"gte": _BOUND, "lte": _BOUND},
                "additionalProperties": False,
                "minProperties": 1,
            },
        ]
    },
}


def _check_conditions(conditions: dict[str, Any]) -> dict[str, Any]:
    if len(conditions) > MAX_METADATA_KEYS:
        raise ValueError(f"{len(conditions)} names, the limit is {MAX_METADATA_KEYS} names")
    for name, condition in conditions.items():
        try:
            check_id(name)
            _check_condition(condition)
        except ValueError as error:
            raise ValueError(f"{name[:64]!r}: {error}") from None
    return conditions


def _check_condition(condition: Any) -> None:
    if isinstance(condition, list):
        if not 0 < len(condition) <= MAX_ANY_OF:
            raise ValueError(f"{len(condition)} values, 1 to {MAX_ANY_OF} are possible")
        for value in condition:
            _check_scalar(value)
    elif isinstance(condition, dict):
        if not condition or not set(condition) <= BOUNDS:
            raise ValueError("a range has `gte`, `lte` or both")
        for bound in condition.values():
            _check_scalar(bound)
        if any(isinstance(bound, bool) for bound in condition.values()):
            raise ValueError("a bound must be a number or a text")
        if len({isinstance(bound, str) for bound in condition.values()}) > 1:
            raise ValueError("both bounds must be numbers, or both texts")
    else:
        _check_scalar(condition)


def _check_scalar(value: Any) -> None:
    if isinstance(value, str):
        check_text(value)
        if (size := len(value.encode())) > MAX_VALUE_BYTES:
            raise ValueError(f"{size} bytes, the limit is {MAX_VALUE_BYTES} bytes of UTF-8")
    elif not isinstance(value, int | float):
        raise ValueError(_NO_CONDITION)  # noqa: TRY004
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number")
    elif abs(value) >= _INT64 and not isinstance(value, float):
        raise ValueError("must fit into 64 bits")


def _several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def last_moment(value: Any) -> Any:
    """Return a time; of a date alone the last moment of that day, so that the day is within."""
    moment = parse_time(value)
    if isinstance(value, str) and _DATE.fullmatch(value.strip()):
        moment += _DAY_END
    return moment


def _any_of(item: str) -> dict[str, Any]:
    """Return the schema of one value or several."""
    one = {"type": "string"}
    many = {"type": "array", "items": one, "minItems": 1, "maxItems": MAX_ANY_OF}
    return {"anyOf": [one, many], "description": item}


Names = Annotated[
    list[Identifier],
    BeforeValidator(_several),
    Field(min_length=1, max_length=MAX_ANY_OF),
    WithJsonSchema(_any_of("One name, or any of several.")),
]
Conditions = Annotated[
    dict[str, Any], AfterValidator(_check_conditions), WithJsonSchema(_METADATA_SCHEMA)
]
Until = Annotated[Moment, BeforeValidator(last_moment)]


class Span(Wire):
    """A range of times, both ends within it."""

    gte: Moment | None = Field(None, description="ISO 8601; UTC if without a zone.")
    lte: Until | None = Field(None, description="Likewise; a date alone means all of that day.")

    @model_validator(mode="after")
    def _bounded(self) -> Span:
        if self.gte is None and self.lte is None:
            raise ValueError("a range has `gte`, `lte` or both")
        return self


class Filters(Wire):
    """What a memory must fit to be an answer; all that is named must.

    A fact fits if its own source, time and metadata do or, where it has none, all that was said in
    one of the episodes that tell it. What cannot be told of a memory does not fit.
    """

    metadata: Conditions = Field(
        default_factory=dict,
        description="By name: a value, a list of which any may be it, or a range with `gte`, `lte` "
        "or both, ends included. A list in the metadata fits if one of its values does.",
    )
    speaker: Names | None = Field(None, description="Who said it: one name, or any of several.")
    source: Names | None = Field(None, description="What it is from, likewise.")
    session: Names | None = Field(None, description="In which session it was said, likewise.")
    event_time: Span | None = Field(None, description="When it was said or happened.")
