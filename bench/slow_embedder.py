"""How soon a turn is recallable by its words while its vector takes two seconds."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from daemon import client_of
from figures import Figure, main

from gralkord.evaluation.stack import Stack, temporary_data_dir
from gralkord.testing.faults import FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

if TYPE_CHECKING:
    import argparse

    from gralkord.client.client import AsyncClient

LOOK_SECONDS = 0.005


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Capture turns one after the other; each has a word of its own."""
    faults = FaultPlan(latency_ms=options.latency_ms)
    with ScriptedModelServer(faults=faults) as model, temporary_data_dir() as path:
        config = path / "bench.toml"
        config.write_text(f'[models]\nllm = "none"\nembedder = "{model.spec}"\n')
        async with (
            Stack(path, ("--config", str(config))) as stack,
            client_of(stack) as client,
        ):
            await _recallable(client, 0)  # which makes the group
            took = sorted([await _recallable(client, n) for n in range(1, options.turns + 1)])
            began = time.perf_counter()
            while (await client.status())["vectors"]["groups_waiting"]:  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)
            followed = time.perf_counter() - began
    return [
        Figure("recallable by words after, the median", 1_000 * took[len(took) // 2], "ms"),
        Figure("  the slowest", 1_000 * took[-1], "ms", 250.0),
        Figure("the last vector has followed after", followed, "s"),
        Figure("calls for all vectors", sum(bool(each.texts) for each in model.requests), ""),
    ]


async def _recallable(client: AsyncClient, number: int) -> float:
    """Capture a turn; return the seconds until it is found."""
    word = f"zebra{number}x"
    began = time.perf_counter()
    await client.capture(
        operator="ada",
        session=f"s{number}",
        agent="helper",
        user="Ada",
        turn=[{"role": "user", "content": f"The word is {word}."}],
    )
    while True:
        found = await client.recall("ada", word, deadline_ms=50)
        if any(word in memory.text for memory in found.results):
            return time.perf_counter() - began
        await asyncio.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main(__doc__ or "", measure, turns=50, latency_ms=2_000)
