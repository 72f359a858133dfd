"""A daily budget in a real ``gralkord up``: it pauses understanding and nothing else."""

from __future__ import annotations

import signal

import pytest
import redis
from up_process import eventually

from gralkord.groups import Group
from gralkord.testing.model_server import ScriptedModelServer

pytestmark = pytest.mark.timeout(120)
ADA = Group("default", "ada", "default").id


def flush(up, session):
    body = {"session": session, "wait": True, "timeout_ms": 20_000}
    return up.request("/v1/flush", body)


def try_at_once(up):
    """Let the time come at which the next item of each account is tried."""
    with redis.Redis(unix_socket_path=str(up.data_dir / "run" / "queue.sock")) as queue:
        for key in queue.scan_iter("gk:budget:*"):
            for account, note in queue.hgetall(key).items():
                queue.hset(key, account, b"1 " + note.split()[1])
        queue.zadd("gk:ready:understand", {ADA: 1}, xx=True)


def test_a_spent_budget_pauses_understanding_and_nothing_else(start_up):
    """One operator stops, with that reason everywhere; once its budget is raised it goes on."""
    with ScriptedModelServer() as model:
        models = {"GRALKORD_MODELS__LLM": f"openai-compatible:scripted@{model.url}"}
        up = start_up(GRALKORD_BUDGET__OPERATORS__ADA__TOKENS="2000", **models).ready()
        receipt = up.capture("Ada lives in Lisbon and works at Acme.", "ada", "s1")["receipt"]
        up.capture("Bob lives in Oslo and works at Initech.", "bob", "s2")
        held = flush(up, "s1")
        assert (held["state"], held["complete"]) == ("indexed", False)
        assert held["reason"] == "budget_spent"
        assert flush(up, "s2")["state"] == "understood"
        assert up.recall("Where does Ada live?")
        up.capture("Ada likes tea.", "ada", "s1")
        job = up.request(f"/v1/jobs/{receipt}")
        assert (job["state"], job["reason"], job["attempts"]) == ("indexed", "budget_spent", 0)
        assert up.request("/v1/status")["budget"]["operators_spent"] == 1
        costs = up.request("/v1/costs?by=operator")
        calls = {row["key"]: row["calls"] for row in costs["rows"]}
        assert sum(calls.values()) == len(model.requests)
        [budget] = costs["budgets"]
        assert (budget["operator"], budget["state"]) == ("ada", "spent")
        assert up.end(signal.SIGTERM) == 0
        asked = len(model.requests)
        up = start_up(
            up.data_dir, GRALKORD_BUDGET__OPERATORS__ADA__TOKENS="900000", **models
        ).ready()
        try_at_once(up)
        eventually(lambda: up.request(f"/v1/jobs/{receipt}")["state"] == "understood")
        assert len(model.requests) > asked
        assert up.request("/v1/status")["budget"]["operators_spent"] == 0
        assert up.end(signal.SIGTERM) == 0
