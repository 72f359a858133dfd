"""Rows for tests, with everything that a test does not care about filled in."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from gralkord.graph.cache import GroupCache
from gralkord.graph.rows import EntityRow, FactRow, PassageRow

MAY_FIRST = datetime(2024, 5, 1, 12, tzinfo=UTC)


def uuid_of(name: object) -> str:
    """Return a uuid that stands for *name*."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(name)))


def passage(text: str, ordinal: int = 0, **values) -> PassageRow:
    """Return a passage; its uuid follows from its session, ordinal and part."""
    moment = values.pop("at", MAY_FIRST)
    session, part = values.get("session", "s"), values.get("part", 0)
    defaults = {
        "uuid": uuid_of((session, ordinal, part)),
        "speaker": "Ann",
        "role": "user",
        "agent": "helper",
        "session": session,
        "part": part,
        "event_time": moment.isoformat().replace("+00:00", "Z"),
        "event_ms": int(moment.timestamp() * 1000),
        "turn_id": f"{session}-{ordinal}",
        "source": None,
        "offset": None,
        "created_ms": 0,
        "waiting": True,
        "episode": None,
        "invalid_at": None,
        "seq": 1,
    }
    return PassageRow(text=text, ordinal=ordinal, **(defaults | values))


def fact(text: str, **values) -> FactRow:
    """Return a fact; its uuid follows from its text."""
    defaults = {
        "uuid": uuid_of(text),
        "name": "KNOWS",
        "source_uuid": uuid_of("a"),
        "target_uuid": uuid_of("b"),
        "group_id": "g",
        "created_at": None,
        "valid_at": None,
        "invalid_at": None,
        "expired_at": None,
        "reference_time": None,
        "episodes": (),
        "attributes": {},
        "seq": 1,
    }
    return FactRow(fact=text, **(defaults | values))


def entity(name: str, **values) -> EntityRow:
    """Return an entity; its uuid follows from its name."""
    defaults = {
        "uuid": uuid_of(name),
        "summary": "",
        "labels": ("Entity",),
        "group_id": "g",
        "created_at": None,
        "attributes": {},
        "seq": 1,
    }
    return EntityRow(name=name, **(defaults | values))


def cache_of(*rows, group: str = "g") -> GroupCache:
    """Return a group that holds these rows, without vectors."""
    cache = GroupCache(group, 1, "run")
    for row in rows:
        table = cache.passages if isinstance(row, PassageRow) else cache.facts
        if isinstance(row, EntityRow):
            table = cache.entities
        table.put(row, None)
    return cache
