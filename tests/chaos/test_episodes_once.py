"""Workers that end in the middle of an episode, and models that fail: one episode afterwards."""

from __future__ import annotations

import os
import signal

import pytest
import redis
from up_process import eventually

from gralkord.groups import Group
from gralkord.testing.faults import FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

ADA = Group("default", "ada", "default").id


@pytest.fixture
def model():
    """A scripted model that takes its time."""
    with ScriptedModelServer(faults=FaultPlan(latency_ms=300)) as server:
        yield server


def start_with(start_up, model, **environ):
    return start_up(None, "--model", model.spec, **environ).ready()


def graph_client(up):
    socket = up.data_dir / "run" / "graph.sock"
    return redis.Redis(unix_socket_path=str(socket), decode_responses=True)


def count(up, query):
    with graph_client(up) as client:
        return client.execute_command("GRAPH.RO_QUERY", ADA, query)[1][0][0]


def flush(up, **options):
    return up.request("/v1/flush", {"session": "s1", "wait": True, **options}, seconds=90)


def test_one_episode_whatever_happens(start_up, model):
    """A model that is down, then a worker that is killed: nothing is lost, and nothing doubled."""
    up = start_with(start_up, model, GRALKORD_LEASES__UNDERSTAND_SECONDS="3")
    a_model_outage_waits(up, model)
    what_was_understood_is_recalled_as_a_fact(up)
    a_worker_killed_in_the_middle_leaves_one_episode(up, model)
    assert up.end() == 0


def a_model_outage_waits(up, model):
    """Check that while the model is down the item waits without using attempts."""
    model.set_faults(FaultPlan(kinds=("server_error",), rate=1.0))
    up.capture("Ida moved to Lisbon.")
    late = flush(up, timeout_ms=30_000)
    assert (late["state"], late["complete"], late["reason"]) == ("indexed", False, "model_outage")
    state = up.request("/v1/status")["model_state"]
    assert state["state"] == "outage"
    assert "500" in state["reason"]
    model.set_faults(FaultPlan(latency_ms=300))
    eventually(lambda: up.request("/v1/status")["model_state"]["state"] == "ok", seconds=30)
    assert flush(up, timeout_ms=40_000)["state"] == "understood"
    assert up.request("/v1/status")["queue"]["dead_letters"] == 0


def what_was_understood_is_recalled_as_a_fact(up):
    """Check that facts are among the memories, with their passages."""
    body = {"operator": "ada", "query": "Where does Ida live?"}
    results = up.request("/v1/recall", body)["results"]
    kinds = {memory["kind"] for memory in results}
    merged = any(memory["passages"] for memory in results)
    assert "fact" in kinds or merged
    status = up.request("/v1/status")
    assert status["graph"]["waiting_to_be_understood"] == 0


def a_worker_killed_in_the_middle_leaves_one_episode(up, model):
    """Check that the next worker takes the item over, and the graph holds the episode once."""
    before = count(up, "MATCH (e:Episodic) RETURN count(e)")
    up.capture("Ida works at Acme. Otto lives in Rome.")
    calls = len(model.requests)
    up.request("/v1/flush", {"session": "s1"})
    eventually(lambda: len(model.requests) > calls)
    os.kill(up.pid_now("worker"), signal.SIGKILL)
    result = flush(up, timeout_ms=80_000)
    assert (result["state"], result["complete"]) == ("understood", True)
    assert count(up, "MATCH (e:Episodic) RETURN count(e)") == before + 1
    assert count(up, "MATCH (p:Passage)-[:PART_OF]->(:Episodic) RETURN count(p)") == before + 1
    facts = count(up, "MATCH ()-[f:RELATES_TO]->() RETURN count(f)")
    assert facts == count(up, "MATCH ()-[f:RELATES_TO]->() RETURN count(DISTINCT f.fact)") > 0


def test_backfill_understands_what_was_captured_without_a_model(tmp_path, start_up, model):
    """Turns of the time without a model are counted, and understood when that is asked for."""
    data_dir = tmp_path / "data"
    first = start_up(data_dir).ready()
    first.capture("Ida moved to Lisbon.")
    result = flush(first)
    assert (result["state"], result["reason"]) == ("indexed", "no_model")
    assert first.request("/v1/status")["graph"]["waiting_to_be_understood"] == 1
    assert first.end() == 0

    second = start_up(data_dir, "--model", model.spec).ready()
    eventually(lambda: second.request("/v1/status")["graph"]["state"] == "ok")
    assert second.request("/v1/backfill", {"operator": "ada"})["items"] == 1
    eventually(
        lambda: second.request("/v1/status")["graph"]["waiting_to_be_understood"] == 0, seconds=30
    )
    assert count(second, "MATCH (e:Episodic) RETURN count(e)") == 1
    assert second.end() == 0
