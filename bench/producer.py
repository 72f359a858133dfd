"""What the direct-to-stream producer costs, beside bare XADDs of the same bytes."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING

import redis
from figures import Figure, main
from http_capture import queue_server
from words import Dialogue

from gralkord import StreamProducer
from gralkord.mailbox.keys import Keys

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from gralkord.client.calls import Outcome

BATCH = 100
TENANT = "bench"
STREAM = Keys().intake(TENANT)


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Write the same turns in both ways, round by round, into a stream that is empty each time."""
    async with queue_server() as socket:
        return await asyncio.to_thread(_compare, socket, options.turns, options.rounds)


def _compare(socket: Path, turns: int, rounds: int) -> list[Figure]:
    captures = [
        turn.model_dump(mode="json", exclude_none=True)
        for turn in Dialogue().captures(turns, "producer bench")
    ]
    bare, ours = [], []
    with (
        redis.Redis(unix_socket_path=str(socket)) as client,
        StreamProducer(socket=socket, tenant=TENANT) as producer,
    ):
        _check(producer.capture_many(captures, BATCH))
        same = [fields[b"data"] for _, fields in client.xrange(STREAM)]

        def begin() -> None:
            client.delete(STREAM)
            client.ping()

        for _ in range(rounds):
            bare.append(turns / _timed(begin, lambda: _bare(client, same)))
            ours.append(turns / _timed(begin, lambda: producer.capture_many(captures, BATCH)))
    ratios = [one / other for one, other in zip(ours, bare, strict=True)]
    return [
        Figure("bare XADD, pipelines of 100", statistics.median(bare), "/s"),
        Figure("StreamProducer, batches of 100", statistics.median(ours), "/s"),
        Figure("StreamProducer to bare XADD", statistics.median(ratios), "x", least=0.6),
    ]


def _bare(client: redis.Redis, data: Sequence[bytes]) -> None:
    for start in range(0, len(data), BATCH):
        pipe = client.pipeline(transaction=False)
        for one in data[start : start + BATCH]:
            pipe.xadd(STREAM, {"kind": "turn", "data": one})
        pipe.execute()


def _timed(begin: Callable[[], None], work: Callable[[], object]) -> float:
    begin()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _check(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


if __name__ == "__main__":
    main(__doc__ or "", measure, turns=5_000, rounds=9)
