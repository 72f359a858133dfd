"""What memories cost in the graph server, and how long a runaway read holds others up."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import redis.asyncio as redis
from figures import Figure, main, note
from graphs import graph_server, load_passages, rss_mb
from words import Dialogue

from gralkord.errors import BackendUnavailable
from gralkord.evaluation.retrieval import percentile
from gralkord.groups import Group
from gralkord.providers.local import LocalEmbedder

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from gralkord.graph.connection import GraphConnection

# What recall allows for one read, in milliseconds.
READ_MS = 200
# Buffers of clients and of the append-only file are given back by then.
SETTLE_SECONDS = 10.0
RUNAWAY = "MATCH (a:Passage), (b:Passage), (c:Passage) WHERE a.seq + b.seq = c.seq RETURN count(*)"


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Fill a server with groups, then with passages; then let a read run away beside a writer."""
    embedder = LocalEmbedder()
    texts = list(Dialogue().sentences(options.passages))
    big = Group("default", "memory", "default").id
    async with graph_server() as (graph, socket, pid):
        for number in range(20):  # what the server takes once for all
            await load_passages(graph, _group("warm", number), texts[:20], embedder)
        note(f"making {options.groups} groups")
        before = rss_mb(pid)
        for number in range(options.groups):
            await graph.ensure_group(_group("empty", number))
        empty = (rss_mb(pid) - before) / options.groups
        note(f"writing {options.passages:,} passages")
        before = rss_mb(pid)
        await load_passages(graph, big, texts, embedder)
        await asyncio.sleep(SETTLE_SECONDS)
        each = (rss_mb(pid) - before) / (options.passages / 1_000)
        times = await _beside(graph, socket, big, options.seconds)
    return [
        Figure("memory of an empty group", empty, "MB", 0.2),
        Figure("memory of 1,000 passages with vectors", each, "MB", 1.5),
        Figure("GET beside a runaway read and a writer, p50", percentile(times, 50), "ms"),
        Figure("GET beside a runaway read and a writer, p95", percentile(times, 95), "ms", 250.0),
        Figure("  the longest", max(times), "ms"),
    ]


async def _beside(graph: GraphConnection, socket: Path, group: str, seconds: int) -> list[float]:
    """Return the milliseconds that each GET took while a read without end and a writer run."""
    ended = time.monotonic() + seconds
    stopped = written = 0

    async def run_away() -> None:
        nonlocal stopped
        while time.monotonic() < ended:
            try:
                await graph.read(group, RUNAWAY, timeout_ms=READ_MS)
            except BackendUnavailable:
                stopped += 1

    async def write() -> None:
        nonlocal written
        while time.monotonic() < ended:
            await graph.write(group, "MATCH (m:Meta) SET m.bench = timestamp()")
            written += 1

    tasks = [asyncio.create_task(run_away()), asyncio.create_task(write())]
    times = []
    async with redis.Redis(unix_socket_path=str(socket)) as client:
        while time.monotonic() < ended:
            began = time.perf_counter()
            await client.get("nothing")
            times.append((time.perf_counter() - began) * 1_000)
            await asyncio.sleep(0.01)
    await asyncio.gather(*tasks)
    if not stopped or not written:
        raise RuntimeError(f"{stopped} reads were stopped and {written} writes made")
    return times


def _group(name: str, number: int) -> str:
    return Group("default", f"{name}{number}", "default").id


if __name__ == "__main__":
    main(__doc__ or "", measure, groups=500, passages=50_000, seconds=10)
