"""Facts found among many, beside stock graphiti's search over the same ones on the same server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from figures import Figure, main, note
from graphs import graph_server, load_facts
from stock import StockGraphiti
from words import Dialogue

from gralkord.clock import SystemClock
from gralkord.config import RecallSettings
from gralkord.evaluation.retrieval import percentile
from gralkord.graph.cache import CachePool
from gralkord.groups import Group
from gralkord.models import RecallRequest
from gralkord.providers.local import LocalEmbedder
from gralkord.recall.recall import Recaller

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from gralkord.graph.connection import GraphConnection

RESULTS = 10
ROOM = 4 * 2**30


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Ask both sides the same questions, at both sizes."""
    figures = []
    sizes = ((options.small, 5.0, 20.0), (options.large, 15.0, 50.0))
    for size, limit, times in sizes:
        async with graph_server() as (graph, socket, _):
            figures += await _measure(graph, socket, options, size, limit, times)
    return figures


async def _measure(
    graph: GraphConnection,
    socket: Path,
    options: argparse.Namespace,
    size: int,
    limit: float,
    times: float,
) -> list[Figure]:
    dialogue, embedder = Dialogue(), LocalEmbedder()
    facts = list(dialogue.sentences(size))
    group = Group("default", "facts", "default")
    note(f"writing {size:,} facts for both")
    await load_facts(graph, group.id, facts, embedder)
    stock = StockGraphiti(socket, embedder)
    await stock.load(facts)
    caches = CachePool(graph, ROOM)
    recaller = Recaller(caches, embedder, RecallSettings(), SystemClock())

    async def ours(query: str) -> int:
        request = RecallRequest(
            operator="facts", query=query, max_results=RESULTS, deadline_ms=120_000
        )
        found = await recaller.recall("default", request, [group])
        if found.degraded:
            raise RuntimeError(f"the answer is without {found.degraded}: {found.notes}")
        return len(found.results)

    async def theirs(query: str) -> int:
        return await stock.search(query, RESULTS)

    await caches.fresh(group.id, timeout_ms=10_000)
    warm, *questions = dialogue.questions(options.questions + 1)
    await _times(ours, [warm])
    await _times(theirs, [warm])
    mine = percentile(await _times(ours, questions), 50)
    other = percentile(await _times(theirs, questions[: options.stock_questions]), 50)
    await stock.close()
    await caches.close()
    return [
        Figure(f"facts found among {size:,}, p50", mine, "ms", limit),
        Figure("  stock search_() over the same, p50", other, "ms"),
        Figure("  stock p50 over ours", other / mine, "x", least=times),
    ]


async def _times(ask: Callable[[str], Awaitable[int]], questions: Sequence[str]) -> list[float]:
    times = []
    for question in questions:
        began = time.perf_counter()
        found = await ask(question)
        times.append((time.perf_counter() - began) * 1_000)
        if not found:
            raise RuntimeError(f"nothing was found for {question!r}")
    return times


if __name__ == "__main__":
    main(__doc__ or "", measure, small=10_000, large=100_000, questions=200, stock_questions=12)
