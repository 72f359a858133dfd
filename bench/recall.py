"""Recall over many passages, beside stock graphiti's search over as many facts on one server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from daemon import load, running
from figures import Figure, main, note
from stock import StockGraphiti
from words import Dialogue

from gralkord.evaluation.retrieval import percentile
from gralkord.providers.local import LocalEmbedder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Sequence

OPERATOR = "recall bench"
RESULTS = 10


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Load both sides with the same texts and ask both the same questions, in turns."""
    dialogue = Dialogue()
    async with running() as (stack, client):
        note(f"importing {options.passages:,} turns")
        await load(client, dialogue.captures(options.passages, OPERATOR))
        stock = StockGraphiti(stack.graph_socket, LocalEmbedder())
        note(f"writing {options.passages:,} facts for stock graphiti")
        await stock.load(list(dialogue.sentences(options.passages)))

        inside: list[float] = []

        async def ours(query: str) -> int:
            answer = await client.recall(OPERATOR, query, max_results=RESULTS, interpret="off")
            inside.append(answer.took_ms)
            return len(answer.results)

        async def theirs(query: str) -> int:
            return await stock.search(query, RESULTS)

        warm, *questions = dialogue.questions(options.questions + 1)
        await ours(warm)
        await theirs(warm)
        mine = await _times(ours, questions)
        other = await _times(theirs, questions[: options.stock_questions])
        await stock.close()
    middle = percentile(mine, 50)
    return [
        Figure(f"recall over {options.passages:,} passages, p50", middle, "ms", 12.0),
        Figure(f"recall over {options.passages:,} passages, p95", percentile(mine, 95), "ms"),
        Figure("  of which inside the daemon, p50", percentile(inside[1:], 50), "ms"),
        Figure(
            f"stock search_() over {options.passages:,} facts, p50", percentile(other, 50), "ms"
        ),
        Figure("stock p50 over ours", percentile(other, 50) / middle, "x", least=10.0),
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
    main(__doc__ or "", measure, passages=10_000, questions=300, stock_questions=60)
