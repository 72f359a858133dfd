"""Have a Redis server forget what it keeps besides the data: slow queries, and its file's past."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from gralkord.errors import GralkorError

POLL_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 600.0

# Sends one command to a server and returns its reply.
Ask = Callable[..., Awaitable[Any]]


async def forget_past(name: str, ask: Ask, graphs: Iterable[str] = ()) -> list[str]:
    """Reset the slow logs and have the append-only file written anew.

    Args:
        name: What the server is called in the answer.
        ask: Sends a command to it.
        graphs: Graphs whose own slow logs are reset, too.

    Returns:
        What the server would not do.
    """
    refused: list[str] = []
    for words in (("SLOWLOG", "RESET"), *(("GRAPH.SLOWLOG", graph, "RESET") for graph in graphs)):
        try:
            await ask(*words)
        except GralkorError as error:
            refused.append(f"{name}: {words[0]} is not reset: {error.message}")
    try:
        reason = await _rewrite(ask)
    except GralkorError as error:
        reason = error.message
    except TimeoutError:
        reason = f"it has taken longer than {LONGEST_SECONDS:g} s"
    return [*refused, f"{name}: its file is not written anew: {reason}"] if reason else refused


async def _rewrite(ask: Ask) -> str | None:
    """Have the file written anew and wait for the end of it; return why that could not be."""
    if (await _state(ask)).get("aof_enabled") != "1":
        return "it keeps no append-only file; its snapshots hold the past until the next one"
    async with asyncio.timeout(LONGEST_SECONDS):
        await _idle(ask)  # one that runs already may have begun before the last of what was erased
        await ask("BGREWRITEAOF")
        state = await _idle(ask)
    return None if state.get("aof_last_bgrewrite_status") == "ok" else "the server has failed"


async def _idle(ask: Ask) -> dict[str, str]:
    while True:
        state = await _state(ask)
        busy = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
        if not any(state.get(name) == "1" for name in busy):
            return state
        await asyncio.sleep(POLL_SECONDS)  # the server sends no word when it is done


async def _state(ask: Ask) -> dict[str, str]:
    """Return the server's word on its files; a client may have read it already."""
    said = await ask("INFO", "persistence")
    if isinstance(said, dict):
        return {str(name): str(value) for name, value in said.items()}
    text = said.decode() if isinstance(said, bytes) else str(said)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
