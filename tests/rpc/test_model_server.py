"""The scripted model server over real HTTP: every fault, and its own doors."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time

import httpx
import numpy as np
import pytest
import typer
from pydantic import BaseModel

from gralkord.cli.testing import _faults
from gralkord.config import Models
from gralkord.errors import ConfigError, ModelOutage, Permanent, RateLimited, StartError
from gralkord.providers.base import ChatMessage
from gralkord.providers.build import build_model
from gralkord.providers.structured import UnusableAnswer
from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

PROMPT = "<CURRENT MESSAGE>\nAnn: I work at Acme in Berlin.\nBob: Nice, Ann!\n</CURRENT MESSAGE>"
ASK = [ChatMessage("user", PROMPT)]


class ExtractedEntity(BaseModel):
    name: str
    entity_type_id: int
    episode_indices: list[int] = [0]


class ExtractedEntities(BaseModel):
    """As Graphiti has it."""

    extracted_entities: list[ExtractedEntity]


@pytest.fixture(scope="module")
def server():
    with ScriptedModelServer() as running:
        yield running


@pytest.fixture
async def model(server):
    server.set_faults(FaultPlan())
    built = build_model(Models(llm=server.spec), {})
    yield built
    await built.close()


async def entities(model):
    """Return the names the model finds."""
    answer = await model.complete(ASK, ExtractedEntities)
    return [entity["name"] for entity in answer["extracted_entities"]]


@pytest.mark.parametrize("fault", [Fault.THINK, Fault.CODE_FENCE, Fault.PROSE])
async def test_wrapped_answers_need_no_repair(model, server, fault):
    """Thoughts, fences and prose around an answer cost no second call."""
    server.set_faults(FaultPlan(next=(fault,)))
    before = model.usage.calls
    assert await entities(model) == ["Ann", "Bob", "Acme", "Berlin"]
    assert model.usage.calls == before + 1


@pytest.mark.parametrize(
    "fault", [Fault.CUT_OFF, Fault.SCHEMA_ECHO, Fault.WRONG_TYPES, Fault.EMPTY]
)
async def test_broken_answers_are_repaired_once(model, server, fault):
    """Each way to break an answer is mended by one repair turn, and is a typed error after two."""
    server.set_faults(FaultPlan(next=(fault,)))
    assert await entities(model) == ["Ann", "Bob", "Acme", "Berlin"]
    server.set_faults(FaultPlan(next=(fault, fault)))
    with pytest.raises(UnusableAnswer):
        await entities(model)


@pytest.mark.parametrize("retry_date", [False, True])
async def test_rate_limits(model, server, retry_date):
    """A 429 carries the Retry-After of the plan, in seconds or as a date."""
    server.set_faults(FaultPlan(next=(Fault.RATE_LIMITED,), retry_after=90, retry_date=retry_date))
    with pytest.raises(RateLimited) as caught:
        await entities(model)
    assert 85 < caught.value.retry_after <= 90


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.DROPPED])
async def test_hiccups(model, server, fault):
    """After a 500 or a dropped connection the call is made again, and is fine."""
    server.set_faults(FaultPlan(next=(fault,)))
    assert await entities(model)


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault.REFUSED_KEY, ConfigError), (Fault.REFUSED, Permanent)]
)
async def test_refusals(model, server, fault, error):
    """A 401 is a fault of the settings, a 400 one of the request; neither is repeated."""
    server.set_faults(FaultPlan(next=(fault,)))
    with pytest.raises(error):
        await entities(model)
    assert await entities(model)


async def test_faults_of_some_prompts_only(model, server):
    """With `only`, requests that do not hold the text are answered as ever."""
    server.set_faults(FaultPlan(rate=1, kinds=(Fault.REFUSED,), only="no such words"))
    assert await entities(model)


async def test_slow_answers(server):
    """Answers that are all slower than the limit of a call are an outage."""
    server.set_faults(FaultPlan(rate=1, kinds=(Fault.SLOW,), slow_ms=2_000))
    model = build_model(Models(llm=server.spec, timeout_seconds=0.1), {})
    with pytest.raises(ModelOutage, match="did not answer"):
        await entities(model)
    await model.close()


async def test_latency(model, server):
    """Every answer takes as long as the plan says."""
    server.set_faults(FaultPlan(latency_ms=120))
    async with httpx.AsyncClient() as http:
        response = await http.post(
            f"{server.url}/chat/completions", json={"messages": [{"role": "user", "content": "?"}]}
        )
    assert response.elapsed.total_seconds() >= 0.12
    assert response.json()["choices"][0]["message"]["content"] == "ok"


async def test_calls_at_once_are_limited(server):
    """No more calls are under way than the settings allow, small ones included."""
    server.set_faults(FaultPlan(latency_ms=60))
    small = server.spec.replace(":scripted@", ":little@")
    model = build_model(Models(llm=server.spec, llm_small=small, concurrency=2), {})
    before = time.monotonic()
    await asyncio.gather(
        *(model.complete(ASK, ExtractedEntities, small=number % 2 == 0) for number in range(6))
    )
    assert time.monotonic() - before >= 3 * 0.06
    assert {entry.model for entry in server.requests[-6:]} == {"scripted", "little"}
    assert model.usage.calls == 6
    await model.close()


async def test_limits_cut_answers(model):
    """An answer longer than max_tokens is cut there, and the client asks for more."""
    answer = await model.complete(ASK, ExtractedEntities, max_tokens=50)
    assert len(answer["extracted_entities"]) == 4


async def test_a_server_without_json_schema():
    """Such a server is asked with the schema in the prompt, and answers the same."""
    with ScriptedModelServer(without=["json_schema"]) as server:
        model = build_model(Models(llm=server.spec), {})
        assert await entities(model) == ["Ann", "Bob", "Acme", "Berlin"]
        await model.close()
        assert [entry.status for entry in server.requests] == [400, 200]


async def test_a_server_with_a_key():
    """Such a server refuses requests without its key."""
    with ScriptedModelServer(api_key="hunter2") as server:
        keyless = build_model(Models(llm=server.spec), {})
        with pytest.raises(ConfigError, match="refuses the key"):
            await entities(keyless)
        keyed = build_model(Models(llm=server.spec, api_key="hunter2"), {})
        assert await entities(keyed)
        statuses = [(entry.status, entry.authorized) for entry in server.requests]
        assert statuses[0] == (401, False)
        assert statuses[-1] == (200, True)
        await keyless.close()
        await keyed.close()


async def test_why_a_connection_fails_is_said(server):
    """What a system says of a connection tells a wrong scheme from a server that is not there."""
    plain = build_model(Models(llm=server.spec.replace("http:", "https:")), {})
    with pytest.raises(ModelOutage, match=r"cannot be reached: .*SSL"):
        await entities(plain)
    await plain.close()


async def test_the_log_keeps_contents_to_itself(server, model):
    """The log tells what was asked without the words, unless they are asked for."""
    await entities(model)
    async with httpx.AsyncClient(base_url=server.root) as http:
        entry = (await http.get("/requests")).json()[-1]
        assert entry["schema"] == "ExtractedEntities"
        assert entry["status"] == 200
        assert not entry["authorized"]
        assert "Acme" not in json.dumps(entry)
        full = (await http.get("/requests", params={"contents": "true"})).json()[-1]
        assert PROMPT in full["prompt"]
        assert "Acme" in full["answer"]
        assert (await http.delete("/requests")).status_code == 204
        assert (await http.get("/requests")).json() == []


async def test_plans_are_set_while_it_runs(server, model):
    """A plan posted to the server holds from the next request on, and can be taken back."""
    async with httpx.AsyncClient(base_url=server.root) as http:
        plan = {"rate": 1.0, "kinds": ["refused_key"]}
        assert (await http.post("/faults", json=plan)).json()["rate"] == 1.0
        with pytest.raises(ConfigError):
            await entities(model)
        assert (await http.get("/faults")).json()["kinds"] == ["refused_key"]
        assert (await http.post("/faults", json={"rate": 1.0})).status_code == 422
        await http.delete("/faults")
        assert await entities(model)


async def test_one_request_may_ask_for_a_fault(server, model):
    """The header X-Fault spoils one answer; one it does not know is refused."""
    body = {"messages": [{"role": "user", "content": "?"}]}
    async with httpx.AsyncClient() as http:
        url = f"{server.url}/chat/completions"
        assert (
            await http.post(url, json=body, headers={"X-Fault": "server_error"})
        ).status_code == 500
        assert (await http.post(url, json=body, headers={"X-Fault": "fire"})).status_code == 400


@pytest.mark.parametrize("body", ["not json", "[]", "{}", '{"messages": []}', '{"messages": 1}'])
async def test_bad_requests_are_refused(server, model, body):
    """A request that is no chat completion gets a 400, and later ones are fine."""
    async with httpx.AsyncClient() as http:
        response = await http.post(f"{server.url}/chat/completions", content=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"]
    assert await entities(model)


async def test_embeddings(server):
    """Embeddings are unit vectors, the same each time, alike for texts that share words."""
    texts = ["Ann lives in Rome", "Ann lives in Berlin", "soup", ""]
    async with httpx.AsyncClient(base_url=server.url) as http:
        answer = (await http.post("/embeddings", json={"input": texts})).json()
        again = (await http.post("/embeddings", json={"input": texts})).json()
        short = (await http.post("/embeddings", json={"input": "a", "dimensions": 8})).json()
        wrong = await http.post("/embeddings", json={"input": [1]})
        models = (await http.get("/models")).json()
    assert answer == again
    rows = np.array([row["embedding"] for row in answer["data"]])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1, 1, 0], abs=1e-5)
    assert rows[0] @ rows[1] > 0.5 > rows[0] @ rows[2]
    assert len(short["data"][0]["embedding"]) == 8
    assert wrong.status_code == 400
    assert models["data"][0]["id"] == "scripted"


def test_a_port_that_is_taken_is_named(server):
    """A second server on the same port says so."""
    port = int(server.root.rsplit(":", 1)[1])
    with pytest.raises(StartError, match=f"cannot listen on 127.0.0.1:{port}"):
        ScriptedModelServer(port=port)


def start(*arguments):
    """Start the command; return the process and its first line."""
    program = "from gralkord.cli.testing import app; app()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "model-server", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_command_prints_its_url_and_stops(stop):
    """The first line is the base URL; the signals that end a program end this one with 0."""
    process, url = start("--port", "0", "--fault", "rate_limited", "--retry-after", "9")
    with process:
        body = {"messages": [{"role": "user", "content": "?"}]}
        response = httpx.post(f"{url}/chat/completions", json=body)
        assert (response.status_code, response.headers["Retry-After"]) == (429, "9")
        process.send_signal(stop)
        assert process.wait(10) == 0


def test_the_command_speaks_json():
    """With --json the first line is an object with the URL and the model spec."""
    process, line = start("--json")
    with process:
        told = json.loads(line)
        assert told["spec"] == f"openai-compatible:scripted@{told['url']}"
        assert told["specs"]["google"].endswith("/v1beta")
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--plan", "/nowhere.json"], 1),
        (["--fault", "fire"], 2),
        (["--without", "words"], 2),
        (["--replay", "/nowhere.json"], 1),
        (["--fault-rate", "2"], 2),
    ],
)
def test_wrong_usage_of_the_command(arguments, code):
    """Wrong options end with 2, files that cannot be read with 1."""
    process, line = start(*arguments)
    with process:
        assert line == ""
        assert process.wait(20) == code


def test_a_plan_that_is_none_is_told_with_its_field(tmp_path):
    """The file is named, and not an option that was not given."""
    plan = tmp_path / "plan.json"
    plan.write_text('{"rate": "often"}')
    with pytest.raises(typer.BadParameter, match=r"^rate: ") as caught:
        _faults(plan, {"seed": 7})
    assert caught.value.param_hint == f"--plan {plan}"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "x-ratelimit-{}-requests"),
        ("/v1/messages", "anthropic-ratelimit-requests-{}"),
    ],
)
async def test_limits_of_a_minute_are_told_and_kept(server, path, name):
    """Answers say what is left of a minute, in the words of the provider; what is over is refused."""
    server.set_faults(FaultPlan(requests_per_minute=2))
    body = {"model": "limited", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
    async with httpx.AsyncClient(base_url=server.root) as http:
        answers = [await http.post(path, json=body) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers[name.format("remaining")] for answer in answers] == ["1", "0", "0"]
    assert answers[0].headers[name.format("limit")] == "2"
    assert 50 < float(answers[2].headers["Retry-After"]) <= 60


async def test_a_plan_may_end_by_itself(server):
    """After its time nothing fails any more."""
    server.set_faults(FaultPlan(rate=1, kinds=(Fault.SERVER_ERROR,), lasts=0.0))
    body = {"messages": [{"role": "user", "content": "?"}]}
    async with httpx.AsyncClient() as http:
        assert (await http.post(f"{server.url}/chat/completions", json=body)).status_code == 200
