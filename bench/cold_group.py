"""A large group that nobody has asked for yet: when it answers, and when the answer is whole."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from figures import Figure, main, note
from graphs import graph_server, load_facts, load_passages
from words import Dialogue

from gralkord.clock import SystemClock
from gralkord.config import RecallSettings
from gralkord.graph.cache import CachePool
from gralkord.groups import Group
from gralkord.models import RecallRequest
from gralkord.providers.local import LocalEmbedder
from gralkord.recall.recall import Recaller

if TYPE_CHECKING:
    import argparse

    from gralkord.models import RecallResult

ROOM = 4 * 2**30
OPERATOR = "cold"
SHORT_MS = 2_000
GIVE_UP_SECONDS = 300.0


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Write a group, then ask for it with empty memory, again and again until it is whole."""
    dialogue, embedder = Dialogue(), LocalEmbedder()
    group = Group("default", OPERATOR, "default")
    async with graph_server() as (graph, _, _):
        note(f"writing {options.rows:,} passages and as many facts")
        texts = list(dialogue.sentences(options.rows))
        await load_passages(graph, group.id, texts, embedder)
        await load_facts(graph, group.id, texts, embedder)
        [question] = dialogue.questions(1)

        async def ask(recaller: Recaller, **limits: int) -> tuple[RecallResult, float]:
            began = time.perf_counter()
            request = RecallRequest(operator=OPERATOR, query=question, **limits)
            answer = await recaller.recall("default", request, [group])
            return answer, (time.perf_counter() - began) * 1_000

        await embedder.embed([question])
        caches = CachePool(graph, ROOM)
        recaller = Recaller(caches, embedder, RecallSettings(), SystemClock())
        began = time.perf_counter()
        first, short = await ask(recaller, deadline_ms=SHORT_MS)
        answer = first
        while answer.partial and time.perf_counter() - began < GIVE_UP_SECONDS:
            answer, _ = await ask(recaller, deadline_ms=SHORT_MS)
        whole = time.perf_counter() - began
        megabytes = caches.nbytes / 1_000_000
        await caches.close()
        caches = CachePool(graph, ROOM)
        recaller = Recaller(caches, embedder, RecallSettings(), SystemClock())
        _, default = await ask(recaller)
        await caches.close()
    limit = RecallSettings().deadline_ms
    if not first.partial or "graph" not in first.degraded:
        note("it was whole within the first deadline")
    return [
        Figure(
            f"first answer within {SHORT_MS:,} ms, {len(first.results)} found", short, "ms", 2_200
        ),
        Figure("  of which says that it is partial", float(first.partial), "", None, 1.0),
        Figure("whole answer after", whole, "s", 60.0),
        Figure("  is partial or degraded", float(answer.partial or bool(answer.degraded)), "", 0.0),
        Figure("first answer with the default deadline", default, "ms", limit + 200.0),
        Figure("  memory of the group", megabytes, "MB"),
    ]


if __name__ == "__main__":
    main(__doc__ or "", measure, rows=100_000)
