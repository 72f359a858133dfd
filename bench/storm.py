"""How a storm is weathered: 70 % of the calls refused for a minute, under an announced limit."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import redis.asyncio as redis
from daemon import indexed
from figures import Figure, main, note
from fleet import command, environment, started

from gralkord.client.client import AsyncClient
from gralkord.evaluation.stack import Stack, temporary_data_dir
from gralkord.mailbox.keys import Keys
from gralkord.models import Capture, Message
from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from gralkord.testing.wire import Entry

TIMEOUT = 600.0
CALM_SECONDS = 75.0
MINUTE = 60.0
SHARE = 0.7
# Throughput is back when so many seconds hold this share of the calm ones' answers.
SPAN_SECONDS, BACK = 5.0, 0.9


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Let two workers understand flushes before, in and after a storm."""
    calm = FaultPlan(requests_per_minute=options.limit, latency_ms=options.latency_ms)
    storm = calm.model_copy(
        update={"rate": SHARE, "kinds": (Fault.RATE_LIMITED,), "lasts": float(options.storm)}
    )
    with ScriptedModelServer(faults=calm) as model, temporary_data_dir() as path:
        config = path / "bench.toml"
        config.write_text(f'[models]\nllm = "{model.spec}"\n')
        async with Stack(path, ("--config", str(config))) as stack, _client(stack) as client:
            environ, log = environment(stack, config), path / "worker.log"
            async with started(1, command("worker"), environ, log):
                sessions = [f"session {number}" for number in range(options.flushes)]
                await _capture(stack, client, sessions)
                note(f"flushing {len(sessions)} sessions")
                work = asyncio.create_task(_flush(client, sessions))
                await asyncio.sleep(CALM_SECONDS)
                note(f"a storm of {options.storm} s")
                began = time.monotonic()
                model.set_faults(storm)
                await asyncio.sleep(options.storm)
                ended = time.monotonic()
                note("calm again")
                understood = await work
            dead = await _dead(stack)
        requests = model.requests
    return [
        Figure(
            "flushes not understood, and dead letters", len(sessions) - understood + dead, "", 0
        ),
        Figure("most calls in a minute, of the limit", _worst(requests) / options.limit, "x", 1.05),
        Figure("calls in the storm that were answered", _rate(requests, began, ended), "/s"),
        Figure("calls before that were answered", _rate(requests, began - 30, began), "/s"),
        Figure("calls in all", len(requests), ""),
        Figure("calls refused by the limit itself", _over(requests, began, ended), "", 0),
        Figure("throughput is back after", _recovery(requests, began, ended), "s", 10.0),
    ]


def _client(stack: Stack) -> AsyncClient:
    return AsyncClient(stack.endpoint.url, stack.endpoint.token, timeout=2 * TIMEOUT)


async def _capture(stack: Stack, client: AsyncClient, sessions: Sequence[str]) -> None:
    turns = [
        Capture(
            session=session,
            operator=f"operator {number % 40}",
            agent="bench",
            user="Ada",
            turn=[Message(role="user", content=f"Ida moved to Lisbon. Ida likes tea. {session}")],
            turn_id=session,
        )
        for number, session in enumerate(sessions)
    ]
    for start in range(0, len(turns), 50):
        await client.capture_many(turns[start : start + 50])
    await indexed(stack)


async def _flush(client: AsyncClient, sessions: Sequence[str]) -> int:
    """Flush all; return how many were understood."""
    results = await asyncio.gather(
        *(client.flush_and_await(session, TIMEOUT) for session in sessions)
    )
    return sum(result.state == "understood" and result.complete for result in results)


async def _dead(stack: Stack) -> int:
    async with redis.Redis(unix_socket_path=str(stack.queue_socket)) as queue:
        return int(await queue.xlen(Keys().named("dead")))


def _worst(requests: Sequence[Entry]) -> int:
    """Return the most calls within any minute, refused ones included."""
    begun = sorted(entry.at for entry in requests)
    worst = first = 0
    for number, at in enumerate(begun):
        while begun[first] <= at - MINUTE:
            first += 1
        worst = max(worst, number - first + 1)
    return worst


def _answers(requests: Sequence[Entry], begin: float, end: float) -> int:
    return sum(entry.status == 200 and begin <= entry.at < end for entry in requests)


def _rate(requests: Sequence[Entry], begin: float, end: float) -> float:
    return _answers(requests, begin, end) / (end - begin)


def _over(requests: Sequence[Entry], began: float, ended: float) -> int:
    storm = (began, ended + 1)
    return sum(entry.status == 429 and not storm[0] <= entry.at <= storm[1] for entry in requests)


def _recovery(requests: Sequence[Entry], began: float, ended: float) -> float:
    """Return how many seconds after *ended* a span begins that holds as many answers as before."""
    least = BACK * SPAN_SECONDS * _rate(requests, began - 30, began)
    last = max(entry.at for entry in requests)
    for tenths in range(int(10 * (last - ended))):
        at = ended + tenths / 10
        if _answers(requests, at, at + SPAN_SECONDS) >= least:
            return tenths / 10
    return last - ended


if __name__ == "__main__":
    main(__doc__ or "", measure, flushes=400, limit=400, storm=60, latency_ms=100)
