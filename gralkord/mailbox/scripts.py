"""The Lua scripts: read from their files, called by name."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Final

from redis.asyncio import Redis
from redis.commands.core import AsyncScript

from gralkord.mailbox.connection import queue_errors

# At plain OOM not even finished work could be committed, so that the queue would stay full; only
# the ways in stay closed.
_REFUSED_WHEN_FULL: Final = frozenset({"capture", "request"})

NAMES: Final = (
    "acquire",
    "answer",
    "backlog",
    "budget_held",
    "capture",
    "commit",
    "dead_drop",
    "dead_retry",
    "deliver",
    "erase_entries",
    "erase_mark",
    "expunge",
    "fail",
    "flush",
    "flush_due",
    "guard",
    "job",
    "lead",
    "model_answered",
    "model_ask",
    "model_failed",
    "model_keep",
    "model_limited",
    "model_withdrawn",
    "more",
    "release",
    "renew",
    "request",
    "restream",
    "route",
    "seize",
    "spend",
    "spend_forget",
    "sweep",
    "unbuffer",
)


@cache
def source(name: str) -> str:
    """Return the text of one script, the shared functions before it."""
    folder = resources.files("gralkord.mailbox") / "lua"
    shared = ("lib", "model_lib") if name.startswith("model_") else ("lib",)
    body = "".join((folder / f"{each}.lua").read_text() for each in (*shared, name))
    flags = "" if name in _REFUSED_WHEN_FULL else "#!lua flags=allow-oom\n"
    return flags + body


class Scripts:
    """The scripts of one client."""

    def __init__(self, client: Redis, prefix: str) -> None:
        self._prefix = prefix
        self._scripts: dict[str, AsyncScript] = {
            name: client.register_script(source(name)) for name in NAMES
        }

    async def call(self, name: str, *args: str | bytes | int, client: Any = None) -> Any:
        """Run a script; with a pipeline as *client* it is queued there.

        Raises:
            GralkorError: As `gralkord.mailbox.connection.queue_errors`.
        """
        with queue_errors():
            return await self._scripts[name](keys=[self._prefix], args=args, client=client)
