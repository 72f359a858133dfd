"""How soon a turn is recallable after its capture was acknowledged, with `up` idle otherwise."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from daemon import running
from figures import Figure, main
from words import Dialogue

from gralkord.evaluation.retrieval import percentile

if TYPE_CHECKING:
    import argparse

    from gralkord.client.client import AsyncClient
    from gralkord.models import Capture

OPERATOR = "capture bench"
GIVE_UP_SECONDS = 10.0


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Capture turn after turn; after each, recall again and again until it is found."""
    acknowledged, recallable, captured_recallable = [], [], []
    async with running() as (_, client):
        for number, turn in enumerate(Dialogue().captures(options.turns, OPERATOR)):
            began = time.perf_counter()
            mark = f"zq{number}x"
            await client.capture_many([_marked(turn, mark)])
            known = time.perf_counter()
            found = await _until_found(client, mark, turn.turn_id)
            acknowledged.append((known - began) * 1_000)
            recallable.append((found - known) * 1_000)
            captured_recallable.append((found - began) * 1_000)
    return [
        Figure("capture acknowledged to recallable, p50", percentile(recallable, 50), "ms"),
        Figure("capture acknowledged to recallable, p95", percentile(recallable, 95), "ms", 250.0),
        Figure("capture acknowledged to recallable, worst", max(recallable), "ms"),
        Figure("capture sent to acknowledged, p95", percentile(acknowledged, 95), "ms"),
        Figure("capture sent to recallable, p95", percentile(captured_recallable, 95), "ms"),
    ]


def _marked(turn: Capture, mark: str) -> Capture:
    message = turn.turn[0].model_copy(update={"content": f"{turn.turn[0].content} {mark}"})
    return turn.model_copy(update={"turn": [message]})


async def _until_found(client: AsyncClient, mark: str, turn_id: str | None) -> float:
    give_up = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < give_up:
        answer = await client.recall(OPERATOR, mark, max_results=5, interpret="off")
        if any(memory.turn_id == turn_id for memory in answer.results):
            return time.perf_counter()
    raise TimeoutError(f"turn {turn_id} is not recallable after {GIVE_UP_SECONDS:g} s")


if __name__ == "__main__":
    main(__doc__ or "", measure, turns=500)
