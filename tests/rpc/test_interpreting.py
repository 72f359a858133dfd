"""A recall that a model interprets, with a model behind real HTTP that fails in every way."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest
from fake_daemon import TOKEN, FakeServices, served

from gralkord.clock import SystemClock
from gralkord.config import Models, RecallSettings
from gralkord.errors import GralkorError, InterpretParseFailed
from gralkord.graph.cache import GroupCache
from gralkord.graph.rows import FactRow
from gralkord.groups import Group
from gralkord.models import RecallRequest
from gralkord.providers.build import build_model
from gralkord.providers.ledger import NoLedger
from gralkord.recall.recall import Judges, Recaller
from gralkord.rpc.app import create_app
from gralkord.testing.faults import MALFORMED, Fault, FaultPlan
from gralkord.testing.interpreting import ASIDE
from gralkord.testing.model_server import ScriptedModelServer

ANN = Group("default", "ann", "default")
BOAT, ASIDE_BOAT = "The boat is red.", f"The boat is afloat {ASIDE}."
# What is wrong with these is only how they are written; the answer itself is there.
READABLE = {
    *(Fault.THINK, Fault.CODE_FENCE, Fault.PROSE, Fault.PYTHON, Fault.SLIPS, Fault.QUOTED),
    Fault.TOOL_CALL,
}


class Known:
    """A pool of one group that is in memory."""

    def __init__(self, *texts) -> None:
        self._cache = GroupCache(ANN.id, 1, "run")
        for text in texts:
            told = dict.fromkeys(
                ("created_at", "valid_at", "invalid_at", "expired_at", "reference_time")
            )
            ends = {"source_uuid": "a", "target_uuid": "b", "group_id": ANN.id, "seq": 1}
            row = {"uuid": text, "fact": text, "name": "IS", "episodes": (), "attributes": {}}
            self._cache.facts.put(FactRow(**(told | row | ends)), None)

    async def fresh(self, _):
        """Return the group."""
        return self._cache


class Book(NoLedger):
    """Keeps the calls."""

    def __init__(self) -> None:
        self.calls = []

    async def record(self, call):
        """Keep one."""
        self.calls.append(call)


@pytest.fixture(scope="module")
def server():
    """The scripted model."""
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture
def plan(server):
    """Make the server fail."""

    def fail(*faults, **more):
        server.set_faults(FaultPlan(next=faults, **more))

    server.forget()
    yield fail
    fail()


@pytest.fixture
async def book():
    """What is kept account of."""
    return Book()


@pytest.fixture
async def recaller(server, book):
    """A recaller that asks the scripted model."""
    model = build_model(Models(llm=f"openai-compatible:m@{server.url}"), {}, ledger=book)
    pool = Known(BOAT, ASIDE_BOAT)
    yield Recaller(pool, None, RecallSettings(), SystemClock(), judges=Judges(model))
    await model.close()


async def ask(recaller, **values):
    request = RecallRequest(operator="ann", query="boat", **values)
    return await recaller.recall("default", request, [ANN])


def texts(result):
    return {memory.text for memory in result.results}


async def test_one_call_is_made_and_kept_account_of(recaller, plan, book):
    """What is beside the point is left out; the ledger has the stage and whose account it is."""
    result = await ask(recaller)
    assert (texts(result), result.interpreted) == ({BOAT}, True)
    (call,) = book.calls
    assert (call.stage, call.group) == ("interpret", ANN)


@pytest.mark.parametrize("fault", sorted(MALFORMED))
async def test_a_malformed_answer_never_loses_a_memory(recaller, book, plan, fault):
    """It is read all the same, or what was found is returned; asked for, it is an error."""
    plan(fault, fault)
    result = await ask(recaller)
    assert result.results
    assert len(book.calls) == 1
    if result.interpreted:
        assert texts(result) == {BOAT}
        return
    assert fault not in READABLE
    assert (texts(result), result.degraded) == ({BOAT, ASIDE_BOAT}, ["interpret"])
    with pytest.raises(InterpretParseFailed) as refusal:
        await ask(recaller, interpret="on")
    assert BOAT not in str(refusal.value.to_dict())


async def test_an_answer_that_does_not_come_is_not_waited_for(recaller, plan):
    """`auto` waits for half of the time, `on` until shortly before the deadline."""
    plan(Fault.SLOW, Fault.SLOW, slow_ms=1_500)
    for mode, seconds in {"auto": 0.65, "on": 1.25}.items():
        began = asyncio.get_running_loop().time()
        result = await ask(recaller, interpret=mode, deadline_ms=1_200)
        assert asyncio.get_running_loop().time() - began < seconds
        assert (len(result.results), result.degraded) == (2, ["interpret"])
        assert result.partial is (mode == "on")


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.REFUSED_KEY])
async def test_a_refusal_leaves_what_was_found(recaller, plan, fault):
    """A model that does not want to is no error of the recall."""
    plan(fault, fault)
    try:
        result = await ask(recaller, interpret="on")
    except GralkorError as error:  # pragma: no cover
        pytest.fail(f"{error.code}: {error.message}")
    assert (len(result.results), result.degraded) == (2, ["interpret"])


class Slow(FakeServices):
    """A daemon whose recall takes for ever, and knows whether it was given up."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.ended = threading.Event(), threading.Event()

    async def recall(self, tenant, request):
        """Wait for ever."""
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_a_recall_that_nobody_waits_for_is_given_up():
    """Whoever hangs up cancels the recall, and with it what it asks of models."""
    services, headers = Slow(), {"Authorization": f"Bearer {TOKEN}"}
    with served(create_app(services, token=TOKEN)) as url:
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=10) as http:
            body = {"operator": "ann", "query": "boat"}
            asking = asyncio.create_task(http.post("/v1/recall", json=body))
            assert await asyncio.to_thread(services.begun.wait, 10)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert await asyncio.to_thread(services.ended.wait, 10)
