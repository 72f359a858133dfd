"""What storing costs an HTTP capture, beside a handler that only validates the same body."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import redis
from figures import Figure, main
from http_parts import CONNECTIONS, VALIDATE

from gralkord.embedded.probes import wait_for_server
from gralkord.embedded.servers import ServerSpec

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

PARTS = Path(__file__).parent / "http_parts.py"


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Load both servers in turn, round by round; a round's ratio says what storing costs."""
    async with AsyncExitStack() as stack:
        queue = await stack.enter_async_context(queue_server())
        checking = await stack.enter_async_context(http_server(VALIDATE))
        storing = await stack.enter_async_context(http_server(str(queue)))
        synced = await asyncio.to_thread(_sync_ms, queue)
        seconds = options.milliseconds / 1000
        checked, stored = await _load(options.rounds, seconds, checking, storing)
    ratios = [one / other for one, other in zip(stored, checked, strict=True)]
    name = f"HTTP capture, {CONNECTIONS} connections"
    return [
        Figure("one SET, synced to the disk", synced, "ms"),
        Figure(f"{name}, only validated", statistics.median(checked), "/s"),
        Figure(f"{name}, stored", statistics.median(stored), "/s"),
        Figure(f"{name}, stored to validated", statistics.median(ratios), "x", least=0.6),
    ]


@asynccontextmanager
async def queue_server() -> AsyncIterator[Path]:
    """Start a queue that syncs each write; give its socket; stop it."""
    with tempfile.TemporaryDirectory(prefix="gk-") as name:
        place = Path(name)
        spec = ServerSpec("queue", place / "queue", place / "q.sock", durability="always")
        process = spec.start()
        try:
            await wait_for_server(spec.socket)
            yield spec.socket
        finally:
            process.kill()
            process.wait()


@asynccontextmanager
async def http_server(place: str) -> AsyncIterator[int]:
    """Start a server process; give its port; stop it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PARTS), "serve", place), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


def _sync_ms(queue: Path) -> float:
    """Return what one write to *queue* takes, in ms: whoever waits for the disk waits for this."""
    times = []
    with redis.Redis(unix_socket_path=str(queue)) as client:
        for _ in range(200):
            began = time.perf_counter()
            client.set("probe", 1)
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1_000


async def _load(rounds: int, seconds: float, *ports: int) -> list[list[float]]:
    """Load the servers in turn, from a process of its own; return the rates of each."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PARTS), "load", str(rounds), str(seconds), *map(str, ports)),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    rates: list[list[float]] = json.loads(out)
    return rates


if __name__ == "__main__":
    main(__doc__ or "", measure, rounds=15, milliseconds=400)
