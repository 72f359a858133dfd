"""Memories as notes: what is kept of one besides its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from gralkord.graph.drafts import note_uuid

if TYPE_CHECKING:
    from gralkord.graph.rows import FactRow

KIND: Final = "memory"
TITLE_CHARS: Final = 80
READ_MS: Final = 1_000


def attributes_of(
    kind: str,
    importance: float,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | str | None = None,
) -> dict[str, Any]:
    """Return the attributes of a memory's note; what there is none of is None.

    Args:
        kind: Of the memory: ``semantic``, ``episodic``, ``preference`` or ``instruction``.
        importance: How much it matters.
        tags: Words of its maker's.
        metadata: What its maker says about it; a text is that as JSON.
    """
    if metadata is not None and not isinstance(metadata, str):
        metadata = orjson.dumps(dict(metadata)).decode() if metadata else None
    return {
        "memory_kind": kind,
        "importance": float(importance),
        "tags": list(tags) or None,
        "metadata": metadata,
    }


def metadata_of(row: FactRow) -> dict[str, Any]:
    """Return what a memory's maker says about it; nothing where that cannot be read."""
    try:
        found = orjson.loads(row.attributes.get("metadata") or "{}")
    except (orjson.JSONDecodeError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def memory_uuid(group: str, key: str) -> str:
    """Return the uuid of the memory that a request makes.

    Args:
        group: The group id.
        key: The request's name.
    """
    return note_uuid(group, "memory", key)


def observation_uuid(group: str, key: str) -> str:
    """Return the uuid of the episode that a request writes; the arguments are as above."""
    return note_uuid(group, "observation", key)
