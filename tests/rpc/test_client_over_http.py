from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest
from fake_daemon import TOKEN, served, turn

from gralkord import AsyncClient, Client
from gralkord.client.discovery import announce
from gralkord.client.transport import Retry
from gralkord.errors import (
    BackendUnavailable,
    DeadlineExpired,
    InvalidInput,
    QueueFull,
    SessionConflict,
    Unauthorized,
    UnknownLens,
)
from gralkord.rpc.app import create_app

QUICK = Retry(retries=3, base=0.001)


@pytest.fixture(params=["sync", "async"])
async def client(request, daemon, home):
    """Both clients behind one awaitable face."""
    if request.param == "sync":
        with Client(daemon, TOKEN, retry=QUICK) as opened:
            yield Face(opened)
    else:
        async with AsyncClient(daemon, TOKEN, retry=QUICK) as opened:
            yield opened


class Face:
    """Makes the methods of the sync client awaitable."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        async def call(*args, **kwargs):
            return await asyncio.to_thread(getattr(self.client, name), *args, **kwargs)

        return call


async def test_what_is_captured_is_recalled(client):
    """Both clients capture, flush and recall over a real socket, with models as answers."""
    receipt = await client.capture("s1", "ada", "helper", "Ada", "Ada likes tea")
    other = await client.capture("s2", "ben", "helper", "Ben", "Ben likes tea")
    flushed = await client.flush_and_await("s1", 5, "indexed")
    queued = await client.flush("s2", operator="ben")
    found = await client.recall("ada", "tea", max_results=3)

    assert (receipt.durability, receipt.duplicate) == ("always", False)
    assert receipt.turn_id != other.turn_id
    assert (flushed.state, flushed.complete) == ("indexed", True)
    assert queued.state == "queued"
    assert [one.text for one in found.results] == ["Ada likes tea"]


async def test_a_time_without_a_zone_is_noted(client):
    """The note of the daemon arrives."""
    receipt = await client.capture(
        "s1", "ada", "helper", "Ada", "tea", event_time="2024-05-01T09:30:00"
    )

    assert "no zone" in receipt.notes[0]


async def test_status_backfill_and_readiness_are_objects(client, services):
    """The operations without a model answer with dictionaries; not ready is no error."""
    assert (await client.status())["tenant"] == "default"
    assert (await client.backfill("ada"))["operator"] == "ada"
    assert (await client.ready())["ready"] is True
    services.is_ready = False
    assert (await client.ready())["ready"] is False


async def test_errors_come_back_as_their_classes(client, services):
    """A refusal is raised as the error it was in the daemon."""
    await client.capture("s1", "ada", "helper", "Ada", "tea")
    with pytest.raises(SessionConflict) as caught:
        await client.capture("s1", "ben", "helper", "Ben", "tea")
    assert caught.value.field == "operator"
    with pytest.raises(UnknownLens):
        await client.capture("s1", "ada", "helper", "Ada", "tea", lenses=["work"])
    with pytest.raises(DeadlineExpired):
        await client.recall("ada", "tea", deadline_ms=1)
    calls = services.calls
    with pytest.raises(InvalidInput):
        await client.recall("ada", " ")
    assert services.calls == calls


async def test_many_turns_have_an_outcome_each(client, services):
    """A batch reports receipts and errors at the places of its turns."""
    progress = []
    outcomes = await client.capture_many(
        [
            turn("one"),
            turn("two", user=" "),
            turn("three", operator="ben"),
            *[turn(f"more {n}", session="s2") for n in range(120)],
        ],
        on_progress=progress.append,
    )

    assert len(outcomes) == 123
    assert isinstance(outcomes[1], InvalidInput)
    assert isinstance(outcomes[2], SessionConflict)
    assert outcomes[122].receipt == "121-0"
    assert progress == [100, 123]
    assert len(services.turns) == 121


async def test_a_refusal_for_now_is_tried_again(client, services):
    """Back-pressure and an outage pass without the caller seeing them."""
    services.faults = [
        QueueFull("full", retry_after=0.01),
        BackendUnavailable("down", retry_after=0.01),
    ]
    receipt = await client.capture("s1", "ada", "helper", "Ada", "tea")

    assert receipt.duplicate is False
    assert services.calls == 3
    assert len(services.turns) == 1


async def test_a_refusal_that_stays_is_raised(client, services):
    """After the last try the error comes through as itself."""
    services.fault = QueueFull("the queue is full", retry_after=0.01)
    with pytest.raises(QueueFull, match="the queue is full"):
        await client.capture("s1", "ada", "helper", "Ada", "tea")

    assert services.calls == 4


async def test_a_crash_of_the_daemon_is_not_tried_again(client, services):
    """An error of the daemon's own is raised at once."""
    services.fault = RuntimeError("bug")
    with pytest.raises(Exception, match="error of its own"):
        await client.recall("ada", "tea")

    assert services.calls == 1


@asynccontextmanager
async def cutting(url, cuts):
    """Forward connections to *url*; cut the first *cuts* of them when the answer comes."""
    target = urlsplit(url)
    running = set()

    async def pump(source, sink):
        while data := await source.read(65_536):
            sink.write(data)

    async def answer(source, sink):
        nonlocal cuts
        while data := await source.read(65_536):
            if cuts > 0:
                cuts -= 1
                return
            sink.write(data)

    async def forward(reader, writer):
        running.add(asyncio.current_task())
        up_reader, up_writer = await asyncio.open_connection(target.hostname, target.port)
        ways = [
            asyncio.create_task(pump(reader, up_writer)),
            asyncio.create_task(answer(up_reader, writer)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, up_writer):
            end.close()
            with suppress(ConnectionError):
                await end.wait_closed()

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.gather(*running)


async def test_a_capture_whose_answer_is_lost_is_captured_once(daemon, services, home):
    """The repeated turn has the id of the first try, so the daemon knows it."""
    async with (
        cutting(daemon, 2) as url,
        AsyncClient(url, TOKEN, retry=QUICK) as client,
    ):
        receipt = await client.capture("s1", "ada", "helper", "Ada", "tea")

    assert services.calls == 3
    assert receipt.duplicate is True
    assert len(services.turns) == 1


async def test_a_batch_whose_answer_is_lost_is_captured_once(daemon, services, home):
    """Every turn of a repeated batch is known."""
    async with (
        cutting(daemon, 1) as url,
        AsyncClient(url, TOKEN, retry=QUICK) as client,
    ):
        outcomes = await client.capture_many([turn("one"), turn("two")])

    assert all(one.duplicate for one in outcomes)
    assert len(services.turns) == 2


async def test_a_flush_whose_answer_is_lost_is_not_repeated(daemon, services, home):
    """Nobody knows whether it was done, so the caller is told."""
    async with (
        cutting(daemon, 1) as url,
        AsyncClient(url, TOKEN, retry=QUICK) as client,
    ):
        with pytest.raises(BackendUnavailable, match="broke"):
            await client.flush("s1")

    assert services.calls == 1


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_a_daemon_that_is_away_is_said_to_be(home):
    """The error names the address and the command."""
    url = f"http://127.0.0.1:{free_port()}"
    async with AsyncClient(url, "t", retry=QUICK) as client:
        with pytest.raises(BackendUnavailable, match=url) as caught:
            await client.status()
    with Client(url, "t", retry=QUICK) as twin, pytest.raises(BackendUnavailable):
        twin.status()

    assert "gralkord up" in caught.value.hint


async def test_a_silent_daemon_is_given_up(home):
    """An answer that does not come in time is an error."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with AsyncClient(url, "t", timeout=0.05, retry=Retry(retries=0)) as client:
            with pytest.raises(BackendUnavailable, match="in time"):
                await client.status()


def test_a_wrong_token_is_refused(daemon, services, home):
    """The daemon's refusal arrives as such, for single calls and batches."""
    with Client(daemon, "wrong", retry=QUICK) as client:
        with pytest.raises(Unauthorized):
            client.status()
        with pytest.raises(Unauthorized):
            client.capture_many([turn()])

    assert services.calls == 0


def test_the_client_finds_an_announced_daemon(daemon, home, services):
    """Without a word the client finds the daemon that runs."""
    (home / "token").write_text(TOKEN)
    announce(home, daemon, home / "token")
    with Client(retry=QUICK) as client:
        assert client.status()["turns"] == 0


def test_proxies_of_the_environment_are_not_asked(daemon, home, monkeypatch):
    """A proxy would see the token and every memory."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Client(daemon, TOKEN, retry=QUICK) as client:
        assert client.status()["turns"] == 0


async def test_a_unix_socket_is_an_address(services, home):
    """Both clients talk over a Unix socket."""
    path = home / "rpc.sock"
    with served(create_app(services, token=TOKEN), unix=path) as url:
        async with AsyncClient(url, TOKEN, retry=QUICK) as client:
            await client.capture("s1", "ada", "helper", "Ada", "tea")
        with Client(url, TOKEN, retry=QUICK) as client:
            found = client.recall("ada", "tea")

    assert len(found.results) == 1


async def test_waiting_for_a_flush_does_not_hinder_other_calls(services, home):
    """One client waits and captures at the same time."""
    waiting, done = asyncio.Event(), asyncio.Event()
    answer = services.flush

    async def slow(tenant, request):
        waiting.set()
        await asyncio.wait_for(done.wait(), 10)
        return await answer(tenant, request)

    services.flush = slow
    import httpx

    app = create_app(services, token=TOKEN)
    async with AsyncClient("http://localhost", TOKEN, retry=QUICK) as client:
        await client._http.aclose()
        client._http = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        flushing = asyncio.create_task(client.flush_and_await("s1"))
        await waiting.wait()
        await client.capture("s1", "ada", "helper", "Ada", "tea")
        assert not flushing.done()
        done.set()
        assert (await flushing).complete
