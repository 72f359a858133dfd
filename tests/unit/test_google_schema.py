"""JSON schemas in Google's words."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any, Literal

from pydantic import BaseModel, Field

from gralkord.providers.formats.google_schema import google_schema


class Kind(Enum):
    person = "person"
    place = "place"


class Inner(BaseModel):
    kind: Kind
    count: int | None = Field(None, description="How many.")
    at: datetime | None = None


class Outer(BaseModel):
    title: str
    inners: list[Inner]
    sort: Literal["a", "b"]
    either: int | str
    number: Literal[1, 2]


class Knot(BaseModel):
    knots: list[Knot] = []


def said(model):
    return google_schema(model.model_json_schema())


def test_references_unions_and_nulls_are_said():
    """Nothing of JSON schema is left that Google would refuse, and the order of fields is kept."""
    schema = said(Outer)
    assert schema["type"] == "OBJECT"
    assert schema["propertyOrdering"] == ["title", "inners", "sort", "either", "number"]
    fields = schema["properties"]
    assert fields["title"]["type"] == "STRING"
    assert fields["either"]["anyOf"] == [{"type": "INTEGER"}, {"type": "STRING"}]
    assert fields["sort"]["enum"] == ["a", "b"]
    assert fields["number"]["type"] == "INTEGER"
    inner = fields["inners"]["items"]["properties"]
    assert inner["kind"]["enum"] == ["person", "place"]
    assert inner["count"] == {
        "title": "Count",
        "description": "How many.",
        "type": "INTEGER",
        "nullable": True,
    }
    assert inner["at"]["format"] == "date-time"
    assert not {"$ref", "$defs", "additionalProperties", "default", "const"} & set(keys(schema))


def test_what_cannot_be_said_is_left_to_words():
    """Free keys, values of any kind and schemas that contain themselves have no words."""

    class Free(BaseModel):
        words: dict[str, int]

    class Anything(BaseModel):
        value: Any

    assert [said(model) for model in (Free, Anything, Knot)] == [None, None, None]


def keys(value):
    """Return all keys in it."""
    if isinstance(value, list):
        return [key for item in value for key in keys(item)]
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in keys(item))]
    return []
