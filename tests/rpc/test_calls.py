"""Calls to models over real HTTP: limits, cancellation, and an endpoint that does not answer."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from gralkord.errors import ModelOutage, RateLimited
from gralkord.providers.announced import Announced, announced_by, read_refusal
from gralkord.providers.calls import Calls
from gralkord.providers.endpoint import Endpoint, Limits
from gralkord.providers.http import ModelServer
from gralkord.providers.limiter import LocalLimiter
from gralkord.providers.refusals import QuotaSpent
from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

BODY = {"messages": [{"role": "user", "content": "x" * 400}]}


class Noisy(LocalLimiter):
    """A limiter that also tells who was withdrawn."""

    def __init__(self):
        super().__init__()
        self.gone = asyncio.Event()
        self.sent = None

    async def withdrawn(self, call, turn, *, sent):
        self.sent = sent
        await super().withdrawn(call, turn, sent=sent)
        self.gone.set()


class Slow:
    """A real server that never answers, and knows when a connection is closed."""

    def __init__(self):
        self.asked, self.closed = asyncio.Event(), asyncio.Event()

    async def __call__(self, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        while await reader.read(1_000):
            pass
        self.closed.set()
        writer.close()


@pytest.fixture
async def slow():
    slow = Slow()
    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        slow.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield slow


@pytest.fixture
async def make():
    """Make calls to an address, under limits."""
    servers = []

    def make(url, limiter=None, **limits):
        endpoint = Endpoint(spec="s", model="m", base_url=url, limits=Limits(**limits))
        server = ModelServer(endpoint)
        servers.append(server)
        calls = Calls(endpoint, limiter or LocalLimiter(), asyncio.Semaphore(8))

        async def one(**more):
            return await calls.make(lambda: server.post("/chat/completions", BODY), **more)

        return one

    yield make
    for server in servers:
        await server.close()


def used(response):
    return response.json()["usage"]["total_tokens"]


async def test_cancelling_closes_the_connection_and_gives_the_place_back(make, slow):
    """Who cancels a call waits for nothing, the server sees it, and the next call has its place."""
    limiter = Noisy()
    one = make(slow.url, limiter, concurrency=1)
    task = asyncio.create_task(one())
    await slow.asked.wait()
    behind = asyncio.create_task(one())
    slow.asked.clear()
    task.cancel()
    async with asyncio.timeout(2):
        await asyncio.gather(task, return_exceptions=True)
        await slow.closed.wait()
        await limiter.gone.wait()
        await slow.asked.wait()
    assert task.cancelled()
    assert limiter.sent
    behind.cancel()
    await asyncio.gather(behind, return_exceptions=True)


async def test_a_deadline_while_a_call_waits_gives_its_turn_back(make):
    """A call that is given up before it was sent was never made, and takes no turn."""
    limiter = Noisy()
    with ScriptedModelServer() as server:
        one = make(server.url, limiter, requests=2)
        await one()
        waiting = one()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await waiting
        async with asyncio.timeout(2):
            await limiter.gone.wait()
        assert len(server.requests) == 1
    assert limiter.sent is False
    [known] = limiter._endpoints.values()
    assert sum(known.window.requests.values()) == 1


async def test_never_more_calls_at_once_than_allowed(make):
    """Twelve calls to a server that may have two at once are made in pairs, and all of them."""
    under_way, most = 0, 0

    async def app(scope, receive, send):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02)
        under_way -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    endpoint = Endpoint(spec="s", model="m", base_url="http://local", limits=Limits(concurrency=2))
    calls = Calls(endpoint, LocalLimiter(), asyncio.Semaphore(8))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        made = [calls.make(lambda: client.get("http://local/")) for _ in range(12)]
        answers = await asyncio.gather(*made)
    assert len(answers) == 12
    assert most == 2


async def test_what_headers_announce_is_kept(make):
    """With no limit in the settings the provider's own is met, and nothing is refused."""
    with ScriptedModelServer(faults=FaultPlan(requests_per_minute=6)) as server:
        one = make(server.url)
        began = time.monotonic()
        tasks = [asyncio.create_task(one()) for _ in range(1)]
        await asyncio.gather(*tasks)
        more = [asyncio.create_task(one()) for _ in range(8)]
        done, waiting = await asyncio.wait(more, timeout=0.5)
        assert time.monotonic() - began < 5
        assert 1 <= len(done) <= 3
        assert {entry.status for entry in server.requests} == {200}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_estimates_follow_what_calls_use(make):
    """A call's reserve is settled by what the answer says, and the next estimates follow it."""
    limiter = LocalLimiter()
    with ScriptedModelServer() as server:
        one = make(server.url, limiter, tokens=1_000_000)
        taken = [used(await one(tokens=10, used=used)) for _ in range(20)]
    [known] = limiter._endpoints.values()
    assert sum(known.window.tokens.values()) == sum(taken)


async def test_an_endpoint_that_is_out_is_left_alone(make):
    """After an outage calls fail without being made; a while later one is, and it is over."""
    with ScriptedModelServer() as server:
        server.set_faults(FaultPlan(next=(Fault.SERVER_ERROR,) * 3))
        one = make(server.url)
        with pytest.raises(ModelOutage, match="500"):
            await one()
        made = len(server.requests)
        with pytest.raises(ModelOutage, match="has not answered lately") as caught:
            await one()
        assert len(server.requests) == made
        assert 0 < caught.value.retry_after <= 1
        await asyncio.sleep(caught.value.retry_after)
        assert (await one()).status_code == 200
        assert (await one()).status_code == 200


async def test_a_quota_of_the_day_is_not_asked_for_again_soon(make, slow):
    """A refusal that names a limit of the day waits for minutes, though it says seconds."""
    details = [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
        {"violations": [{"quotaId": "GenerateRequestsPerDayPerProject", "quotaValue": "50"}]},
    ]
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": details}}

    async def app(scope, receive, send):
        await httpx_json(send, 429, body)

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        endpoint = Endpoint(spec="s", model="m", base_url="http://local")
        server = ModelServer(endpoint)
        server._client = client
        calls = Calls(endpoint, LocalLimiter(), asyncio.Semaphore(8))
        with pytest.raises(QuotaSpent) as caught:
            await calls.make(lambda: server.post("/x", {}))
    assert caught.value.retry_after == 300
    with pytest.raises(RateLimited):
        await calls.make(lambda: server.post("/x", {}))


async def httpx_json(send, status, body):
    """Answer with JSON."""
    answer = httpx.Response(status, json=body)
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (
            {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59",
             "x-ratelimit-limit-tokens": "150000", "x-ratelimit-remaining-tokens": "149984"},
            Announced(60, 59, 150_000, 149_984),
        ),
        (
            {"anthropic-ratelimit-requests-limit": "50",
             "anthropic-ratelimit-tokens-limit": "40000",
             "anthropic-ratelimit-tokens-remaining": "39000"},
            Announced(50, None, 40_000, 39_000),
        ),
        ({"X-RateLimit-Limit-Tokens": "7"}, Announced(tokens=7)),
        ({"x-ratelimit-limit-requests": "many"}, None),
        ({"x-ratelimit-limit-requests": "0"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_what_headers_say(headers, said):
    """Limits are read from the headers of OpenAI and Anthropic, and nonsense is passed over."""
    assert announced_by(httpx.Headers(headers)) == said


def test_what_a_refusal_of_google_says():
    """Its body tells how long to wait and which limit was met."""
    details = [
        {"retryDelay": "7s"},
        {"violations": [
            {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel", "quotaValue": "10"},
            {"quotaId": "GenerateContentInputTokensPerModelPerMinute", "quotaValue": "250000"},
        ]},
    ]  # fmt: skip
    said = read_refusal([{"error": {"details": details}}])
    assert said == (7.0, Announced(requests=10, tokens=250_000), False)
    for other in (None, 1, [], {}, {"error": 1}, {"error": {"details": [1, {"violations": 2}]}}):
        assert read_refusal(other) == (None, None, False)
