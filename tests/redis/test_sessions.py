"""What a session has not flushed yet."""

from __future__ import annotations

import pytest

from gralkord.config import Server
from gralkord.errors import BackendUnavailable
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.sessions import SessionBuffers
from gralkord.models import Capture


def turn(session, number, operator="ann"):
    names = {"session": session, "operator": operator, "agent": "bot", "user": operator}
    said = [{"role": "user", "content": "hello"}]
    return Capture.model_validate({**names, "turn": said, "turn_id": f"{operator}-{number}"})


async def test_turns_are_unflushed_until_they_are_flushed(
    queue, keys, producer, make_router, rings
):
    """In their order, of that session and tenant alone."""
    sessions, router = SessionBuffers(queue, keys), await make_router()
    await producer.capture("default", [turn("s", 1), turn("s", 2), turn("t", 1, "bob")])
    await router.route(rings)
    assert await sessions.unflushed("default", "s") == ["ann-1", "ann-2"]
    assert await sessions.unflushed("default", "t") == ["bob-1"]
    assert await sessions.unflushed("other", "s") == []
    await producer.flush("default", "s", "ann")
    await router.route(rings)
    assert await sessions.unflushed("default", "s") == []


async def test_a_queue_that_is_not_there_is_an_outage(keys, tmp_path):
    """Whoever recalls goes on without it."""
    client = open_queue(Server(socket=tmp_path / "nobody"))
    with pytest.raises(BackendUnavailable):
        await SessionBuffers(client, keys).unflushed("default", "s")
    await client.aclose()
