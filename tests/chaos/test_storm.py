"""A storm of refusals, short: the whole of it is measured by bench/storm.py."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from service_process import Daemon, Service, environ_of
from up_process import turn

from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

LIMIT = 240
AT_ONCE, LATENCY_MS = 3, 50
STORM_SECONDS = 2.0
OPERATORS = [f"op{number}" for number in range(10)]


@pytest.fixture
def started():
    """What a test starts, ended after it."""
    services = []
    yield services
    for service in services:
        service.clear()


def test_a_storm_costs_time_only(queue_socket, graph_socket, tmp_path, started):
    """Two workers lose nothing to refusals, keep to the announced limit, and are soon at work again."""
    storm = FaultPlan(
        rate=0.7,
        kinds=(Fault.RATE_LIMITED,),
        lasts=STORM_SECONDS,
        retry_after=0.1,
        requests_per_minute=LIMIT,
        latency_ms=LATENCY_MS,
    )
    with ScriptedModelServer() as model, ThreadPoolExecutor(len(OPERATORS)) as pool:
        config = tmp_path / "storm.toml"
        config.write_text(f'[models.options."{model.spec}"]\nconcurrency = {AT_ONCE}\n')
        chosen = {"GRALKORD_MODELS__LLM": model.spec, "GRALKORD_CONFIG": str(config)}
        environ = environ_of(tmp_path, queue_socket, graph_socket, **chosen)
        daemon = Daemon(tmp_path, environ)
        started.append(daemon)
        daemon.ready()
        started += [Service("worker", tmp_path, environ) for _ in range(2)]

        def flush(operator):
            daemon.request("/v1/capture", turn("Ida moved to Lisbon.", operator, operator))
            body = {"session": operator, "wait": True, "timeout_ms": 30_000}
            return daemon.request("/v1/flush", body, seconds=40)["state"]

        assert flush("first") == "understood"
        model.set_faults(storm)
        ended = time.monotonic() + STORM_SECONDS
        assert set(pool.map(flush, OPERATORS)) == {"understood"}
        took = time.monotonic() - ended
        requests = model.requests
    assert took < 10
    assert daemon.request("/v1/status")["queue"]["dead_letters"] == 0
    refused = [entry for entry in requests if entry.status == 429]
    assert refused
    assert all(entry.at < ended for entry in refused), "the limit itself was never met"
    assert len(requests) <= LIMIT
    begun = sorted(entry.at for entry in requests if entry.at > ended - STORM_SECONDS)
    spans = [later - earlier for earlier, later in zip(begun, begun[AT_ONCE:], strict=False)]
    assert min(spans) > LATENCY_MS / 1000, "never more at once than allowed"
