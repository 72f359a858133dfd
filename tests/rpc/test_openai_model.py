"""The OpenAI client against a real server that says what each test needs."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from canned import canned_server
from pydantic import BaseModel
from structlog.testing import capture_logs

from gralkord.config import Models
from gralkord.errors import ConfigError, ModelOutage, Permanent, RateLimited
from gralkord.providers.base import ChatMessage, Usage
from gralkord.providers.build import build_model
from gralkord.providers.chat import ChatModel
from gralkord.providers.endpoint import Endpoint
from gralkord.providers.limiter import LocalLimiter, Turn
from gralkord.providers.structured import UnusableAnswer

ASK = [ChatMessage("system", "Be brief."), ChatMessage("user", "Where does Ann live?")]
GOOD = '{"text": "Berlin"}'


class Said(BaseModel):
    text: str


class At:
    """A clock that stands still."""

    def __init__(self, moment):
        self.moment = moment

    def now(self):
        return self.moment

    def monotonic(self):
        return 0.0


@pytest.fixture
def server():
    with canned_server() as canned:
        yield canned


@pytest.fixture
async def model(server):
    """A model without a key at that server."""
    model = build_model(Models(llm=f"openai-compatible:m@{server.url}"), {})
    yield model
    await model.close()


async def test_what_is_sent(model, server):
    """The request names model, messages and schema, and carries no Authorization without a key."""
    server.complete(GOOD)
    assert await model.complete(ASK, Said, max_tokens=99) == {"text": "Berlin"}
    assert server.paths == ["/v1/chat/completions"]
    body = server.bodies[0]
    assert body["model"] == "m"
    assert body["max_tokens"] == 99
    assert [turn["role"] for turn in body["messages"]] == ["system", "user"]
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "Said", "schema": Said.model_json_schema(), "strict": False},
    }
    assert "Authorization" not in server.headers[0]


async def test_the_key_is_sent_but_never_logged(server):
    """A key travels as a bearer token and appears in no event and no error."""
    model = build_model(Models(llm=f"openai-compatible:m@{server.url}", api_key="hunter2"), {})
    server.complete("nonsense")
    server.complete("nonsense")
    server.answer(401, {"error": {"message": "wrong key hunter2"}})
    with capture_logs() as events:
        with pytest.raises(UnusableAnswer):
            await model.complete(ASK, Said)
        with pytest.raises(ConfigError) as caught:
            await model.complete(ASK, Said)
    await model.close()
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer hunter2"}
    loud = [event for event in events if event["log_level"] != "debug"]
    assert "hunter2" not in repr(loud) + str(caught.value) + repr(caught.value.to_dict())
    assert "models.api_key" in caught.value.hint


async def test_contents_are_not_logged(model, server):
    """What was asked and answered stands in no event above debug."""
    server.complete("a secret answer")
    server.complete(GOOD)
    with capture_logs() as events:
        await model.complete(ASK, Said)
    loud = [event for event in events if event["log_level"] != "debug"]
    assert loud
    assert "secret" not in repr(loud)
    assert "Ann" not in repr(loud)


async def test_usage_is_counted(model, server):
    """Tokens of every answer count, also of one that had to be repaired."""
    server.complete("nonsense")
    server.complete(GOOD)
    await model.complete(ASK, Said)
    assert model.usage == Usage(calls=2, prompt_tokens=14, completion_tokens=6)


async def test_usage_that_the_server_does_not_tell_is_estimated(model, server):
    """A budget holds also where nobody counts tokens: about four characters are one."""
    server.answer(200, {"choices": [{"message": {"content": GOOD}, "finish_reason": "stop"}]})
    await model.complete(ASK, Said)
    sent = sum(len(message.content) for message in ASK)
    assert model.usage.prompt_tokens == sent // 4
    assert model.usage.completion_tokens >= len(GOOD) // 4


async def test_the_repair_turn_shows_the_mistake(model, server):
    """The second request carries the first answer and what was wrong with it."""
    server.complete('{"text": 1}')
    server.complete(GOOD)
    assert await model.complete(ASK, Said) == {"text": "Berlin"}
    *before, answered, asked = server.bodies[1]["messages"]
    assert len(before) == 2
    assert answered == {"role": "assistant", "content": '{"text": 1}'}
    assert "text: Input should be a valid string" in asked["content"]


async def test_one_repair_only(model, server):
    """After a second unusable answer the error keeps the raw text, capped."""
    server.complete('{"text": 1}')
    server.complete("x" * 30_000)
    with pytest.raises(UnusableAnswer) as caught:
        await model.complete(ASK, Said)
    assert len(server.bodies) == 2
    assert caught.value.raw == "x" * 20_000


async def test_a_cut_off_answer_may_be_longer_next_time(model, server):
    """After an answer that hit its limit the limit is doubled."""
    server.complete('{"text": "Ber', finish_reason="length")
    server.complete(GOOD)
    await model.complete(ASK, Said, max_tokens=50)
    assert [body["max_tokens"] for body in server.bodies] == [50, 100]


async def test_json_schema_is_given_up_once(model, server):
    """A server without json_schema is given the schema as a tool's, from then on."""
    server.answer(400, {"error": {"message": "response_format.type json_schema: not supported"}})
    for _ in range(2):
        server.call_tool(GOOD)
        assert await model.complete(ASK, Said) == {"text": "Berlin"}
    assert "response_format" in server.bodies[0]
    for body in server.bodies[1:]:
        assert "response_format" not in body
        assert body["tool_choice"] == {"type": "function", "function": {"name": "Said"}}
        assert body["tools"][0]["function"]["parameters"] == Said.model_json_schema()


async def test_a_server_that_cannot_read_a_request_is_asked_otherwise(model, server):
    """A 500 that tells what could not be read, as llama-cpp-python's, is no outage."""
    told = "1 validation error:\n  {'loc': ('body', 'response_format', 'type'), 'msg': \"Input …\"}"
    server.answer(500, {"error": {"message": told, "type": "internal_server_error"}})
    server.call_tool(GOOD)
    assert await model.complete(ASK, Said) == {"text": "Berlin"}
    server.answer(500, {"error": {"message": "1 validation error: {'loc': ('body', 'messages')}"}})
    with pytest.raises(Permanent):
        await model.complete(ASK, Said)


async def test_a_server_with_no_json_mode_is_asked_in_words(model, server):
    """A server that knows no way to keep to a schema is asked in plain words."""
    server.answer(400, {"error": {"message": "unknown response_format"}})
    server.answer(400, {"error": {"message": "this model does not support tools"}})
    server.answer(422, {"detail": "'response_format.type' must be text"})
    server.complete(f"Of course!\n{GOOD}")
    assert await model.complete(ASK, Said) == {"text": "Berlin"}
    assert server.bodies[2]["response_format"] == {"type": "json_object"}
    assert '"properties"' in server.bodies[2]["messages"][-1]["content"]
    assert "response_format" not in server.bodies[3]
    assert model.how == "text"


async def test_a_server_that_passes_over_tools_is_given_none(model, server):
    """A server that answers in words where a tool was to be called gets the schema in words."""
    server.answer(400, {"error": {"message": "json_schema is not supported"}})
    server.complete("Ann lives in Berlin.")
    server.complete(GOOD)
    assert await model.complete(ASK, Said) == {"text": "Berlin"}
    assert server.bodies[2]["response_format"] == {"type": "json_object"}


async def test_the_repair_turn_spells_the_schema_out(model, server):
    """A server may take a schema and pass over it, so that the second request says it in words."""
    server.complete("no idea")
    server.complete(GOOD)
    await model.complete(ASK, Said)
    assert '"properties"' not in repr(server.bodies[0]["messages"])
    assert '"properties"' in server.bodies[1]["messages"][-1]["content"]


async def test_options_that_are_refused_are_dropped(model, server):
    """A field the server complains about is left out, and the limit takes its newer name."""
    server.answer(400, {"error": {"message": "temperature must be 1", "param": "temperature"}})
    server.answer(400, {"error": {"message": "use 'max_completion_tokens' instead"}})
    server.complete(GOOD)
    await model.complete(ASK, Said, max_tokens=5)
    assert "temperature" not in server.bodies[-1]
    assert "max_tokens" not in server.bodies[-1]
    assert server.bodies[-1]["max_completion_tokens"] == 5


async def test_a_limit_that_is_too_high_is_dropped(model, server):
    """A server that cannot write as much as allowed is asked without a limit."""
    server.answer(400, {"error": {"message": "max_tokens is too large: 16384"}})
    server.complete(GOOD)
    await model.complete(ASK, Said, max_tokens=16384)
    assert "max_tokens" not in server.bodies[-1]
    assert "max_completion_tokens" not in server.bodies[-1]


async def test_other_refusals_are_final(model, server):
    """A 400 about something else is not repeated, and its sentence is not passed on."""
    server.answer(400, {"error": {"message": "Ann is too long", "code": "context_length_exceeded"}})
    with pytest.raises(Permanent, match="400 context_length_exceeded") as caught:
        await model.complete(ASK, Said)
    assert not caught.value.retry
    assert "Ann" not in str(caught.value)


class Noted:
    """A limiter that notes what it is told; after a refusal the next turn is too far off."""

    def __init__(self):
        self.told = []

    async def ask(self, call, reserved=0):
        return Turn(wait=99.0, far=True) if self.told else Turn(start=7, held=True)

    async def limited(self, call, turn, retry_after, announced):
        self.told.append(("limited", turn.start, retry_after))

    async def answered(self, call, turn, tokens, announced):
        self.told.append(("answered",))

    async def failed(self, call, turn, error):
        self.told.append(("failed", type(error)))

    async def withdrawn(self, call, turn, *, sent):
        pass


def noted(server, limiter, **more):
    """A model that asks *limiter* for its turns."""
    endpoint = Endpoint(spec="s", model="m", base_url=server.url)
    return ChatModel(endpoint, slots=asyncio.Semaphore(1), limiter=limiter, **more)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("", None), ("soon", None), ("99999999", 3600.0)],
)
async def test_rate_limits_say_how_long(server, header, seconds):
    """A 429 waits as long as Retry-After says, at most an hour, and counts as no attempt."""
    limiter = Noted()
    model = noted(server, limiter)
    server.answer(429, {"error": {"message": "slow down"}}, Retry_After=header)
    with pytest.raises(RateLimited) as caught:
        await model.complete(ASK, Said)
    assert limiter.told == [("limited", 7, seconds)]
    assert caught.value.retry_after == 99
    assert not caught.value.counted
    await model.close()


async def test_retry_after_may_be_a_date(server):
    """A Retry-After that is a date counts from now; one that is past does not wait."""
    now = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    for shift, expected in ((90, 90.0), (-90, 0.0)):
        limiter = Noted()
        model = noted(server, limiter, clock=At(now))
        date = format_datetime(now + timedelta(seconds=shift), usegmt=True)
        server.answer(429, {}, Retry_After=date)
        with pytest.raises(RateLimited):
            await model.complete(ASK, Said)
        assert limiter.told == [("limited", 7, expected)]
        await model.close()


async def test_a_refused_call_waits_and_is_made_again(model, server):
    """A 429 costs the call its time, and nothing of the work around it."""
    server.answer(429, {}, Retry_After="0.2")
    server.answer(429, {})
    server.complete(GOOD)
    started = asyncio.get_running_loop().time()
    assert await model.complete(ASK, Said) == {"text": "Berlin"}
    assert len(server.bodies) == 3
    assert 0.3 < asyncio.get_running_loop().time() - started < 3


async def test_a_call_is_not_made_again_for_ever(server):
    """A provider that goes on refusing is asked nine times, and the item is to wait."""

    class Patient(Noted):
        async def ask(self, call, reserved=0):
            return Turn()

    model = noted(server, Patient())
    for _ in range(9):
        server.answer(429, {}, Retry_After="0")
    with pytest.raises(RateLimited):
        await model.complete(ASK, Said)
    assert len(server.bodies) == 9
    await model.close()


async def test_a_fault_of_one_call_is_made_good(server, model):
    """A 500 by chance, or a connection that breaks off, does not end what the call is part of."""
    server.answer(500, "oops")
    server.complete(GOOD)
    assert await model.complete(ASK, Said) == {"text": "Berlin"}


async def test_the_limiter_hears_how_a_call_ends(server):
    """An answer, an outage and a refused key are told to the limiter, a refused request as an answer."""
    for status, error, told in [
        (503, ModelOutage, ("failed", ModelOutage)),
        (401, ConfigError, ("failed", ConfigError)),
        (400, Permanent, ("answered",)),
    ]:
        limiter = Noted()
        model = noted(server, limiter)
        server.answer(status, {"error": {"message": "no"}}, Retry_After="4")
        with pytest.raises(error):
            await model.complete(ASK, Said)
        assert limiter.told == [told]
        await model.close()


async def test_a_limit_is_of_one_model_at_one_address(server):
    """Who uses the same model there is held up as well, another model or address is not."""
    spec = f"openai-compatible:m@{server.url}"
    with canned_server() as elsewhere:
        shared = LocalLimiter()
        others = (spec.replace(":m@", ":n@"), f"openai-compatible:m@{elsewhere.url}")
        built = [build_model(Models(llm=each), {}, shared) for each in (spec, spec, *others)]
        server.answer(429, {"error": {"code": "insufficient_quota"}})
        for model in built[:2]:
            with pytest.raises(RateLimited):
                await model.complete(ASK, Said)
        assert len(server.bodies) == 1
        server.complete(GOOD)
        elsewhere.complete(GOOD)
        for model in built[2:]:
            assert await model.complete(ASK, Said)
        for model in built:
            await model.close()


async def test_a_spent_quota_says_so(model, server):
    """A 429 for want of credit names that, and does not come back every second."""
    server.answer(429, {"error": {"code": "insufficient_quota"}})
    with pytest.raises(RateLimited, match="quota is spent") as caught:
        await model.complete(ASK, Said)
    assert caught.value.retry_after == 300


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 529])
async def test_server_faults_are_outages(model, server, status):
    """A server in trouble is waited for, as long as it asks, without counting an attempt."""
    server.answer(status, "<html>oops</html>", Retry_After="4")
    with pytest.raises(ModelOutage, match=str(status)) as caught:
        await model.complete(ASK, Said)
    assert caught.value.retry_after == 4
    assert not caught.value.counted


@pytest.mark.parametrize(
    ("status", "hint"),
    [(401, "check models.api_key"), (403, "check models.api_key"), (404, "base URL http")],
)
async def test_wrong_settings_say_what_to_mend(model, server, status, hint):
    """A refused key or an unknown model is a fault of the settings, with what to look at."""
    server.answer(status, {"error": {"message": "no"}})
    with pytest.raises(ConfigError, match=str(status)) as caught:
        await model.complete(ASK, Said)
    assert hint in caught.value.hint


async def test_redirects_are_refused(model, server):
    """A redirect is not followed: the prompt would go where nobody sent it."""
    server.answer(307, "", Location=f"{server.url}/elsewhere")
    with pytest.raises(ConfigError, match="redirects"):
        await model.complete(ASK, Said)
    assert server.paths == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [({"message": "upstream"}, ModelOutage), ({"code": 429, "message": "upstream"}, RateLimited)],
)
async def test_a_gateway_may_hide_an_error_in_a_200(model, server, error, expected):
    """An error object in a 200 counts as the status it names, without one as an outage."""
    server.answer(200, {"error": error}, Retry_After="40")
    with pytest.raises(expected):
        await model.complete(ASK, Said)


@pytest.mark.parametrize("body", ["<html>hello</html>", "[]", "{}", '{"choices": []}', "null"])
async def test_what_is_no_completion_is_malformed(model, server, body):
    """A 200 that is not a chat completion is an error that keeps the text."""
    server.answer(200, body)
    with pytest.raises(UnusableAnswer, match="not what this provider answers") as caught:
        await model.complete(ASK, Said)
    assert caught.value.raw == body


async def test_a_refusal_is_not_repaired(model, server):
    """A model that refuses is not asked again."""
    server.complete(None, message={"content": None, "refusal": "I cannot help with that."})
    with pytest.raises(UnusableAnswer, match="refuses") as caught:
        await model.complete(ASK, Said)
    assert caught.value.raw == "I cannot help with that."


async def test_content_may_come_in_parts(model, server):
    """Content that is a list of text parts is joined."""
    server.complete([{"type": "text", "text": '{"text": '}, {"type": "text", "text": '"Berlin"}'}])
    assert await model.complete(ASK, Said) == {"text": "Berlin"}


async def test_lone_surrogates_are_sent(model, server):
    """A prompt that is not valid Unicode reaches the server all the same."""
    server.complete(GOOD)
    await model.complete([ChatMessage("user", "caf\ud800e")], Said)
    assert server.bodies[0]["messages"][0]["content"] == "caf?e"


async def test_nobody_listening_is_an_outage():
    """A server that is not there is an outage that names its address."""
    model = build_model(Models(llm="openai-compatible:m@http://127.0.0.1:9"), {})
    with pytest.raises(ModelOutage, match="cannot be reached") as caught:
        await model.complete(ASK, Said)
    assert "http://127.0.0.1:9" in caught.value.hint
    await model.close()


async def test_silence_is_an_outage():
    """A server that accepts and says nothing is given up after the limit of one call."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        spec = f"openai-compatible:m@http://127.0.0.1:{silent.getsockname()[1]}"
        model = build_model(Models(llm=spec, timeout_seconds=0.2), {})
        with pytest.raises(ModelOutage, match=r"within 0\.2 s"):
            await model.complete(ASK, Said)
        await model.close()
