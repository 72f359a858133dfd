"""How much CPU an idle `up` uses: daemon, worker and both servers, with a model and without."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from daemon import client_of, indexed
from figures import Figure, main, note
from processes import children, cpu_seconds
from words import Dialogue

from gralkord.evaluation.stack import Stack, temporary_data_dir
from gralkord.testing.model_server import ScriptedModelServer

if TYPE_CHECKING:
    import argparse

LIMIT_PERCENT = 4.0
# What start and first use have set going has ended by then.
SETTLE_SECONDS = 5.0
TURNS = 100
PARTS = ("daemon", "worker", "queue", "graph")


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Let `up` stand idle, without a model and with one, after it has been used."""
    with ScriptedModelServer() as model:
        without = await _idle("none", options.seconds)
        configured = await _idle(model.spec, options.seconds)
    return [
        *_figures("idle up, no model", without),
        *_figures("idle up, a model configured", configured),
    ]


async def _idle(model: str, seconds: int) -> dict[str, float]:
    """Return the CPU time of each part in percent of one core."""
    with temporary_data_dir() as path:
        async with Stack(path, ("--model", model)) as stack, client_of(stack) as client:
            await client.capture_many(list(Dialogue().captures(TURNS, "idle bench")))
            await indexed(stack)
            await client.recall("idle bench", "Who was in the garden?")
            await asyncio.sleep(SETTLE_SECONDS)
            note(f"watching an idle up for {seconds} s, model: {model}")
            parts = children(stack.pid) | {"up": stack.pid}
            before = {name: cpu_seconds(pid) for name, pid in parts.items()}
            began = time.monotonic()
            await asyncio.sleep(seconds)
            passed = time.monotonic() - began
            return {
                name: (cpu_seconds(pid) - before[name]) / passed * 100
                for name, pid in parts.items()
            }


def _figures(name: str, used: dict[str, float]) -> list[Figure]:
    return [
        Figure(name, sum(used.values()), "%", LIMIT_PERCENT),
        *(Figure(f"  of which {part}", used[part], "%") for part in (*PARTS, "up")),
    ]


if __name__ == "__main__":
    main(__doc__ or "", measure, seconds=30)
