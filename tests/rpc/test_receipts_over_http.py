"""Jobs and dead letters over HTTP, by both clients and by hand."""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from fake_daemon import TOKEN, job, letter

from gralkord import AsyncClient, Client
from gralkord.client.transport import Retry
from gralkord.errors import BackendUnavailable, InvalidInput, NotFound, TooMany

QUICK = Retry(retries=3, base=0.001)


async def listed(client, *args, **kwargs):
    """Return all that a client's watch yields."""
    return [one async for one in client.watch_job(*args, **kwargs)]


class Face:
    """Makes the methods of the sync client awaitable."""

    def __init__(self, client):
        self.client = client

    def __getattr__(self, name):
        async def call(*args, **kwargs):
            return await asyncio.to_thread(getattr(self.client, name), *args, **kwargs)

        return call

    async def watch_job(self, *args, **kwargs):
        """Yield what the sync client yields."""
        found = await asyncio.to_thread(lambda: list(self.client.watch_job(*args, **kwargs)))
        for one in found:
            yield one


@pytest.fixture(params=["sync", "async"])
async def client(request, daemon, home):
    """Both clients behind one awaitable face."""
    if request.param == "sync":
        with Client(daemon, TOKEN, retry=QUICK) as opened:
            yield Face(opened)
    else:
        async with AsyncClient(daemon, TOKEN, retry=QUICK) as opened:
            yield opened


async def test_a_job_is_asked_for(client, services):
    """A job comes as a model; one that is not there is an error of its class."""
    services.states["7-0"] = [job("buffered", position=3)]
    assert (await client.job("7-0")).position == 3
    with pytest.raises(NotFound) as caught:
        await client.job("8-0")
    assert "7 days" in caught.value.hint
    with pytest.raises(InvalidInput, match="1714555800123-0"):
        await client.job("../status")


async def test_a_job_is_followed_to_its_end(client, services):
    """Each state comes once, heartbeats not at all, and a final state is the last."""
    services.states["7-0"] = [
        job(),
        None,
        job(),
        job("buffered"),
        job("indexed", reason="not_flushed"),
        job("understood"),
    ]
    found = await listed(client, "7-0")
    assert [one.state for one in found] == ["queued", "buffered", "indexed", "understood"]


async def test_a_watch_survives_the_end_of_its_stream(client, services):
    """When the daemon ends the stream it is opened again, and nothing is told twice."""
    services.states["7-0"] = [job(), "ended", job(), "ended", job("dead")]
    assert [one.state for one in await listed(client, "7-0")] == ["queued", "dead"]


async def test_a_watch_ends_at_its_time(client, services):
    """A job that is not done in time is no error: the last state says how far it is."""
    services.states["7-0"] = [job()]
    assert [one.final for one in await listed(client, "7-0", timeout=0.1)] == [False]


async def test_a_watch_of_nothing_fails(client, services):
    """A refusal comes as its class, also in the middle of the stream."""
    with pytest.raises(NotFound):
        await listed(client, "8-0")
    services.states["7-0"] = [job(), NotFound("it was forgotten")]
    with pytest.raises(NotFound, match="forgotten"):
        await listed(client, "7-0")
    services.fault = BackendUnavailable("no queue", retry_after=0.001)
    with pytest.raises(BackendUnavailable, match="no queue"):
        await listed(client, "7-0")


async def test_dead_letters_are_listed_shown_and_handled(client, services):
    """The list has no words, one letter has; by ids or by filter they are retried or dropped."""
    services.letters = {
        one.id: one for one in (letter(1), letter(2), letter(3, reason="odd"), letter(4))
    }
    page = await client.dead_letters(reason="poison", limit=2)
    assert ([one.id for one in page.letters], page.next) == (["1-0", "2-0"], "1-0")
    assert page.letters[0].body is None
    assert (await client.dead_letter("1-0")).body["turns"] == ["t1"]
    result = await client.retry_dead(["1-0", "9-0"])
    assert (result.done, result.left) == (1, {"9-0": "not_found"})
    assert (await client.drop_dead("4-0")).done == 1
    assert (await client.retry_dead(everything=True, reason="poison")).done == 1
    assert (await client.drop_dead(everything=True)).done == 1
    with pytest.raises(NotFound):
        await client.dead_letter("1-0")
    with pytest.raises(InvalidInput, match="either ids, or all"):
        await client.drop_dead()
    with pytest.raises(InvalidInput, match="limit"):
        await client.dead_letters(limit=0)


async def test_events_are_server_sent(http, services):
    """A stream has the media type, an event for each state, and comments in between."""
    services.states["7-0"] = [job(), None, job("understood")]
    answer = await http.get("/v1/jobs/7-0/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    first, beat, last, end = answer.text.split("\n\n")
    assert (beat, end) == (":", "")
    assert first.startswith("event: state\ndata: {")
    assert json.loads(last.split("data: ")[1])["state"] == "understood"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/jobs/7-0/events?timeout_ms=0", "timeout_ms"),
        ("/v1/jobs/7-0/events?timeout_ms=soon", "timeout_ms"),
        ("/v1/dead?limit=1001", "limit"),
        ("/v1/dead?lane=slow", "lane"),
        ("/v1/dead?colour=red", "colour"),
    ],
)
async def test_wrong_parameters_are_refused_in_the_one_form(http, path, field):
    """What a URL asks for is checked like a body."""
    answer = await http.get(path)
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] == field


@pytest.mark.parametrize(
    "body", [{}, {"ids": []}, {"ids": ["1-0"], "all": True}, {"ids": ["1-0"], "reason": "x"}]
)
async def test_a_selection_is_ids_or_a_filter(http, services, body):
    """Neither, or both, is refused, and nothing is done."""
    for path in ("/v1/dead/retry", "/v1/dead/drop"):
        answer = await http.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, "ids")
    assert services.calls == 0


async def test_a_refused_watch_is_an_answer_of_its_own(http, services):
    """Before the stream has begun an error has its status."""
    assert (await http.get("/v1/jobs/9-0/events")).status_code == 404
    services.fault = TooMany("enough", retry_after=1)
    answer = await http.get("/v1/jobs/9-0/events")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")


def test_a_reader_that_goes_away_ends_its_stream(daemon, services):
    """When the connection is closed the daemon stops following the job."""
    services.states["7-0"] = [job()]
    ended = []

    async def watch_job(tenant, job_id, _seconds):
        try:
            while True:
                yield services.states["7-0"][0]
                await asyncio.sleep(0.005)
        finally:
            ended.append(job_id)

    services.watch_job = watch_job
    parts = urlsplit(daemon)
    connection = HTTPConnection(parts.hostname, parts.port, timeout=10)
    connection.request("GET", "/v1/jobs/7-0/events", headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    assert answer.readline() == b"event: state\n"
    answer.close()
    connection.close()
    asyncio.run(_until(lambda: ended))


async def _until(holds):
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - the daemon is another thread's
            await asyncio.sleep(0.005)
