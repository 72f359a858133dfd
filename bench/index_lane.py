"""How many turns a second `up` indexes: from the intake stream to the graphs of many operators."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import redis.asyncio as redis
from daemon import indexed, running
from figures import Figure, main, note
from processes import children, cpu_seconds
from words import Dialogue

from gralkord.groups import DEFAULT_TENANT, Group
from gralkord.mailbox.keys import Keys

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from gralkord.evaluation.stack import Stack

BATCH = 500
GIVE_UP_SECONDS = 600.0


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Write turns to the stream; wait until all are in the graphs and no mailbox has any left."""
    entries = list(_entries(options.turns, options.groups))
    async with running() as (stack, _):
        await _run(stack, list(_entries(options.groups, options.groups, "warm")))
        parts = children(stack.pid)
        before = {name: cpu_seconds(pid) for name, pid in parts.items()}
        note(f"indexing {options.turns:,} turns of {options.groups} operators")
        written, seconds = await _run(stack, entries)
        used = {name: cpu_seconds(pid) - before[name] for name, pid in parts.items()}
        await _check(stack, options)
    each = {name: value / options.turns * 1_000_000 for name, value in used.items()}
    groups = options.groups
    return [
        Figure(f"index lane, {groups} groups", options.turns / seconds, "/s", least=1_000.0),
        Figure("  writing them to the stream took", written, "s"),
        *(
            Figure(f"  CPU of the {name} for a turn", each[name], "us")
            for name in ("daemon", "graph", "queue")
        ),
    ]


def _entries(turns: int, groups: int, prefix: str = "turn") -> Iterator[dict[Any, Any]]:
    """Yield turns of *groups* operators in turn, as a direct producer writes them."""
    talks = [
        Dialogue(seed=group).captures(turns // groups, f"op{group}") for group in range(groups)
    ]
    for number in range(turns // groups):
        for talk in talks:
            capture = next(talk)
            capture = capture.model_copy(update={"turn_id": f"{prefix}:{number}:{capture.turn_id}"})
            yield {"kind": b"turn", "data": capture.model_dump_json(exclude_none=True).encode()}


async def _run(stack: Stack, entries: list[dict[Any, Any]]) -> tuple[float, float]:
    """Return the seconds until all entries were written, and until all were committed."""
    queue = redis.Redis(unix_socket_path=str(stack.queue_socket))
    intake = Keys().intake(DEFAULT_TENANT)
    began = time.perf_counter()
    for start in range(0, len(entries), BATCH):
        pipe = queue.pipeline(transaction=False)
        for entry in entries[start : start + BATCH]:
            pipe.xadd(intake, entry)
        await pipe.execute()
    written = time.perf_counter() - began
    await queue.aclose()
    async with asyncio.timeout(GIVE_UP_SECONDS):
        await indexed(stack)
    return written, time.perf_counter() - began


async def _check(stack: Stack, options: argparse.Namespace) -> None:
    graph = redis.Redis(unix_socket_path=str(stack.graph_socket), decode_responses=True)
    found = 0
    for number in range(options.groups):
        group = Group(DEFAULT_TENANT, f"op{number}", "default").id
        query = "MATCH (p:Passage) RETURN count(p)"
        answer = await graph.execute_command("GRAPH.RO_QUERY", group, query)  # type: ignore[no-untyped-call]
        found += answer[1][0][0]
    await graph.aclose()
    if found != options.turns + options.groups:
        raise RuntimeError(f"{found} passages were found, not {options.turns + options.groups}")


if __name__ == "__main__":
    main(__doc__ or "", measure, turns=20_000, groups=50)
