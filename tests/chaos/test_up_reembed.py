"""Another embedder in a real ``gralkord up``: it goes out, the daemon is killed, and memory is moved."""

from __future__ import annotations

import json
import os
import signal
import threading
import urllib.request

import pytest
from up_process import eventually

from gralkord.client.sync import Client
from gralkord.errors import GralkorError
from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

pytestmark = pytest.mark.timeout(120)


def ask(up, operator="ada"):
    """Return texts and shortfalls of a recall."""
    body = {"operator": operator, "query": "Where is the kettle?", "deadline_ms": 3_000}
    found = up.request("/v1/recall", body)
    return [memory["text"] for memory in found["results"]], found["degraded"]


def move(up, steps):
    """Move everything; note each step."""
    with Client(data_dir=up.data_dir) as client:
        try:
            steps.extend(client.reembed())
        except (GralkorError, OSError) as error:
            steps.append(error)


def test_memory_moves_to_another_embedder_though_the_daemon_is_killed(start_up):
    """Recall is whole all the time; what a kill leaves is ended by the next run."""
    up = start_up().ready()
    for operator in ("ada", "bob"):
        up.capture(f"The kettle of {operator} is blue.", operator, f"s-{operator}")
    triple = {"subject": "Ada", "predicate": "OWNS", "object": "the kettle"}
    up.request("/v1/triples", {"operator": "ada", "triples": [triple]})
    eventually(lambda: len(ask(up)[0]) == 2)
    assert up.end() == 0
    with ScriptedModelServer() as server:
        names = {
            "GRALKORD_MODELS__EMBEDDER": server.spec,
            "GRALKORD_MODELS__EMBEDDERS_BEFORE": "local",
        }
        up = start_up(up.data_dir, **names).ready()
        assert ask(up)[1] == []
        server.set_faults(FaultPlan(latency_ms=250))
        before = len(server.requests)
        steps = []
        moving = threading.Thread(target=move, args=(up, steps))
        moving.start()
        eventually(lambda: len(server.requests) >= before + 2)
        os.kill(up.pid_now("daemon"), signal.SIGKILL)
        moving.join()
        assert isinstance(steps[-1], GralkorError)
        server.set_faults(FaultPlan())

        def answers():
            try:
                return len(ask(up)[0]) == 2 and ask(up)[1] == []
            except OSError:
                return False

        eventually(answers)
        up.capture("Bob's kettle is old.", "bob", "s2")
        eventually(lambda: len(ask(up, "bob")[0]) == 2)
        again = []
        move(up, again)
        assert {(each.operator, each.embedder.partition(":")[0]) for each in again if each.done} == {
            ("ada", "openai-compatible"),
            ("bob", "openai-compatible"),
        }
        assert (ask(up)[1], ask(up, "bob")[1]) == ([], [])
        # The embedder goes out: nothing else does.
        server.set_faults(FaultPlan(rates={Fault.SERVER_ERROR: 1.0}))
        up.capture("The kettle of Ada is new.")
        eventually(lambda: len(ask(up)[0]) == 3)
        assert ask(up)[1] == ["vector"]
        eventually(lambda: up.request("/v1/status")["vectors"]["state"] != "ok")
        server.set_faults(FaultPlan())
        assert up.end() == 0
