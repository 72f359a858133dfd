"""Read what came over the wire: bytes to JSON to a model, with errors in plain words."""

from __future__ import annotations

import difflib
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from gralkord.clock import to_iso
from gralkord.errors import InvalidInput, Malformed
from gralkord.models import Capture, future_limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound=BaseModel)

# What a message may repeat of a request: enough to recognise a name, not enough to hold a text.
_ECHO_CHARS: Final = 64

_LIMIT = re.compile(r"the limit is (\d+)")
_LEADING_FIELD = re.compile(r"^([A-Za-z0-9_.]+): ")
_LONE_SURROGATE = re.compile("surrogate")

# Texts by pydantic's error type; the braces are filled from its context.
_PLAIN: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number, and not infinite",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "literal_error": "must be one of {expected}",
    "too_long": "has too many entries, the limit is {max_length}",
    "too_short": "has too few entries, at least {min_length} is needed",
    "string_unicode": "has a lone surrogate: not valid Unicode text",
    "string_too_long": "is too long, the limit is {max_length} characters",
    "string_too_short": "is too short, at least {min_length} characters are needed",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
}
_OF_TEXTS: Final[Mapping[str, str]] = {
    "too_long": "string_too_long",
    "too_short": "string_too_short",
}
# The field that a text is read into where an object can stand as well; its sender has not named it.
_TEXT_ALONE: Final = "term"
_LIMITS: Final = ("max_length", "min_length", "le", "lt", "ge", "gt")


def parse_json(body: bytes) -> Any:
    """Return the value of a JSON text.

    Args:
        body: JSON in UTF-8.

    Raises:
        Malformed: It is no JSON; the message says where and why, without repeating it.
    """
    if not body:
        raise Malformed("the body is empty, a JSON object is needed")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"the body is not JSON: {json_fault(body, error)}") from None


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the object that a JSON text holds.

    Raises:
        Malformed: It is no JSON.
        InvalidInput: It is another value than an object.
    """
    value = parse_json(body)
    if not isinstance(value, dict):
        raise InvalidInput("the body must be a JSON object")
    return value


def read_model(model: type[Model], raw: Any, *, within: str = "") -> Model:
    """Return *raw* as a *model*; nothing is coerced.

    Args:
        model: What it has to be.
        raw: What came, as Python values.
        within: Dotted path of *raw* in the request, for the names of fields in errors.

    Raises:
        InvalidInput: It does not fit; `field` is a dotted path such as ``turn.0.role``.
    """
    try:
        return model.model_validate(raw, strict=True)
    except ValidationError as error:
        raise explain(error, model, within=within) from None


def explain(error: ValidationError, model: type[BaseModel], *, within: str = "") -> InvalidInput:
    """Return the first fault of *error* in plain words, with field and limit where there is one."""
    fault = error.errors(include_url=False, include_input=False)[0]
    text = _plain_text(fault)
    path = [str(part)[:_ECHO_CHARS] for part in fault["loc"]]
    if path[-1:] == [_TEXT_ALONE]:
        path.pop()
    if leading := _LEADING_FIELD.match(text):
        path, text = [*path, leading[1]], text[leading.end() :]
    field = ".".join([within, *path] if within else path)
    hint = None
    if fault["type"] == "extra_forbidden":
        hint = _known_fields(model, fault["loc"])
    return InvalidInput(
        f"{field}: {text}" if field else text,
        field=field or None,
        limit=_limit(fault, text),
        hint=hint,
    )


def zone_notes(raw: Mapping[str, Any]) -> list[str]:
    """Return what a receipt has to say about the zone of a turn's event time.

    Args:
        raw: A capture as it came, before a model has normalised it.
    """
    value = raw.get("event_time")
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return []  # the model refuses it, with a better message
    if isinstance(value, datetime) and value.tzinfo is None:
        return [f"event_time {value.isoformat()} has no zone: taken as UTC"]
    return []


def check_event_time(capture: Capture, now: datetime) -> None:
    """Refuse a turn that claims to happen in the far future.

    Raises:
        InvalidInput: Its event time is more than a day after *now*.
    """
    check_past(capture.event_time, now)


def check_past(event_time: datetime | None, now: datetime) -> None:
    """Refuse what claims to happen in the far future.

    Raises:
        InvalidInput: *event_time* is more than a day after *now*.
    """
    latest = future_limit(now)
    if event_time and event_time > latest:
        raise InvalidInput(
            f"event_time: {to_iso(event_time)} is in the future; the latest accepted is "
            f"{to_iso(latest)}",
            field="event_time",
            limit=to_iso(latest),
        )


def json_fault(body: bytes, error: orjson.JSONDecodeError, *, of_one_line: bool = False) -> str:
    """Return what is wrong with a text that is not JSON, and where, without repeating it.

    Args:
        body: The text.
        error: What orjson made of it.
        of_one_line: Whether *body* is one line of several, whose number the caller tells.
    """
    try:
        body.decode()
    except UnicodeDecodeError as bad:
        return f"byte {bad.start + 1} is not valid UTF-8"
    line = "" if of_one_line else f"line {error.lineno} "
    if _LONE_SURROGATE.search(error.msg):
        return f"lone surrogate escape before {line}column {error.colno + 1}"
    return f"{error.msg} at {line}column {error.colno}"


def _plain_text(fault: ErrorDetails) -> str:
    kind = fault["type"]
    if kind == "extra_forbidden":
        return "no such field"
    # What pydantic says of a text that is checked for more than its length.
    if fault.get("ctx", {}).get("field_type") == "Value":
        kind = _OF_TEXTS.get(kind, kind)
    if kind in _PLAIN:
        return _PLAIN[kind].format(**fault.get("ctx", {}))
    return str(fault["msg"]).removeprefix("Value error, ")


def _limit(fault: ErrorDetails, text: str) -> int | float | None:
    context = fault.get("ctx", {})
    for name in _LIMITS:
        if isinstance(value := context.get(name), int | float):
            return value
    found = _LIMIT.search(text)
    return int(found[1]) if found else None


def _known_fields(model: type[BaseModel], location: tuple[int | str, ...]) -> str | None:
    """Return which field was meant, or which there are, for an unknown one directly in *model*."""
    if len(location) != 1:
        return None
    names = list(model.model_fields)
    close = difflib.get_close_matches(str(location[0])[:_ECHO_CHARS], names, n=1)
    return f"did you mean {close[0]}?" if close else f"known fields: {', '.join(names)}"
