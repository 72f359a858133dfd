"""How memories move to another embedder while they are used and the daemon is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon import client_of, indexed, load
from figures import Figure, main, note
from processes import children
from words import Dialogue

from gralkord.errors import GralkorError
from gralkord.evaluation.stack import Stack, temporary_data_dir
from gralkord.testing.faults import FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from gralkord.client.client import AsyncClient
    from gralkord.testing.wire import Entry

OPERATORS = ("ada", "bob")
PAUSE_SECONDS = 0.05


@dataclass(slots=True)
class Seen:
    """What recalls told while memories moved."""

    took: list[float] = field(default_factory=list)
    degraded: int = 0
    away: int = 0


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Fill a memory with the local embedder's vectors, and move it to a scripted server's."""
    with ScriptedModelServer() as model, temporary_data_dir() as path:
        old = ("--model", "none")
        async with Stack(path, old) as stack, client_of(stack) as client:
            note(f"writing {options.turns:,} turns of {len(OPERATORS)} operators")
            for seed, operator in enumerate(OPERATORS):
                await load(client, Dialogue(seed).captures(options.turns // 2, operator))
            await indexed(stack)
        config = path / "bench.toml"
        config.write_text(
            f'[models]\nllm = "none"\nembedder = "{model.spec}"\nembedders_before = ["local"]\n'
        )
        model.set_faults(FaultPlan(latency_ms=options.latency_ms))
        async with Stack(path, ("--config", str(config))) as stack:
            seen, done = Seen(), asyncio.Event()
            asking = asyncio.create_task(_ask(stack, seen, done))
            started = time.perf_counter()
            runs = [await _move(stack, kill_after=rows) for rows in _kills(options)]
            seconds = time.perf_counter() - started
            done.set()
            await asking
            async with client_of(stack) as client:
                left = [each async for each in client.reembed(dry_run=True)]
                checked = [each async for each in client.reindex()]
    rows = sum(each.rows for each in checked)
    seen.took.sort()
    return [
        Figure("rows without a vector of the new embedder", sum(e.rows for e in left), "", 0),
        Figure("rows in memory that differ from the graph", sum(e.left for e in checked), "", 0),
        Figure("recalls that were degraded meanwhile", seen.degraded, "", 0),
        Figure("recalls meanwhile", len(seen.took), ""),
        Figure("  the median took", 1_000 * seen.took[len(seen.took) // 2], "ms"),
        Figure("  the slowest of a hundred took", 1_000 * seen.took[-len(seen.took) // 100], "ms"),
        Figure("kills of the daemon", sum(not ended for ended in runs), ""),
        Figure("texts sent, of the rows", _texts(model.requests) / rows, "x", 1.1),
        Figure("rows moved, kills and restarts included", rows / seconds, "/s"),
    ]


def _texts(requests: Sequence[Entry]) -> int:
    return sum(each.texts or 0 for each in requests)


def _kills(options: argparse.Namespace) -> list[int | None]:
    return [*[options.turns * share // 10 for share in (3, 6)][: options.kills], None]


async def _move(stack: Stack, kill_after: int | None) -> bool:
    """Move everything, or kill the daemon after some rows; whether it ended."""
    total, last = 0, 0
    try:
        async with client_of(stack) as client:
            async for step in client.reembed():
                total += step.embedded - last
                last = 0 if step.done else step.embedded
                if kill_after is not None and total >= kill_after:
                    note(f"killing the daemon after {total:,} rows")
                    os.kill(children(stack.pid)["daemon"], signal.SIGKILL)
    except GralkorError:
        while not await _answers(stack):  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_SECONDS)
        return False
    return True


async def _answers(stack: Stack) -> bool:
    try:
        async with client_of(stack, timeout=5.0) as client:
            await client.recall(OPERATORS[0], "are you there")
    except (GralkorError, OSError):
        return False
    return True


async def _ask(stack: Stack, seen: Seen, done: asyncio.Event) -> None:
    """Recall again and again; what a daemon that is away does not answer is counted apart."""
    questions = Dialogue(0).questions(200)
    number = 0
    while not done.is_set():
        try:
            async with client_of(stack, timeout=30.0) as client:
                while not done.is_set():
                    number += 1
                    await _ask_once(client, questions[number % 200], number, seen)
                    await asyncio.sleep(PAUSE_SECONDS)
        except (GralkorError, OSError):
            seen.away += 1
            await asyncio.sleep(PAUSE_SECONDS)


async def _ask_once(client: AsyncClient, question: str, number: int, seen: Seen) -> None:
    began = time.perf_counter()
    found = await client.recall(OPERATORS[number % len(OPERATORS)], question)
    seen.took.append(time.perf_counter() - began)
    if found.degraded:
        seen.degraded += 1
        note(f"degraded: {found.degraded} {found.notes}")


if __name__ == "__main__":
    main(__doc__ or "", measure, turns=20_000, latency_ms=20, kills=2)
