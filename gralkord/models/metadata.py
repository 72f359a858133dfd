"""What a producer says about a turn in its own words: names with plain values."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final

import orjson
from pydantic import AfterValidator, WithJsonSchema

from gralkord.models.base import check_id, check_text

MAX_METADATA_KEYS: Final = 32
MAX_METADATA_BYTES: Final = 8_192

_INT64: Final = 2**63
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_SCHEMA: Final = {
    "type": "object",
    "maxProperties": MAX_METADATA_KEYS,
    "additionalProperties": {
        "anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, _TEXTS]
    },
}


def check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return *metadata* unchanged if it can be stored.

    Raises:
        ValueError: It has too many names or bytes, or a name or value that cannot be stored.
    """
    if len(metadata) > MAX_METADATA_KEYS:
        raise ValueError(f"{len(metadata)} names, the limit is {MAX_METADATA_KEYS} names")
    for name, value in metadata.items():
        try:
            check_id(name)
            _check_value(value)
        except ValueError as error:
            raise ValueError(f"{name[:64]!r}: {error}") from None
    if (size := len(orjson.dumps(metadata))) > MAX_METADATA_BYTES:
        raise ValueError(f"{size} bytes as JSON, the limit is {MAX_METADATA_BYTES} bytes")
    return metadata


def _check_value(value: Any) -> None:
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, list) and all(isinstance(one, str) for one in value):
        for one in value:
            check_text(one)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("must be a finite number")
    elif isinstance(value, int):
        if abs(value) >= _INT64:
            raise ValueError("must fit into 64 bits")
    else:
        raise ValueError("must be a text, a number, true or false, or a list of texts")


Metadata = Annotated[dict[str, Any], AfterValidator(check_metadata), WithJsonSchema(_SCHEMA)]
