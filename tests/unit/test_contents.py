"""The test mode: what is said and asked is in the log, and nowhere without it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from gralkord import log
from gralkord.cli.process import log_contents
from gralkord.config import Models, Settings, load_settings
from gralkord.providers.base import ChatMessage
from gralkord.providers.verbose import VerboseModel
from gralkord.rpc.contents import MOST_BYTES, LogContents
from gralkord.turns.models import open_models


class Answer(BaseModel):
    drink: str


class Model:
    name = "fake"

    async def complete(self, messages, schema, **_):
        return {"drink": "tea"}

    async def close(self):
        pass


def answering(status, body):
    """Return an app that reads the request and answers so."""

    async def app(_scope, receive, send):
        await receive()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return app


async def logged(app, asked):
    """Return what is logged of one request."""
    scope = {"type": "http", "method": "POST", "path": "/v1/recall", "query_string": b""}

    async def receive():
        return {"type": "http.request", "body": asked}

    async def send(_event):
        pass

    with capture_logs() as logs:
        await LogContents(app)(scope, receive, send)
    return logs


async def test_bodies_are_logged_at_debug_and_cut():
    """Of both sides; headers are not."""
    [line] = await logged(answering(200, b"a" * 20_000), b'{"query": "tea?"}')
    assert (line["log_level"], line["path"], line["status"]) == ("debug", "/v1/recall", 200)
    assert line["asked"] == '{"query": "tea?"}'
    assert line["answered"] == "a" * MOST_BYTES
    assert set(line) == {
        *("event", "log_level", "method", "path", "query", "status", "asked", "answered")
    }


async def test_what_carries_no_token_is_not_logged():
    """Anybody could fill the log with it."""
    assert await logged(answering(401, b"no"), b"hello") == []


async def test_prompts_and_answers_are_logged_at_debug():
    """With what they are for; the answer is handed on."""
    with capture_logs() as logs:
        answer = await VerboseModel(Model()).complete(
            [ChatMessage("user", "What does Ann like?")], Answer, stage="test"
        )
    assert answer == {"drink": "tea"}
    assert [(each["event"], each["log_level"], each["stage"]) for each in logs] == [
        ("prompt", "debug", "test"),
        ("model_said", "debug", "test"),
    ]
    assert logs[0]["messages"] == ["user: What does Ann like?"]
    assert logs[1]["answer"] == {"drink": "tea"}


@pytest.mark.parametrize("test", [True, False])
async def test_it_is_off_unless_the_settings_say_so(monkeypatch, test):
    """It says so itself, and is on in all processes of these settings."""
    levels = []
    monkeypatch.setattr(log, "configure", lambda **options: levels.append(options))
    settings = load_settings(None, {"GRALKORD_TEST": "true"}) if test else Settings()
    with capture_logs() as logs:
        log_contents(settings)
    assert levels == ([{"level": "debug"}] if test else [])
    assert [each["event"] for each in logs] == (["test_mode"] if test else [])
    settings = settings.model_copy(update={"models": Models(llm="openai:gpt-x", embedder="none")})
    queue = SimpleNamespace(register_script=lambda _: None)
    models = open_models(settings, {"OPENAI_API_KEY": "k"}, queue, None, refuse=False)
    assert isinstance(models.llm, VerboseModel) == test
    assert models.endpoints
    await models.llm.close()
