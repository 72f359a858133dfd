"""How much sooner eight workers finish the same flushes than one; the model takes 400 ms."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from daemon import indexed
from figures import Figure, main, note
from fleet import command, environment, started
from processes import children, cpu_seconds

from gralkord.client.client import AsyncClient
from gralkord.evaluation.stack import Stack, temporary_data_dir
from gralkord.models import Capture, Message
from gralkord.testing.faults import FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

TIMEOUT = 600.0
WARM_ROUNDS = 20


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Let one worker finish the flushes, then, in a gralkord of their own, so many workers."""
    one, cpu_one = await _run(options, 1)
    many, cpu_many = await _run(options, options.workers)
    flushes = f"{options.flushes} flushes of {options.groups} groups"
    return [
        Figure(f"{flushes}, 1 worker", one, "s"),
        Figure(f"{flushes}, {options.workers} workers", many, "s"),
        Figure(f"  {options.workers} workers over one", one / many, "x", least=6.5),
        Figure("  CPU of the one worker for a flush", cpu_one / options.flushes * 1_000, "ms"),
        Figure("  CPU of the workers for a flush", cpu_many / options.flushes * 1_000, "ms"),
    ]


async def _run(options: argparse.Namespace, workers: int) -> tuple[float, float]:
    """Return the seconds that the flushes took, and the workers' CPU time in them."""
    with (
        ScriptedModelServer(faults=FaultPlan(latency_ms=options.latency_ms)) as model,
        temporary_data_dir() as path,
    ):
        config = path / "bench.toml"
        config.write_text(f'[worker]\nthreads = 1\n[models]\nllm = "{model.spec}"\n')
        async with Stack(path, ("--config", str(config))) as stack, _client(stack) as client:
            log, environ = path / "workers.log", environment(stack, config)
            async with started(workers - 1, command("worker"), environ, log) as others:
                logs = [path / "logs" / "worker.log"]
                logs += [path / f"workers.log.{number}" for number in range(workers - 1)]
                await _warm(client, logs)
                note(f"flushing {options.flushes} sessions, {workers} workers")
                pids = [children(stack.pid)["worker"], *(process.pid for process in others)]
                before = sum(map(cpu_seconds, pids))
                seconds = await _flush_all(stack, client, options)
                return seconds, sum(map(cpu_seconds, pids)) - before


def _client(stack: Stack) -> AsyncClient:
    endpoint = stack.endpoint
    return AsyncClient(endpoint.url, endpoint.token, timeout=2 * TIMEOUT)


async def _warm(client: AsyncClient, logs: list[Path]) -> None:
    """Flush until every worker has understood something, so has imported what it needs."""
    for number in range(WARM_ROUNDS):
        names = [f"warm {number} {each}" for each in range(2 * len(logs))]
        await client.capture_many([_turn(name, name) for name in names])
        await asyncio.gather(*(client.flush_and_await(name, TIMEOUT) for name in names))
        if all('"understood"' in log.read_text() for log in logs):
            return
    raise RuntimeError("a worker has not understood anything")


async def _flush_all(stack: Stack, client: AsyncClient, options: argparse.Namespace) -> float:
    sessions = [
        (f"session {number}", f"operator {number % options.groups}")
        for number in range(options.flushes)
    ]
    for start in range(0, len(sessions), 50):
        await client.capture_many([_turn(*session) for session in sessions[start : start + 50]])
    await indexed(stack)
    began = time.perf_counter()
    results = await asyncio.gather(
        *(client.flush_and_await(session, TIMEOUT) for session, _ in sessions)
    )
    if not all(result.complete and result.state == "understood" for result in results):
        raise RuntimeError("a flush was not understood")
    return time.perf_counter() - began


def _turn(session: str, operator: str) -> Capture:
    return Capture(
        session=session,
        operator=operator,
        agent="bench",
        user="Ada",
        turn=[Message(role="user", content=f"Ida moved to Lisbon. Ida likes tea. {session}")],
        turn_id=session,
    )


if __name__ == "__main__":
    main(__doc__ or "", measure, flushes=80, groups=40, workers=8, latency_ms=400)
