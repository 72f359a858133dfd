"""A queue that is full to the brim: it drains, and nothing that it took is lost."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import urllib.error
from pathlib import Path

import pytest
import redis
from service_process import Daemon, Service, environ_of
from up_process import eventually, turn

from gralkord.embedded.servers import ServerSpec
from gralkord.groups import Group
from gralkord.testing.model_server import ScriptedModelServer

pytestmark = pytest.mark.timeout(120)

INTAKE = "gk:intake:default"
OPERATORS = ("ada", "bob", "eve")
FLUSHED = 6  # turns of each operator that are to be understood as well
# Other people's data, so that the server stays at its limit from the first step to the last.
BALLAST = 6 * 1024 * 1024
WORDS = "The harbour has seven lamps and the tide comes twice a day. " * 40


@pytest.fixture
def small_queue():
    """The socket of a queue with room for 8 MB."""
    home = Path(tempfile.mkdtemp(prefix="gk-"))
    spec = ServerSpec(
        "queue", home / "queue", home / "q.sock", max_memory_mb=8, producer_user="producer"
    )
    process = spec.start()
    try:
        eventually(lambda: answers(spec.socket))
        yield spec.socket
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def answers(path: Path) -> bool:
    """Return whether a server answers there."""
    try:
        with redis.Redis(unix_socket_path=str(path)) as client:
            return client.ping()
    except redis.RedisError:
        return False


def add(queue, operator: str, session: str, number: int, text: str) -> None:
    """Append a turn as a producer does that speaks to the queue itself."""
    body = turn(text, operator, session) | {"turn_id": f"{operator}-{number}"}
    queue.xadd(INTAKE, {"kind": "turn", "data": json.dumps(body)})


def fill(queue) -> dict[str, int]:
    """Append turns until the queue takes no more; return how many it took of each operator."""
    for _ in range(BALLAST // 65_536):
        queue.rpush("ballast", b"x" * 65_536)
    for operator in OPERATORS:
        for number in range(FLUSHED):
            add(queue, operator, f"{operator}-1", number, f"Ida of {operator} moved to Lisbon.")
        data = json.dumps({"session": f"{operator}-1"})
        queue.xadd(INTAKE, {"kind": "flush", "data": data})
    taken = dict.fromkeys(OPERATORS, FLUSHED)
    for operator in itertools.cycle(OPERATORS):
        try:
            add(queue, operator, f"{operator}-2", taken[operator], WORDS)
        except redis.exceptions.OutOfMemoryError:
            return taken
        taken[operator] += 1
    raise AssertionError


def shut_out(producer) -> bool:
    """Return whether a direct producer may not even try, instead of meeting the limit."""
    try:
        add(producer, "ada", "ada-2", 0, "no room for this either")
    except redis.exceptions.OutOfMemoryError:
        return False
    except redis.exceptions.NoPermissionError:
        return True
    raise AssertionError


def count(graph, operator: str, query: str) -> int:
    """Return the number that *query* returns for the operator's group."""
    group = Group("default", operator, "default").id
    return graph.execute_command("GRAPH.RO_QUERY", group, query)[1][0][0]


def test_a_full_queue_drains_by_itself(small_queue, graph_socket, tmp_path):
    """Filled by XADD while nothing runs, it is indexed and understood, all of it at the limit."""
    started = []
    with (
        redis.Redis(unix_socket_path=str(small_queue)) as queue,
        redis.Redis(unix_socket_path=str(small_queue), username="producer") as producer,
        redis.Redis(unix_socket_path=str(graph_socket)) as graph,
        ScriptedModelServer() as model,
    ):
        taken = fill(queue)
        assert sum(taken.values()) > 100
        environ = environ_of(
            tmp_path,
            small_queue,
            graph_socket,
            GRALKORD_MODELS__LLM=model.spec,
            GRALKORD_QUEUE__PRODUCER_USER="producer",
            GRALKORD_CAPTURE__FLUSH_TURNS="100000",
            GRALKORD_CAPTURE__FLUSH_BYTES="1000000000",
        )
        try:
            started += [Daemon(tmp_path, environ), Service("worker", tmp_path, environ)]
            daemon = started[0]
            with pytest.raises(urllib.error.HTTPError) as refused:
                daemon.request("/v1/capture", turn("no room for this"))
            assert refused.value.code == 429
            assert refused.value.headers["Retry-After"]
            eventually(lambda: shut_out(producer))
            status = eventually(lambda: drained(daemon), seconds=60)
            assert status["intake"]["state"].startswith("closed: the memory of the queue is ")
            assert status["memory"]["percent"] >= 100
            assert status["dead_letters"] == 0
            for operator in OPERATORS:
                turns = "MATCH (p:Passage) RETURN count(DISTINCT p.turn_id)"
                assert count(graph, operator, turns) == taken[operator]
                parts = "MATCH (p:Passage)-[:PART_OF]->(:Episodic) RETURN count(DISTINCT p.turn_id)"
                assert count(graph, operator, parts) == FLUSHED
            queue.delete("ballast")
            daemon.ready()
            assert daemon.request("/v1/capture", turn("room again"))["receipt"]
            add(producer, "ada", "ada-2", 0, "room again")
            assert [service.end() for service in started] == [0, 0]
        finally:
            for service in started:
                service.clear()


def drained(daemon) -> dict | None:
    """Return the queue's status once nothing waits in it."""
    queue = daemon.request("/v1/status")["queue"]
    waiting = queue["intake"]["entries"] + queue["index"]["items"] + queue["understand"]["items"]
    return queue if waiting == 0 else None
