"""How soon `gralkord up` is ready: on an empty directory, and after SIGKILL with much in it."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from daemon import OPTIONS, client_of, load
from figures import Figure, main, note
from words import Dialogue

from gralkord.evaluation.stack import Stack, temporary_data_dir

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

OPERATOR = "startup bench"


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Start, stop, start again, fill, kill, and start once more."""
    with temporary_data_dir() as path:
        empty, _ = await _start(path)
        again, _ = await _start(path)
        seconds = await _fill_and_kill(path, options.passages)
        killed, (graph, recall) = await _start(path, ask=True)
    count = f"{options.passages:,}"
    return [
        Figure("up ready, empty directory", empty, "s", 6.0),
        Figure("up ready, after a stop", again, "s", 6.0),
        Figure(f"up ready, after SIGKILL with {count} passages", killed, "s", 6.0),
        Figure("  its graph ready", graph, "s"),
        Figure("  its first recall answered", recall, "s"),
        Figure(f"import of {count} turns", seconds, "s"),
    ]


async def _start(path: Path, *, ask: bool = False) -> tuple[float, tuple[float, float]]:
    """Return the seconds until ready, and until the graph is and the first recall is answered."""
    stack = Stack(path, OPTIONS)
    began = time.perf_counter()
    try:
        await stack.start()
        ready = time.perf_counter() - began
        await stack.wait_graph()
        graph = time.perf_counter() - began
        if ask:
            await _recall_all(stack)
        return ready, (graph, time.perf_counter() - began)
    finally:
        await stack.stop()


async def _recall_all(stack: Stack) -> None:
    async with client_of(stack) as client:
        query = Dialogue().questions(1)[0]
        answer = await client.recall(OPERATOR, query, deadline_ms=120_000)
        if not answer.results or answer.partial:
            raise RuntimeError("the memories are not there after the restart")


async def _fill_and_kill(path: Path, passages: int) -> float:
    stack = Stack(path, OPTIONS)
    await stack.start()
    try:
        async with client_of(stack) as client:
            note(f"importing {passages:,} turns")
            dialogue = Dialogue(session_turns=500)
            return await load(client, dialogue.captures(passages, OPERATOR))
    finally:
        await stack.stop(signal.SIGKILL)


if __name__ == "__main__":
    main(__doc__ or "", measure, passages=100_000)
