"""The smallest instance of a JSON schema: how the scripted model says nothing."""

from __future__ import annotations

import math
from typing import Any, Final

DEEPEST: Final = 20
FORMATS: Final = {
    "date-time": "1970-01-01T00:00:00Z",
    "date": "1970-01-01",
    "time": "00:00:00Z",
    "duration": "PT0S",
    "email": "nobody@example.org",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def smallest(schema: dict[str, Any]) -> Any:
    """Return a value that *schema* accepts: null where it may be, empty where it may be.

    Understands what pydantic writes: types, enums, references, unions, lengths and bounds.

    Raises:
        ValueError: The schema has no finite instance, or refers to what it does not hold.
    """
    return _smallest(schema, schema.get("$defs", {}), 0)


def _smallest(schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("the schema has no finite instance")
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        if name not in definitions:
            raise ValueError(f"the schema does not define {name}")
        return _smallest(definitions[name], definitions, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            choices = schema[union]
            if any(choice.get("type") == "null" for choice in choices):
                return None
            return _smallest(choices[0], definitions, depth + 1)
    return _of_type(schema, definitions, depth)


def _of_type(schema: dict[str, Any], definitions: dict[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "null")
    if isinstance(kind, list):
        kind = "null" if "null" in kind else kind[0]
    match kind:
        case "object":
            properties = schema.get("properties", {})
            return {
                name: _smallest(properties.get(name, {}), definitions, depth + 1)
                for name in schema.get("required", [])
            }
        case "array":
            items = schema.get("items", {})
            fixed = schema.get("prefixItems", [])
            count = max(schema.get("minItems", 0), len(fixed))
            each = [*fixed, *[items] * (count - len(fixed))]
            return [_smallest(item, definitions, depth + 1) for item in each]
        case "string":
            return FORMATS.get(schema.get("format", ""), "-" * schema.get("minLength", 0))
        case "integer" | "number":
            return _smallest_number(schema, whole=kind == "integer")
        case "boolean":
            return False
        case _:
            return None


def _smallest_number(schema: dict[str, Any], *, whole: bool) -> float:
    """Return the number nearest to zero within the bounds."""
    step = float(schema.get("multipleOf", 1 if whole else 0.5))
    value = 0.0
    if schema.get("minimum", 0) > 0:
        value = math.ceil(schema["minimum"] / step) * step
    elif schema.get("exclusiveMinimum", -1) >= 0:
        value = (math.floor(schema["exclusiveMinimum"] / step) + 1) * step
    elif schema.get("maximum", 0) < 0:
        value = math.floor(schema["maximum"] / step) * step
    elif schema.get("exclusiveMaximum", 1) <= 0:
        value = (math.ceil(schema["exclusiveMaximum"] / step) - 1) * step
    return int(value) if whole else value
