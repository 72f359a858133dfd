"""How soon work is taken over from a process that was killed in the middle of it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import redis.asyncio as redis
from daemon import client_of, indexed
from figures import Figure, main, note
from fleet import command, environment, started
from processes import children

from gralkord.config import Leases
from gralkord.evaluation.stack import Stack, temporary_data_dir
from gralkord.groups import DEFAULT_TENANT, Group
from gralkord.mailbox.keys import Keys
from gralkord.models import Capture, Message
from gralkord.testing.faults import FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from gralkord.mailbox.keys import Lane

SLACK_SECONDS = 2.0
GIVE_UP_SECONDS = 60.0
LOOK_SECONDS = 0.01
# Long enough that no episode ends before its worker does.
MODEL_MS = 120_000


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Kill a daemon while it indexes, and a worker while it understands, others standing by."""
    operators = [f"operator {number}" for number in range(options.groups)]
    leases = Leases()
    with ScriptedModelServer(faults=FaultPlan(latency_ms=MODEL_MS)) as model:
        with temporary_data_dir() as path:
            index = await _index(path, model.spec, operators)
        with temporary_data_dir() as path:
            understand = await _understand(path, model.spec, operators)
    return [
        Figure(
            f"takeover of {lane} after SIGKILL, worst of {len(operators)}",
            worst,
            "s",
            lease + SLACK_SECONDS,
        )
        for lane, worst, lease in (
            ("the index lane", index, leases.index_seconds),
            ("an episode", understand, leases.understand_seconds),
        )
    ]


async def _index(path: Path, model: str, operators: list[str]) -> float:
    """Kill the daemon while the graph keeps it waiting; another daemon runs beside it."""
    config = _config(path, model)
    async with Stack(path, ("--config", str(config))) as stack, client_of(stack) as client:
        await client.capture_many([_turn(operator, 0) for operator in operators])
        await indexed(stack)
        serve = [*command("serve"), "--port", "0"]
        async with started(1, serve, environment(stack, config), path / "serve.log"):
            await asyncio.sleep(SLACK_SECONDS)  # until it is up
            parts = children(stack.pid)
            os.kill(parts["graph"], signal.SIGSTOP)
            await client.capture_many([_turn(operator, 1) for operator in operators])
            note("killing the daemon while it indexes")
            epochs = await _epochs(stack, "index", operators)
            os.kill(parts["daemon"], signal.SIGKILL)
            os.kill(parts["graph"], signal.SIGCONT)
            return await _taken_over(stack, epochs)


async def _understand(path: Path, model: str, operators: list[str]) -> float:
    """Kill the worker while the model keeps it waiting; another worker runs beside it."""
    config = _config(path, model)
    async with Stack(path, ("--config", str(config))) as stack, client_of(stack) as client:
        await client.capture_many([_turn(operator, 0) for operator in operators])
        for operator in operators:
            await client.flush(operator)
        epochs = await _epochs(stack, "understand", operators)
        environ = environment(stack, config)
        async with started(1, command("worker"), environ, path / "worker.log"):
            await asyncio.sleep(SLACK_SECONDS)  # until it is up
            note("killing the worker in the middle of its episodes")
            os.kill(children(stack.pid)["worker"], signal.SIGKILL)
            return await _taken_over(stack, epochs)


def _config(path: Path, model: str) -> Path:
    file = path / "bench.toml"
    file.write_text(f'[models]\nllm = "{model}"\n')
    return file


async def _epochs(stack: Stack, lane: Lane, operators: list[str]) -> dict[str, Any]:
    """Return the leases of the operators' groups, once there are."""
    found: dict[str, Any] = {}
    async with (
        asyncio.timeout(GIVE_UP_SECONDS),
        redis.Redis(unix_socket_path=str(stack.queue_socket)) as queue,
    ):
        while len(found) < len(operators):
            for operator in operators:
                key = _meta(lane, operator)
                if epoch := await queue.hget(key, "epoch"):
                    found[key] = epoch
            await asyncio.sleep(LOOK_SECONDS)
    return found


async def _taken_over(stack: Stack, epochs: dict[str, Any]) -> float:
    """Return the seconds until every group has another holder, or none because all is done."""
    began = time.monotonic()
    async with (
        asyncio.timeout(GIVE_UP_SECONDS),
        redis.Redis(unix_socket_path=str(stack.queue_socket)) as queue,
    ):
        left = dict(epochs)
        while left:
            for key, epoch in list(left.items()):
                if await queue.hget(key, "epoch") != epoch:
                    del left[key]
            await asyncio.sleep(LOOK_SECONDS)
    return time.monotonic() - began


def _meta(lane: Lane, operator: str) -> str:
    return Keys().named(f"meta:{lane}:{Group(DEFAULT_TENANT, operator, 'default').id}")


def _turn(operator: str, number: int) -> Capture:
    return Capture(
        session=operator,
        operator=operator,
        agent="bench",
        user="Ada",
        turn=[Message(role="user", content="Ida moved to Lisbon.")],
        turn_id=f"{operator} {number}",
    )


if __name__ == "__main__":
    main(__doc__ or "", measure, groups=4)
