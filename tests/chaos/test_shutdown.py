"""Workers that are told to stop while they work: once, and twice."""

from __future__ import annotations

import os
import signal
import time

import pytest
import redis
from service_process import Daemon, NotifySocket, Service, environ_of
from up_process import eventually, turn

from gralkord.groups import Group
from gralkord.testing.faults import FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

pytestmark = pytest.mark.timeout(120)

OPERATORS = ("ada", "bob", "eve")
LONG_LEASE = 300
SHORT_LEASE = 2


class Stage:
    """A daemon, and more to do than a worker has threads."""

    def __init__(self, tmp_path, queue_socket, graph_socket, model) -> None:
        self.home = tmp_path
        self.graph_socket = graph_socket
        self.model = model
        self.environ = environ_of(
            tmp_path,
            queue_socket,
            graph_socket,
            GRALKORD_MODELS__LLM=model.spec,
            GRALKORD_WORKER__THREADS="2",
        )
        self.daemon = Daemon(tmp_path, self.environ)
        self.services = [self.daemon]

    def capture(self) -> None:
        """Give it something to understand for each operator."""
        self.daemon.ready()
        for operator in OPERATORS:
            text = f"Ida of {operator} moved to Lisbon."
            self.daemon.request("/v1/capture", turn(text, operator, operator))
            self.daemon.request("/v1/flush", {"session": operator})

    def add_worker(self, lease_seconds: int, **environ) -> Service:
        """Start a worker."""
        environ["GRALKORD_LEASES__UNDERSTAND_SECONDS"] = str(lease_seconds)
        self.services.append(Service("worker", self.home, self.environ | environ))
        return self.services[-1]

    def until_at_work(self) -> None:
        """Return once the worker asks the model for as much as it has threads."""
        asked = len(self.model.requests)
        eventually(lambda: len(self.model.requests) > asked and self.lane()["leased"] == 2, 60)

    def queue(self) -> dict:
        """Return the status of the queue."""
        return self.daemon.request("/v1/status")["queue"]

    def lane(self) -> dict:
        """Return the status of the understand lane."""
        return self.queue()["understand"]

    def all_is_done_once(self) -> None:
        """Wait until nothing is left to do; check that each operator has one episode."""
        eventually(lambda: self.lane()["items"] == 0, seconds=60)
        assert self.queue()["dead_letters"] == 0
        with redis.Redis(unix_socket_path=str(self.graph_socket)) as graph:
            for operator in OPERATORS:
                group = Group("default", operator, "default").id
                for query in (
                    "MATCH (e:Episodic) RETURN count(e)",
                    "MATCH (p:Passage)-[:PART_OF]->(:Episodic) RETURN count(p)",
                ):
                    rows = graph.execute_command("GRAPH.RO_QUERY", group, query)[1]
                    assert rows == [[1]], (operator, query)

    def clear(self) -> None:
        """End everything."""
        for service in self.services:
            service.clear()


@pytest.fixture
def stage(tmp_path, queue_socket, graph_socket):
    """The stage, with a scripted model that takes its time."""
    with ScriptedModelServer(faults=FaultPlan(latency_ms=300)) as model:
        stage = Stage(tmp_path, queue_socket, graph_socket, model)
        yield stage
        stage.clear()


def test_a_worker_that_is_told_to_stop(stage, queue_socket, tmp_path):
    """Told once, it gives its items back; told twice, it ends at once; nothing is lost or doubled."""
    first = stage.add_worker(LONG_LEASE)
    stage.capture()
    stage.until_at_work()
    began = time.monotonic()
    assert first.end(signal.SIGTERM) == 0
    assert time.monotonic() - began < 5
    lane = stage.lane()
    assert (lane["leased"], lane["items"]) == (0, len(OPERATORS))

    ear = NotifySocket(str(tmp_path / "notify"))
    second = stage.add_worker(SHORT_LEASE, NOTIFY_SOCKET=ear.address)
    stage.until_at_work()  # it need not wait for the leases of the first
    assert stage.queue()["counters"].get("takeovers", 0) == 0
    with redis.Redis(unix_socket_path=str(queue_socket)) as client:
        queue = client.info("server")["process_id"]
    os.kill(queue, signal.SIGSTOP)  # so that it cannot give back what it has
    try:
        second.send(signal.SIGTERM)
        ear.until("STOPPING=1")
        began = time.monotonic()
        assert second.end(signal.SIGTERM, seconds=5) == 1
        assert time.monotonic() - began < 4
    finally:
        os.kill(queue, signal.SIGCONT)
        ear.close()

    stage.add_worker(SHORT_LEASE)
    stage.all_is_done_once()
    # Its last words may have reached the queue before they were read.
    assert stage.queue()["counters"].get("takeovers", 0) <= 2
