"""The doctor, at real servers and over real HTTP."""

from __future__ import annotations

import json
import os

import pytest
import redis as redis_sync
from canned import canned_server

from gralkord.cli.app import run
from gralkord.clock import SystemClock
from gralkord.config import Settings
from gralkord.doctor import Doctor
from gralkord.doctor.case import Case
from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer


@pytest.fixture
def limited_queue(queue_socket):
    """A queue with a memory limit, as the embedded one has."""
    with redis_sync.Redis(unix_socket_path=str(queue_socket)) as client:
        client.config_set("maxmemory", "512mb")
        yield queue_socket
        client.config_set("maxmemory", "0")


@pytest.fixture(autouse=True)
def no_settings(tmp_path, monkeypatch):
    """No setting in the environment, no daemon of this user, and no change of how we log."""
    monkeypatch.setattr("gralkord.log.configure", lambda **_: None)
    for name in os.environ:
        if name.startswith(("GRALKORD_", "OPENAI_", "GOOGLE_", "GEMINI_", "ANTHROPIC_", "OLLAMA_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def always(fault):
    """Return a plan by which every request fails that way."""
    return FaultPlan(rate=1, kinds=(fault,), retry_after=600)


async def examine(tmp_path, *only, environ=None, **settings):
    """Return what is found, by the names of the checks."""
    case = Case(Settings(**settings), environ or {}, tmp_path, SystemClock())
    report = await Doctor(case, only).run()
    return {found.name: found for found in report.findings}


def states(found):
    """Return the states alone."""
    return {name: each.state for name, each in found.items()}


async def test_both_servers_are_well(tmp_path, limited_queue, graph_socket):
    """The embedded servers have the settings that the guarantees need."""
    queue = {"socket": limited_queue, "durability": "everysec"}
    found = await examine(tmp_path, "queue", "graph", queue=queue, graph={"socket": graph_socket})
    assert {name: state for name, state in states(found).items() if state != "ok"} == {}
    assert found["queue.persistence"].facts["appendfsync"] == "everysec"
    assert found["graph.version"].facts["falkordb"].count(".") == 2


async def test_settings_that_lose_turns_are_told(tmp_path, limited_queue):
    """The server is asked, not the configuration."""
    with redis_sync.Redis(unix_socket_path=str(limited_queue)) as client:
        client.config_set("appendonly", "no")
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            found = await examine(tmp_path, "queue", queue={"socket": limited_queue})
        finally:
            client.config_set("appendonly", "yes")
            client.config_set("maxmemory-policy", "noeviction")
    assert found["queue.persistence"].state == "fail"
    assert found["queue.memory"].state == "fail"


@pytest.mark.parametrize(
    ("rights", "state"),
    [(["-@all", "+xadd", "~gk:intake:*"], "ok"), (["+@all", "~*"], "warn"), (None, "fail")],
)
async def test_rights_of_producers(tmp_path, queue_socket, rights, state):
    """A user that may do more than write, or is not there, is told."""
    with redis_sync.Redis(unix_socket_path=str(queue_socket)) as client:
        if rights is not None:
            client.execute_command("ACL", "SETUSER", "writer", "on", "nopass", *rights)
        try:
            found = await examine(
                tmp_path, "queue", queue={"socket": queue_socket, "producer_user": "writer"}
            )
        finally:
            client.acl_deluser("writer")
    assert found["queue.producers"].state == state


async def test_a_user_that_may_ask_nothing_gets_no_advice(tmp_path, queue_socket):
    """What a managed server does not tell is not looked at, and nothing fails for it."""
    with redis_sync.Redis(unix_socket_path=str(queue_socket)) as client:
        client.execute_command(
            "ACL", "SETUSER", "guest", "on", ">pass", "~*", "+@all", "-@dangerous", "-acl", "-time"
        )
        try:
            found = await examine(
                tmp_path,
                "queue",
                queue={"socket": queue_socket, "username": "guest", "password": "pass"},
            )
        finally:
            client.acl_deluser("guest")
    assert states(found) == {
        "queue.reachable": "ok",
        "queue.version": "skip",
        "queue.persistence": "warn",
        "queue.memory": "skip",
        "queue.users": "skip",
        "queue.producers": "skip",
        "queue.access": "ok",
        "queue.clock": "skip",
    }


async def test_a_wrong_password_is_told_once(tmp_path, queue_socket):
    """The first check names the setting, the others were not looked at."""
    found = await examine(
        tmp_path, "queue", queue={"socket": queue_socket, "username": "x", "password": "hunter2"}
    )
    assert found.pop("queue.reachable").state == "fail"
    assert set(states(found).values()) == {"skip"}
    assert "hunter2" not in str(found)


@pytest.mark.parametrize("kind", ["queue", "graph"])
async def test_a_missing_password_is_told(tmp_path, queue_socket, kind):
    """A server that wants one is there, so nobody is told to start it."""
    with redis_sync.Redis(unix_socket_path=str(queue_socket), single_connection_client=True) as own:
        own.config_set("requirepass", "hunter2")
        try:
            found = await examine(tmp_path, kind, **{kind: {"socket": queue_socket}})
        finally:
            own.config_set("requirepass", "")
    told = found[f"{kind}.reachable"]
    assert (told.state, told.found) == ("fail", f"the {kind} refuses the user or password")


async def test_one_server_for_both_is_told(tmp_path, graph_socket):
    """Queries hold captures up where queue and graph are the same."""
    found = await examine(
        tmp_path, "graph", queue={"socket": graph_socket}, graph={"socket": graph_socket}
    )
    assert found["graph.separate"].state == "fail"


async def test_a_redis_is_no_graph(tmp_path, queue_socket):
    """A server without the module is told as that."""
    found = await examine(tmp_path, "graph", graph={"socket": queue_socket})
    assert found["graph.version"].state == "fail"
    assert "no FalkorDB" in found["graph.version"].found


async def test_a_server_that_is_not_there(tmp_path):
    """It is a failure where it is named."""
    found = await examine(tmp_path, "queue", "graph", queue={"socket": "/nowhere/q.sock"})
    assert found["queue.reachable"].state == "fail"
    assert found["graph.reachable"].state == "skip"


async def test_groups_of_another_embedder_are_told(tmp_path, graph_socket):
    """The fingerprint of each group is compared with our embedders."""
    with redis_sync.Redis(unix_socket_path=str(graph_socket)) as client:
        for tenant in ("a", "b"):
            query = "CREATE (:Meta {schema: 1, embedder: 'openai:x:plain:8'})"
            client.execute_command("GRAPH.QUERY", f"op__{tenant}__ann__default", query)
    found = await examine(tmp_path, "graph.vectors", graph={"socket": graph_socket})
    assert found["graph.vectors"].state == "warn"
    assert found["graph.vectors"].facts["fingerprints"] == {"openai:x:plain:8": 2}


async def test_models_that_are_fit(tmp_path):
    """Each role gets a sample; what they have used is in the report."""
    with ScriptedModelServer(api_key="sk-right") as server:
        models = {
            "llm": server.spec,
            "llm_small": server.spec.replace("scripted", "small"),
            "embedder": server.spec,
            "reranker": server.spec,
            "api_key": "sk-right",
        }
        settings = Settings(models=models)
        case = Case(settings, {}, tmp_path, SystemClock(), long=True)
        report = await Doctor(case, {"llm", "llm_small", "embedder", "reranker"}).run()
    assert [found for found in report.findings if found.state != "ok"] == []
    assert report.samples["calls"] >= 7
    assert report.samples["prompt_tokens"] > 0
    assert "sk-right" not in json.dumps(report.to_dict())


@pytest.mark.parametrize(
    ("server", "models", "check", "state", "words"),
    [
        ({"api_key": "sk-right"}, {"api_key": "sk-wrong"}, "answer", "fail", "models.api_key"),
        ({"faults": always(Fault.RATE_LIMITED)}, {}, "answer", "warn", "fewer requests"),
        ({"faults": always(Fault.REFUSED)}, {}, "answer", "fail", "refuses the request"),
        ({"faults": always(Fault.EMPTY)}, {}, "schema", "fail", "larger model"),
        ({"without": ("json_schema", "tools")}, {}, "schema", "warn", "json_object"),
    ],
)
async def test_models_that_are_not(tmp_path, server, models, check, state, words):
    """Each failure is told by its check, with what to do, and without the key."""
    with ScriptedModelServer(**server) as scripted:
        found = await examine(tmp_path, "llm", models={"llm": scripted.spec} | models)
    told = found[f"llm.{check}"]
    assert told.state == state
    assert words in f"{told.found} {told.mend}"
    assert "sk-" not in str(found)
    assert found["llm.address"].state == "ok"


async def test_a_server_that_forgets_the_beginning(tmp_path):
    """A context that is too short is told where a long prompt is asked for."""
    with canned_server() as server:
        people = ["Ida", "Tomas", "Bergen"]
        server.complete(json.dumps({"people": people, "facts": []}))
        server.complete(json.dumps({"ferry": "not said"}))
        models = {"llm": f"openai-compatible:m@{server.url}"}
        case = Case(Settings(models=models), {}, tmp_path, SystemClock(), long=True)
        report = await Doctor(case, {"llm"}).run()
    assert report.findings[-1].name == "llm.length"
    assert report.findings[-1].state == "warn"
    assert len(json.dumps(server.bodies[-1])) > 40_000


@pytest.mark.parametrize("description", ["A red square.", "A cat on a table."])
async def test_a_model_that_sees_and_one_that_does_not(tmp_path, description):
    """The picture goes to the model, and its words must be of what it shows."""
    with canned_server() as server:
        server.complete(json.dumps({"description": description}))
        found = await examine(
            tmp_path, "vision", models={"llm": f"openai-compatible:m@{server.url}", "vision": "llm"}
        )
    assert found["vision.sight"].state == ("ok" if "red" in description else "warn")
    assert "image/png" in json.dumps(server.bodies[-1])


async def test_an_address_where_nobody_is(tmp_path):
    """It is told before a model is asked."""
    found = await examine(tmp_path, "llm", models={"llm": "openai-compatible:m@http://127.0.0.1:9"})
    assert states(found) == {
        "llm.settings": "ok",
        "llm.address": "fail",
        "llm.clock": "skip",
        "llm.answer": "skip",
        "llm.schema": "skip",
        "llm.sense": "skip",
        "llm.length": "skip",
    }


async def test_a_key_that_is_missing(tmp_path):
    """The variable is named."""
    models = {"llm": "google:g", "embedder": "x", "reranker": "llm"}
    found = await examine(tmp_path, "llm", "embedder", "reranker", models=models)
    assert "GOOGLE_API_KEY" in found["llm.settings"].found
    assert found["embedder.settings"].state == "fail"
    assert "GOOGLE_API_KEY" in found["reranker.settings"].found
    found = await examine(tmp_path, "reranker", models={"reranker": "llm"})
    assert "models.llm names none" in found["reranker.settings"].found


def test_nothing_runs_and_all_is_well(capsys):
    """Where nothing is configured and nothing runs, that is said, and is no failure."""
    assert run(["doctor", "--offline", "--json"]) == 0
    content = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert content["ok"] is True
    assert content["estimate"]["calls"] == 0
    by_name = {check["name"]: check for check in content["checks"]}
    assert "gralkord up" in by_name["queue.reachable"]["mend"]
    assert by_name["daemon.reachable"]["state"] == "skip"
    assert by_name["embedder.sense"]["state"] == "ok"


def test_a_failure_is_exit_code_1(capsys, monkeypatch):
    """People get a line for each check, and what to do below it."""
    monkeypatch.setenv("GRALKORD_MODELS__LLM", "openai:gpt-5")
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert run(["doctor", "--only", "llm"]) == 1
    out = capsys.readouterr().out
    assert "fail llm.settings" in out
    assert "OPENAI_API_KEY" in out
    assert "7 checks: 0 ok, 0 warn, 1 fail, 6 skip" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--only", "queues"], "'queues'"), (["--config", "/nowhere.toml"], "/nowhere.toml")],
)
def test_wrong_usage_is_exit_code_2(capsys, arguments, words):
    """A check that is not there, a file that cannot be read."""
    assert run(["doctor", *arguments]) == 2
    assert words in capsys.readouterr().err
