"""One operator with many items does not hold up the others' flushes."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from up_process import turn

from gralkord.testing.faults import FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

OTHERS = [f"op{number}" for number in range(20)]
NOISE = 60
# The noisy group holds one of the worker's eight slots at most.
MOST_TIMES = 3


@pytest.fixture
def up(start_up):
    """A gralkord whose model takes a moment."""
    with ScriptedModelServer(faults=FaultPlan(latency_ms=30)) as model:
        yield start_up(None, "--model", model.spec, GRALKORD_WORKER__THREADS="8").ready()


def flush_seconds(up, pool, name, operators=OTHERS):
    """Let every operator say something and flush; return how long each of them waited."""

    def flush(operator):
        began = time.monotonic()
        session = f"{name} {operator}"
        up.capture("Ida moved to Lisbon.", operator, session)
        body = {"session": session, "wait": True, "timeout_ms": 30_000}
        assert up.request("/v1/flush", body, seconds=40)["state"] == "understood"
        return time.monotonic() - began

    return list(pool.map(flush, operators))


def test_a_flush_waits_for_nobody_elses_items(up):
    """Twenty operators' flushes are understood about as soon beside one with many items."""
    with ThreadPoolExecutor(len(OTHERS)) as pool:
        flush_seconds(up, pool, "warm", OTHERS[:4])
        alone = flush_seconds(up, pool, "alone")
        said = [turn(f"Ida saw {number}.", "noisy", f"noise {number}") for number in range(NOISE)]
        assert up.request("/v1/captures", {"captures": said})["accepted"] == NOISE
        for number in range(NOISE):
            up.request("/v1/flush", {"session": f"noise {number}"})
        beside = flush_seconds(up, pool, "beside")
    # The noise went on all the time.
    assert up.request("/v1/status")["graph"]["waiting_to_be_understood"] > NOISE // 3
    assert statistics.median(beside) < MOST_TIMES * statistics.median(alone)
    assert max(beside) < MOST_TIMES * max(alone)
