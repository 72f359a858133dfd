"""A turn becomes passages: its messages verbatim, long ones in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson

from gralkord.graph.passages import Passage, passage_uuid
from gralkord.models.pieces import pieces
from gralkord.models.places import content_key

MAX_CHARS: Final = 2_000


def speaker_of(message: Mapping[str, Any], user: str, agent: str) -> str:
    """Return who says *message*: its own speaker, else the turn's user or agent by its role."""
    return str(message.get("speaker") or (user if message["role"] == "user" else agent))


def passages_of(group: str, body: Mapping[str, Any]) -> list[Passage]:
    """Return the passages of one turn as *group* keeps them.

    Args:
        group: Id of the group; part of each passage's uuid, so that groups never share one.
        body: The index item's body, as `gralkord.intake.plan` makes it.
    """
    found = []
    event_time = datetime.fromisoformat(body["event_time"])
    metadata = body.get("metadata")
    placed = body["source"] is not None and body["offset"] is not None
    content = content_key(body["messages"]) if placed else None
    through = tuple(body.get("through", {}).get(group, ()))
    for index, message in enumerate(body["messages"]):
        if not message["content"].strip():
            continue
        for part, text in enumerate(pieces(message["content"], MAX_CHARS)):
            found.append(
                Passage(
                    uuid=passage_uuid(group, body["turn_id"], index, part),
                    text=text,
                    speaker=speaker_of(message, body["user"], body["agent"]),
                    role=message["role"],
                    agent=body["agent"],
                    session=body["session"],
                    ordinal=body["ordinal"] + index,
                    part=part,
                    event_time=event_time,
                    turn_id=body["turn_id"],
                    source=body["source"],
                    offset=body["offset"],
                    content=content,
                    metadata=orjson.dumps(metadata).decode() if metadata else None,
                    form=body.get("form"),
                    description=body.get("description"),
                    through=through,
                )
            )
    return found
