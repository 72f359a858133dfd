"""The SDK's own way to the stream, against the real server."""

from __future__ import annotations

import asyncio
import contextlib

import orjson
import pytest
import redis as redis_sync

import gralkord
from gralkord.client.transport import Retry
from gralkord.config import CaptureSettings, Server
from gralkord.embedded.servers import _PRODUCER_RIGHTS
from gralkord.errors import BackendUnavailable, ConfigError, InvalidInput, QueueFull
from gralkord.groups import Group
from gralkord.intake.plan import Planner
from gralkord.intake.router import Router
from gralkord.mailbox.connection import open_queue
from gralkord.models import Capture, CaptureReceipt

ANN = Group("default", "ann", "default").id
NEVER = Retry(retries=0)


def turn(text="hello", **fields):
    return {
        "session": "s",
        "operator": "ann",
        "agent": "Ada",
        "user": "Ann",
        "turn": [{"role": "user", "content": text}],
    } | fields


@pytest.fixture
def server(queue_socket):
    """A client of the server, which has the user of direct producers; as it was afterwards."""
    with redis_sync.Redis(unix_socket_path=str(queue_socket)) as client:
        client.execute_command("ACL", "SETUSER", "producer", *_PRODUCER_RIGHTS)
        yield client
        client.config_set("maxmemory", 0)
        client.acl_deluser("producer")


@pytest.fixture(params=["sync", "async"])
def make(request, server, queue_socket):
    """Make a producer; the methods of the asynchronous one are run to their end."""
    with contextlib.ExitStack() as made:
        runner = made.enter_context(asyncio.Runner())

        def make_one(**options):
            options = {"socket": queue_socket, "username": "producer", "retry": NEVER} | options
            if request.param == "sync":
                return made.enter_context(gralkord.StreamProducer(**options))
            producer = gralkord.AsyncStreamProducer(**options)
            made.callback(lambda: runner.run(producer.close()))
            return Waiting(producer, runner)

        yield make_one


class Waiting:
    """An asynchronous producer whose methods wait."""

    def __init__(self, producer, runner):
        self.producer = producer
        self._run = runner.run

    def __getattr__(self, name):
        method = getattr(self.producer, name)
        return lambda *args, **options: self._run(method(*args, **options))


def stored(server, tenant="default"):
    return [
        (fields[b"kind"].decode(), orjson.loads(fields[b"data"]))
        for _, fields in server.xrange(f"gk:intake:{tenant}")
    ]


def inner(producer):
    return getattr(producer, "producer", producer)


def test_turns_are_written_as_the_envelope_says(make, server):
    """A turn gets its receipt, an id, and a note; a flush stands behind it, each in its tenant."""
    producer, other = make(), make(tenant="other", username=None)
    receipt = producer.capture("s", "ann", "Ada", "Ann", "tea", event_time="2024-05-01T09:30:00")
    flush = producer.flush("s")
    other.capture_many([Capture.model_validate(turn("coffee", turn_id="t1"))])
    [(kind, data), (last, flushed)] = stored(server)
    assert (kind, last, flushed) == ("turn", "flush", {"session": "s"})
    assert Capture.model_validate(data).turn[0].content == "tea"
    assert data["turn_id"] == receipt.turn_id
    names = [name.decode() for name, _ in server.xrange("gk:intake:default")]
    assert [receipt.receipt, flush.flush] == names
    assert receipt.durability == "queue"
    assert "no zone" in receipt.notes[0]
    [(_, data)] = stored(server, "other")
    assert data["turn_id"] == "t1"


def test_a_tenant_that_nobody_reads_is_refused(make, server):
    """Turns for a stream that the daemon does not route are not acknowledged."""
    with pytest.raises(ConfigError, match="tenant: must not be blank"):
        make(tenant="")
    with pytest.raises(ConfigError, match="intake stream of this tenant"):
        make(tenant="other").capture_many([turn()])
    with pytest.raises(ConfigError, match="intake stream of this tenant"):
        make(tenant="other").flush("s")
    assert stored(server, "other") == []


def test_what_is_no_turn_is_refused_unsent(make, server):
    """A turn that does not fit is its own outcome; the others are stored in their order."""
    producer = make()
    late = turn(event_time="2999-01-01T00:00:00Z")
    turns = [turn("a"), turn(session=""), turn("b"), late, turn("c")]
    outcomes = producer.capture_many(turns, 2)
    assert [isinstance(one, CaptureReceipt) for one in outcomes] == [True, False, True, False, True]
    assert isinstance(outcomes[1], InvalidInput)
    assert outcomes[3].field == "event_time"
    assert [data["turn"][0]["content"] for _, data in stored(server)] == ["a", "b", "c"]
    with pytest.raises(InvalidInput):
        producer.capture("s", " ", "Ada", "Ann", "hello")
    with pytest.raises(InvalidInput):
        producer.flush("")


@pytest.mark.parametrize("cause", ["memory", "rights"])
def test_a_closed_queue_is_full_and_keeps_the_order(make, server, cause):
    """At the memory limit, or without the right to append, nothing of a batch nor after it is stored."""
    producer = make()
    seen = []

    def close(done):
        if not seen and cause == "memory":
            server.config_set("maxmemory", 1)
        elif not seen:
            server.execute_command("ACL", "SETUSER", "producer", "-xadd")
        seen.append(done)

    outcomes = producer.capture_many([turn(str(n)) for n in range(9)], 3, on_progress=close)
    assert seen == [3, 6, 9]
    assert [isinstance(one, QueueFull) for one in outcomes] == [False] * 3 + [True] * 6
    assert all(1 <= one.retry_after <= 30 and one.limit == "memory" for one in outcomes[3:])
    assert len(stored(server)) == 3
    with pytest.raises(QueueFull):
        producer.flush("s")


def test_a_queue_that_opens_again_is_waited_for(make, server, monkeypatch):
    """A refusal for now is tried again after the time it names, under the same ids."""
    pauses = []

    async def pause_async(seconds):
        pause(seconds)

    def pause(seconds):
        pauses.append(seconds)
        server.config_set("maxmemory", 0)

    monkeypatch.setattr("gralkord.client.stream.time.sleep", pause)
    monkeypatch.setattr("gralkord.client.stream_async.asyncio.sleep", pause_async)
    server.config_set("maxmemory", 1)
    receipt = make(retry=Retry()).capture("s", "ann", "Ada", "Ann", "tea", turn_id="t1")
    assert len(pauses) == 1
    assert pauses[0] >= 5
    assert receipt.turn_id == "t1"
    assert len(stored(server)) == 1


def test_a_lost_answer_is_one_turn_all_the_same(
    make, server, queue_socket, lenses, keys, monkeypatch
):
    """A batch that was stored before its connection broke comes again, and is routed once."""
    producer = make(retry=Retry())
    part = inner(producer)
    exchange, broken = part._exchange, []

    def lose(*args):
        answer = exchange(*args)
        if not broken:
            broken.append(answer)
            if asyncio.iscoroutine(answer):
                return lose_later(answer)
            raise redis_sync.ConnectionError
        return answer

    async def lose_later(answer):
        await answer
        raise redis_sync.ConnectionError

    async def no_time(_seconds):
        pass

    monkeypatch.setattr("gralkord.client.stream.time.sleep", lambda _seconds: None)
    monkeypatch.setattr("gralkord.client.stream_async.asyncio.sleep", no_time)
    part._exchange = lose
    outcomes = producer.capture_many([turn(str(n), turn_id=f"t{n}") for n in range(5)])
    assert all(isinstance(one, CaptureReceipt) for one in outcomes)
    assert len(stored(server)) == 10
    assert asyncio.run(routed(queue_socket, lenses, keys)) == [str(n) for n in range(5)]


async def routed(socket, lenses, keys):
    async def ring(_rings):
        pass

    async with open_queue(Server(socket=socket)) as client:
        planner = Planner(lenses, CaptureSettings(), understanding=False)
        router = Router(client, keys, planner, ["default"], owner="one")
        await router.lead()
        await router.route(ring)
        items = await client.lrange(f"gk:box:index:{ANN}", 0, -1)
    return [orjson.loads(item.partition(b" ")[2])["messages"][0]["content"] for item in items]


def test_something_is_ingested_as_a_whole(make, server):
    """It is one entry, named by the producer unless it has a source; what is wrong is refused."""
    producer = make()
    receipt = producer.ingest("ann", "Tea is hot.", "a note", lens="work")
    producer.ingest("ann", "Tea is hot.", "a note", source="tea.md")
    with pytest.raises(InvalidInput, match="event_time"):
        producer.ingest("ann", "x", "a note", event_time="2999-01-01T00:00:00Z")
    first, second = server.xrange("gk:intake:default")
    assert (receipt.receipt, receipt.turns, receipt.durability) == (first[0].decode(), 1, "queue")
    assert first[1][b"kind"] == b"ingest"
    data, other = orjson.loads(first[1][b"data"]), orjson.loads(second[1][b"data"])
    assert (data["content"], data["lens"], "id" in data) == ("Tea is hot.", "work", True)
    assert (other["source"], "id" in other) == ("tea.md", False)


def test_a_user_without_transactions_writes_turn_by_turn(make, server):
    """Where MULTI is not allowed the turns are stored all the same."""
    server.execute_command("ACL", "SETUSER", "producer", "-multi", "-exec")
    outcomes = make().capture_many([turn(str(n)) for n in range(3)])
    names = [name.decode() for name, _ in server.xrange("gk:intake:default")]
    assert [one.receipt for one in outcomes] == names


def test_no_server_is_an_outage_and_a_wrong_password_is_not(make, server, tmp_path):
    """What may pass is the outcome of the turns; what will not is raised."""
    [outcome] = make(socket=tmp_path / "none.sock").capture_many([turn()])
    assert isinstance(outcome, BackendUnavailable)
    server.execute_command("ACL", "SETUSER", "producer", "resetpass", ">right")
    with pytest.raises(ConfigError):
        make(password="wrong").capture_many([turn()])
    [outcome] = make(password="right").capture_many([turn()])
    assert isinstance(outcome, CaptureReceipt)


def test_its_user_may_append_and_nothing_else(server, queue_socket):
    """The rights of a producer reach no other key, and do not let it read what anybody wrote."""
    with redis_sync.Redis(unix_socket_path=str(queue_socket), username="producer") as client:
        client.xadd("gk:intake:default", {"kind": "turn"})
        for command in (
            ("XADD", "gk:dead", "*", "kind", "turn"),
            ("XADD", "gk:intake:other", "*", "kind", "turn"),
            ("XRANGE", "gk:intake:default", "-", "+"),
            ("XDEL", "gk:intake:default", "1-1"),
            ("KEYS", "*"),
        ):
            with pytest.raises(redis_sync.exceptions.NoPermissionError):
                client.execute_command(*command)


def test_an_address_that_cannot_be_is_refused(queue_socket):
    """A host and a socket at once are no address."""
    with pytest.raises(ConfigError, match="not both"):
        gralkord.StreamProducer("queue.example", socket=queue_socket)
