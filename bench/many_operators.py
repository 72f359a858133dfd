"""A thousand operators: as many graphs as groups were written, none for those only asked for."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import redis.asyncio as redis
from daemon import indexed, running
from figures import Figure, main, note
from words import Dialogue

from gralkord.errors import NotFound
from gralkord.evaluation.retrieval import percentile

if TYPE_CHECKING:
    import argparse

    from gralkord.client.client import AsyncClient
    from gralkord.evaluation.stack import Stack

AT_ONCE = 16


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Capture for all of them, ask each, ask as many strangers, and count the graphs."""
    wanted = options.operators
    async with running() as (stack, client):
        note(f"capturing {options.turns} turns for each of {options.operators} operators")
        began = time.perf_counter()
        await _each(options.operators, lambda number: _capture(client, number, options.turns))
        await indexed(stack)
        seconds = time.perf_counter() - began
        graphs = await _graphs(stack)
        note("recalling, of each of them and of as many strangers")
        times: list[float] = []
        await _each(options.operators, lambda number: _recall(client, number, times))
        await _each(options.operators, lambda number: _strange(client, number))
        status = await client.status()
        after = await _graphs(stack)
    return [
        Figure(f"graphs for {wanted:,} operators", graphs, "", wanted, wanted),
        Figure("  graphs after as many strangers were asked for", after, "", graphs),
        Figure("  passages in them", status["graph"]["passages"], ""),
        Figure("  turns captured and indexed", options.operators * options.turns / seconds, "/s"),
        Figure(
            f"  first recall of an operator, {AT_ONCE} at once, p50", percentile(times, 50), "ms"
        ),
    ]


async def _each(count: int, work) -> None:  # noqa: ANN001
    for start in range(0, count, AT_ONCE):
        await asyncio.gather(*(work(n) for n in range(start, min(start + AT_ONCE, count))))


async def _capture(client: AsyncClient, number: int, turns: int) -> None:
    captures = list(Dialogue(seed=number).captures(turns, f"op-{number}"))
    for outcome in await client.capture_many(captures):
        if isinstance(outcome, Exception):
            raise outcome


async def _recall(client: AsyncClient, number: int, times: list[float]) -> None:
    [question] = Dialogue(seed=number).questions(1)
    began = time.perf_counter()
    answer = await client.recall(f"op-{number}", question)
    times.append((time.perf_counter() - began) * 1_000)
    if not answer.results or answer.degraded:
        raise RuntimeError(f"operator {number}: {len(answer.results)} results, {answer.degraded}")


async def _strange(client: AsyncClient, number: int) -> None:
    answer = await client.recall(f"stranger {number}", "who was there?")
    if answer.results or answer.degraded:
        raise RuntimeError("a stranger has memories")
    if number % 10 == 0:
        try:
            _ = [group async for group in client.reindex(f"stranger {number}", check=True)]
        except NotFound:
            return
        raise RuntimeError("a stranger has a group")


async def _graphs(stack: Stack) -> int:
    async with redis.Redis(unix_socket_path=str(stack.graph_socket)) as graph:
        return len(await graph.execute_command("GRAPH.LIST"))


if __name__ == "__main__":
    main(__doc__ or "", measure, operators=1_000, turns=20)
