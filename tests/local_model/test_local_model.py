"""The whole path on a model of 270 million parameters, which was never trained to follow prompts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gralkord_run import (
    QUESTIONS,
    SESSIONS,
    drained,
    found,
    outcome,
    remember,
    until,
    write_settings,
)

from gralkord.client.client import AsyncClient
from gralkord.evaluation.stack import Stack, temporary_data_dir

pytestmark = pytest.mark.timeout(1_800)

# How an episode may end that the model did not understand.
NAMED = {"malformed_output", "answer_timeout"}
# With it the model ends most of its answers; without it counts up to its limit.
STEADY = {"repeat_penalty": 1.3}
# Without these the server is not told of the schema, and the model writes what it likes.
SCHEMA_FIELDS = ["response_format", "tools", "tool_choice"]


@pytest.fixture
async def start(model_server):
    """A function that starts a gralkord on the local model, with these and without those fields."""
    with temporary_data_dir() as directory:
        stacks: list[Stack] = []

        async def start(fields, drop=()) -> tuple[Stack, AsyncClient]:
            settings = Path(directory) / "settings.toml"
            flags = write_settings(settings, model_server.spec, fields, list(drop))
            stacks.append(Stack(Path(directory) / "data", flags))
            await stacks[0].__aenter__()
            endpoint = stacks[0].endpoint
            return stacks[0], AsyncClient(endpoint.url, endpoint.token)

        yield start
        for stack in stacks:
            await stack.stop()


@pytest.mark.parametrize(
    ("fields", "drop"), [(STEADY, []), ({}, SCHEMA_FIELDS)], ids=["with a schema", "in free text"]
)
async def test_each_episode_is_understood_or_given_up_by_name(
    start, model_server, report, fields, drop, request
):
    """Whatever the model answers, each session ends understood or as a dead letter that says why."""
    stack, client = await start(fields, drop)
    before = model_server.answered
    began = time.monotonic()
    async with client:
        await remember(client)
        status = await until(client, drained)
        end = await outcome(stack, client, began)
        right = await found(client)
        letters = [await client.dead_letter(letter) for letter in end.letters]
    calls = {code: count - before.get(code, 0) for code, count in model_server.answered.items()}
    report(f"{request.node.callspec.id}: {end}; requests by status {calls}")
    assert end.understood + sum(end.dead.values()) == len(SESSIONS)
    assert set(end.dead) <= NAMED
    assert all(letter.answer for letter in letters if letter.reason == "malformed_output")
    assert status["model_state"]["state"] == "ok"
    assert right == [question for _, question, _ in QUESTIONS]


def test_doctor_tells_what_the_model_can_do(model_server, report, tmp_path):
    """`gralkord doctor` finds the server, and that its answers keep to a schema."""
    settings = write_settings(tmp_path / "settings.toml", model_server.spec, STEADY, [])
    command = [sys.executable, "-m", "gralkord.cli.app", "doctor", "--only", "llm", "--json"]
    command += ["--data-dir", str(tmp_path)]
    said = subprocess.run([*command, *settings], capture_output=True, text=True, check=False)
    assert said.returncode in {0, 1}, said.stdout + said.stderr
    checks = {check["name"]: check for check in json.loads(said.stdout)["checks"]}
    report("doctor: " + ", ".join(f"{name} {check['state']}" for name, check in checks.items()))
    assert checks["llm.address"]["state"] == "ok"
    assert checks["llm.schema"]["state"] == "ok"


async def test_work_goes_on_when_the_model_server_is_back(start, model_server, report):
    """A model server that is killed while it answers costs no attempt."""
    stack, client = await start(STEADY)
    began = time.monotonic()
    async with client:
        await remember(client, {("ben", "ben-1"): SESSIONS["ben", "ben-1"]})
        await until(client, lambda status: status["queue"]["understand"]["leased"])
        model_server.stop()
        await until(client, lambda status: status["model_state"]["state"] == "outage")
        model_server.start()
        status = await until(client, drained)
        end = await outcome(stack, client, began)
    report(f"killed and started again: {end}")
    assert status["model_state"]["state"] == "ok"
    assert end.understood + sum(end.dead.values()) == 1
    assert set(end.dead) <= NAMED
