"""How parameters and rows look on the wire to FalkorDB: Cypher literals out, compact replies in."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from gralkord.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INT64: Final = 2**63

# Types of a value in a compact reply.
_NULL, _STRING, _INTEGER, _BOOLEAN, _DOUBLE, _ARRAY, _MAP = 1, 2, 3, 4, 5, 6, 10


def encode_query(query: str, params: Mapping[str, Any] | None) -> str:
    """Return *query* with *params* in front of it as a ``CYPHER name=literal`` header.

    The server caches the plan of a query by its text without this header, so a query should never
    be built from values.

    Args:
        query: Cypher.
        params: By name: ``None``, text, booleans, 64-bit integers, finite floats, and lists, tuples
            or dictionaries of those.

    Raises:
        InvalidInput: A parameter cannot be a Cypher literal.
    """
    if not params:
        return query
    header = " ".join(f"{_name(name)}={_literal(value)}" for name, value in params.items())
    if "\x00" in header:  # it would end the query in the middle
        raise InvalidInput("a NUL cannot be stored")
    try:
        header.encode()
    except UnicodeEncodeError:
        raise InvalidInput("a lone surrogate cannot be stored") from None
    return f"CYPHER {header} {query}"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if value is None:
        return "null"
    if isinstance(value, bool):  # before int, which it also is
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_key(key)}:{_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_literal, value)) + "]"
    raise InvalidInput(f"a {type(value).__name__} cannot be a query parameter")


def _number(value: float) -> str:
    if isinstance(value, int):
        # The server reads larger numbers as the largest it knows, without a word.
        if not -_INT64 <= value < _INT64:
            raise InvalidInput(f"{value} does not fit into 64 bits")
        return str(int(value))
    if not math.isfinite(value):
        raise InvalidInput(f"{value} is not a number that can be stored")
    return repr(float(value))


@lru_cache(maxsize=1_024)
def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} cannot name a parameter")
    return name


@lru_cache(maxsize=1_024)  # the same few in every row
def _key(key: Any) -> str:
    if isinstance(key, str) and _NAME.fullmatch(key):
        return key
    if not isinstance(key, str) or not key or "`" in key:  # within backticks nothing can be escaped
        raise InvalidInput(f"{key!r} cannot be the key of a map")
    return f"`{key}`"


def decode_rows(reply: Any) -> list[list[Any]]:
    """Return the rows of a ``--compact`` reply as plain Python values.

    Raises:
        TypeError: A value is a node, an edge or a path; queries return properties instead.
    """
    if len(reply) < 2:  # a query without RETURN answers with its statistics only
        return []
    # The condition is written out because a call for each cell would triple the time.
    return [
        [cell[1] if cell[0] <= _INTEGER else _value(cell[0], cell[1]) for cell in row]
        for row in reply[1]
    ]


def _value(kind: int, value: Any) -> Any:
    if kind in {_NULL, _STRING, _INTEGER}:
        return value
    if kind == _BOOLEAN:
        return value == "true"
    if kind == _DOUBLE:
        return float(value)
    if kind == _ARRAY:
        return [_value(each[0], each[1]) for each in value]
    if kind == _MAP:
        return {value[i]: _value(value[i + 1][0], value[i + 1][1]) for i in range(0, len(value), 2)}
    raise TypeError(f"the reply holds a value of kind {kind}")
