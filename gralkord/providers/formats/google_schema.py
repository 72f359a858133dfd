"""From a JSON schema to the subset of OpenAPI's that Google takes."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

DEEPEST: Final = 12
_KEPT: Final = (
    *("title", "description", "minItems", "maxItems", "minLength", "maxLength"),
    *("pattern", "minimum", "maximum", "required"),
)


class _NotSaidError(Exception):
    """The schema cannot be said in Google's words."""


def google_schema(schema: Json) -> Json | None:
    """Return *schema* in Google's words; None if they do not suffice.

    References are resolved, unions are `anyOf`, null is `nullable`. What only narrows the values is
    left out, because the answer is checked again. Objects of free keys, and schemas that contain
    themselves, cannot be said.
    """
    try:
        return _said(schema, schema.get("$defs", {}), 0)
    except _NotSaidError:
        return None


def _said(schema: Json, definitions: Json, depth: int) -> Json:
    if depth > DEEPEST:
        raise _NotSaidError
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        if name not in definitions:
            raise _NotSaidError
        target = definitions[name] | {key: schema[key] for key in schema if key != "$ref"}
        return _said(target, definitions, depth + 1)
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return _union(schema, schema[union], definitions, depth)
    kind = schema.get("type")
    if isinstance(kind, list):
        return _union(schema, [{"type": each} for each in kind], definitions, depth)
    kept = {key: schema[key] for key in _KEPT if key in schema}
    if "const" in schema or "enum" in schema:
        return kept | _choice(schema.get("enum", [schema.get("const")]))
    return kept | _of_type(kind, schema, definitions, depth)


def _union(schema: Json, choices: list[Json], definitions: Json, depth: int) -> Json:
    """Return a choice of schemas; one that is null is said beside the others."""
    kept: Json = {key: schema[key] for key in ("title", "description") if key in schema}
    some = [each for each in choices if each.get("type") != "null"]
    if not some or ("allOf" in schema and len(some) > 1):
        raise _NotSaidError
    said = [_said(each, definitions, depth + 1) for each in some]
    kept |= {"nullable": True} if len(some) < len(choices) else {}
    return said[0] | kept if len(said) == 1 else {"anyOf": said} | kept


def _choice(values: list[Any]) -> Json:
    """Return a choice of words; other values are left to the check of the answer."""
    if all(isinstance(value, str) for value in values):
        return {"type": "STRING", "format": "enum", "enum": values}
    if all(isinstance(value, bool) for value in values):
        return {"type": "BOOLEAN"}
    if all(isinstance(value, int) for value in values):
        return {"type": "INTEGER"}
    raise _NotSaidError


def _of_type(kind: Any, schema: Json, definitions: Json, depth: int) -> Json:
    match kind:
        case "object":
            properties = schema.get("properties")
            if not properties:
                raise _NotSaidError
            said = {name: _said(each, definitions, depth + 1) for name, each in properties.items()}
            return {"type": "OBJECT", "properties": said, "propertyOrdering": list(properties)}
        case "array":
            return {
                "type": "ARRAY",
                "items": _said(schema.get("items", {}), definitions, depth + 1),
            }
        case "string" | "integer" | "number" | "boolean":
            dated = {"format": "date-time"} if schema.get("format") == "date-time" else {}
            return {"type": kind.upper()} | dated
        case _:
            raise _NotSaidError
