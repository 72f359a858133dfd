"""Group ids: tenant, operator and lens folded into one name that every store accepts.

A group is one FalkorDB graph. Graphiti's full-text search returns nothing for a group id that has a
hyphen or equals a stop word, and Redis Cluster and file systems have their own ideas, so the id
uses ``[A-Za-z0-9_]`` only. It is reversible, therefore two owners never share a group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from gralkord.errors import InvalidInput

Scope = Literal["operator", "global"]

DEFAULT_TENANT: Final = "default"
DEFAULT_LENS: Final = "default"

_SEPARATOR: Final = "__"
_ESCAPED = re.compile(r"_([0-9a-f]{2})")
_SPELLED: Final = {
    byte: f"_{byte:02x}" for byte in range(256) if not (byte < 128 and chr(byte).isalnum())
}


@dataclass(frozen=True, slots=True)
class Group:
    """Whose memory a graph holds: of one operator through one lens, or of a whole tenant."""

    tenant: str
    operator: str | None = None
    lens: str | None = None

    @property
    def scope(self) -> Scope:
        """``global`` for the one group that all global lenses of a tenant share."""
        return "global" if self.operator is None else "operator"

    @property
    def id(self) -> str:
        """``op__<tenant>__<operator>__<lens>`` or ``global__<tenant>``, the parts escaped."""
        if self.operator is None:
            return _SEPARATOR.join(("global", escape(self.tenant)))
        parts = (self.tenant, self.operator, self.lens or DEFAULT_LENS)
        return _SEPARATOR.join(("op", *(escape(part) for part in parts)))


@lru_cache(maxsize=8_192)  # each turn spells the same few names many times
def escape(text: str) -> str:
    """Return *text* with every byte outside ``[A-Za-z0-9]`` written as ``_`` and two hex digits."""
    if text.isascii() and text.isalnum():
        return text
    return text.encode().decode("latin-1").translate(_SPELLED)


def unescape(text: str) -> str:
    """Undo `escape`."""
    return re.sub(
        r"(?:_[0-9a-f]{2})+",
        lambda run: bytes(int(code, 16) for code in _ESCAPED.findall(run[0])).decode(),
        text,
    )


def parse_group(group_id: str) -> Group:
    """Return the `Group` whose id is *group_id*.

    Raises:
        InvalidInput: *group_id* was not made by `Group.id`.
    """
    kind, *parts = group_id.split(_SEPARATOR)
    try:
        if kind == "global" and len(parts) == 1:
            return Group(unescape(parts[0]))
        if kind == "op" and len(parts) == 3:
            return Group(*(unescape(part) for part in parts))
    except (UnicodeDecodeError, ValueError) as error:
        raise InvalidInput(f"not a group id: {group_id!r}", field="group") from error
    raise InvalidInput(f"not a group id: {group_id!r}", field="group")
