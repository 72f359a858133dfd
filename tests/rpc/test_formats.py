"""Every provider's format against the scripted server: asked its way, read the same."""

from __future__ import annotations

import httpx
import pytest
from canned import canned_server
from pydantic import BaseModel

from gralkord.config import ModelOptions, Models
from gralkord.errors import ConfigError, ModelOutage, Permanent, RateLimited
from gralkord.providers.base import ChatMessage, Image, Usage
from gralkord.providers.build import build_model
from gralkord.providers.structured import UnusableAnswer
from gralkord.testing.faults import Fault, FaultPlan
from gralkord.testing.model_server import ScriptedModelServer

PROVIDERS = ["openai", "openai-compatible", "anthropic", "google", "ollama"]
PROMPT = "<CURRENT MESSAGE>\nAnn: I work at Acme in Berlin.\nBob: Nice, Ann!\n</CURRENT MESSAGE>"
ASK = [ChatMessage("system", "Be brief."), ChatMessage("user", PROMPT)]
NAMES = ["Ann", "Bob", "Acme", "Berlin"]
GOOD = '{"text": "Berlin"}'


class ExtractedEntity(BaseModel):
    name: str
    entity_type_id: int
    episode_indices: list[int] = [0]


class ExtractedEntities(BaseModel):
    """As Graphiti has it."""

    extracted_entities: list[ExtractedEntity]


class Said(BaseModel):
    text: str


@pytest.fixture(scope="module")
def server():
    with ScriptedModelServer(api_key="hunter2") as running:
        yield running


@pytest.fixture(params=PROVIDERS)
async def model(request, server):
    server.set_faults(FaultPlan())
    spec = server.spec_of(request.param)
    built = build_model(Models(llm=spec, api_key="hunter2"), {})
    yield built
    await built.close()


@pytest.fixture
def canned():
    with canned_server() as running:
        yield running


def asked(canned, provider, **options):
    """Return a model of *provider* at the canned server."""
    base = canned.url + {"google": "/v1beta", "anthropic": "/v1"}.get(provider, "")
    spec = f"{provider}:m@{base}"
    key = {} if provider == "ollama" else {"api_key": "hunter2"}
    return build_model(Models(llm=spec, options={spec: ModelOptions(**options)}, **key), {})


async def names(model, **more):
    answer = await model.complete(ASK, ExtractedEntities, **more)
    return [entity["name"] for entity in answer["extracted_entities"]]


async def test_answers_are_the_same(model, server):
    """Whatever the format, one call gives the answer, and its tokens are counted."""
    assert await names(model) == NAMES
    entry = server.requests[-1]
    assert entry.authorized
    assert entry.schema == "ExtractedEntities"
    assert entry.response_format in {"json_schema", "tools"}
    assert model.usage == Usage(1, entry.prompt_tokens, entry.completion_tokens)


@pytest.mark.parametrize(
    "fault", [Fault.CUT_OFF, Fault.SCHEMA_ECHO, Fault.WRONG_TYPES, Fault.EMPTY]
)
async def test_broken_answers_are_repaired_once(model, server, fault):
    """A broken answer is mended by the repair turn, and twice is a typed error; both are paid."""
    server.set_faults(FaultPlan(next=(fault,)))
    assert await names(model) == NAMES
    server.set_faults(FaultPlan(next=(fault, fault)))
    with pytest.raises(UnusableAnswer, match="cut off" if fault is Fault.CUT_OFF else None):
        await names(model)
    assert model.usage.calls == 4


async def test_what_the_provider_had_cached_is_told(model, server):
    """The beginning that two long prompts share is cached, and each format says so in its words."""
    server.set_faults(FaultPlan())
    rules = ChatMessage("system", f"Be brief. {id(model)} " + "Names are names. " * 500)
    for ending in ("", " Really."):
        await model.complete([rules, ChatMessage("user", PROMPT + ending)], ExtractedEntities)
    entry = server.requests[-1]
    assert entry.cached_tokens >= 1024
    assert entry.cached_tokens % 128 == 0
    expected = 0 if entry.path.startswith("/api") else entry.cached_tokens
    assert model.usage.cached_tokens == expected
    assert model.usage.prompt_tokens == sum(each.prompt_tokens for each in server.requests[-2:])


async def test_limits_of_answers(model, server):
    """Each format has its own word for the limit of an answer, and for having met it."""
    server.set_faults(FaultPlan())
    before = len(server.requests)
    assert await names(model, max_tokens=50) == NAMES
    assert server.requests[before].completion_tokens == 50
    assert len(server.requests) == before + 2


async def test_images_are_seen(model, server):
    """An image reaches the model whatever the format."""
    shown = ChatMessage("user", PROMPT, (Image("image/png", b"\x89PNG"),))
    await model.complete([shown], ExtractedEntities)
    assert server.requests[-1].images == 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [(Fault.REFUSED_KEY, ConfigError), (Fault.RATE_LIMITED, RateLimited)],
)
async def test_refusals(model, server, fault, error):
    """A refused key and a refusal for the rate are told apart in every format."""
    server.set_faults(FaultPlan(next=(fault,), retry_after=90))
    with pytest.raises(error):
        await names(model)


async def test_no_key_no_header(canned):
    """Without a key nothing is sent that would carry one."""
    canned.complete(GOOD)
    model = build_model(Models(llm=f"openai-compatible:m@{canned.url}"), {})
    await model.complete(ASK, Said)
    await model.close()
    canned.answer(200, {"message": {"content": GOOD}, "done_reason": "stop"})
    model = asked(canned, "ollama")
    await model.complete(ASK, Said)
    await model.close()
    for headers in canned.headers:
        assert not {"authorization", "x-api-key", "x-goog-api-key"} & {n.lower() for n in headers}


async def test_anthropic_is_made_to_call_a_tool(canned):
    """The schema is a tool's input that must be given; system and limit are fields of their own."""
    canned.answer(
        200,
        {
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "tool_use", "id": "1", "name": "Said", "input": {"text": "Berlin"}},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 5, "cache_read_input_tokens": 40, "output_tokens": 3},
        },
    )
    model = asked(canned, "anthropic")
    assert await model.complete(ASK, Said) == {"text": "Berlin"}
    await model.close()
    body = canned.bodies[0]
    assert canned.paths == ["/v1/messages"]
    assert canned.headers[0]["x-api-key"] == "hunter2"
    assert canned.headers[0]["anthropic-version"]
    assert body["system"] == "Be brief."
    assert [turn["role"] for turn in body["messages"]] == ["user"]
    assert body["tool_choice"] == {"type": "tool", "name": "Said"}
    assert body["tools"][0]["input_schema"] == Said.model_json_schema()
    assert body["max_tokens"] == 8192
    assert model.usage == Usage(1, 45, 3, 40)


async def test_anthropic_lowers_a_limit_that_is_too_high(canned):
    """A limit above what the model can write is lowered to that, once."""
    canned.answer(400, {"error": {"message": "max_tokens: 8192 > 4096, which is the maximum"}})
    for _ in range(2):
        canned.answer(200, {"content": [{"type": "text", "text": GOOD}], "stop_reason": "end_turn"})
    model = asked(canned, "anthropic")
    await model.complete(ASK, Said)
    await model.complete(ASK, Said)
    await model.close()
    assert [body["max_tokens"] for body in canned.bodies] == [8192, 4096, 4096]


async def test_a_tool_input_that_is_cut_off_is_no_empty_answer(canned):
    """Anthropic hands over an empty input when the limit was met; that is no answer."""
    for _ in range(2):
        used = {"type": "tool_use", "id": "1", "name": "Said", "input": {}}
        canned.answer(200, {"content": [used], "stop_reason": "max_tokens"})
    model = asked(canned, "anthropic")
    with pytest.raises(UnusableAnswer, match="cut off"):
        await model.complete(ASK, Said)
    await model.close()
    assert canned.bodies[1]["max_tokens"] == 2 * 8192


async def test_google_gets_its_own_kind_of_schema(canned):
    """The key travels in a header, the schema in Google's words, thoughts are no answer."""
    parts = [{"text": "hm", "thought": True}, {"text": '{"text": '}, {"text": '"Berlin"}'}]
    canned.answer(
        200,
        {
            "candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {
                "promptTokenCount": 9,
                "candidatesTokenCount": 2,
                "thoughtsTokenCount": 4,
                "cachedContentTokenCount": 8,
            },
        },
    )
    model = asked(canned, "google")
    assert await model.complete(ASK, Said, max_tokens=99) == {"text": "Berlin"}
    await model.close()
    assert canned.paths == ["/v1beta/models/m:generateContent"]
    assert canned.headers[0]["x-goog-api-key"] == "hunter2"
    settings = canned.bodies[0]["generationConfig"]
    assert settings["responseSchema"]["properties"]["text"]["type"] == "STRING"
    assert settings["maxOutputTokens"] == 99
    assert canned.bodies[0]["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert model.usage == Usage(1, 9, 6, 8)


async def test_google_may_block_a_prompt(canned):
    """A prompt that Google blocks is a typed error, and not repaired."""
    canned.answer(200, {"promptFeedback": {"blockReason": "SAFETY"}})
    model = asked(canned, "google")
    with pytest.raises(UnusableAnswer, match="refuses"):
        await model.complete(ASK, Said)
    await model.close()


async def test_ollama_does_not_think_unless_asked(canned):
    """Thinking is off, and on where the settings say so; the context is long enough."""
    for thinking in (False, True):
        canned.answer(200, {"message": {"content": GOOD}, "done_reason": "stop"})
        model = asked(canned, "ollama", thinking=thinking)
        await model.complete(ASK, Said, max_tokens=77)
        await model.close()
    assert [body["think"] for body in canned.bodies] == [False, True]
    body = canned.bodies[0]
    assert canned.paths[0] == "/api/chat"
    assert body["stream"] is False
    assert body["format"] == Said.model_json_schema()
    assert body["options"] == {"temperature": 0, "num_ctx": 16384, "num_predict": 77}


async def test_ollama_gets_room_for_long_prompts(canned):
    """Its context grows with the prompt, as it would be cut without a word; one that is set stays."""
    long = [ChatMessage("user", "word " * 20_000)]
    for fields in ({}, {"options": {"num_ctx": 2048}}):
        canned.answer(200, {"message": {"content": GOOD}, "done_reason": "stop"})
        model = asked(canned, "ollama", fields=fields)
        await model.complete(long, Said)
        await model.close()
    assert [body["options"]["num_ctx"] for body in canned.bodies] == [65536, 2048]


async def test_fields_are_added_renamed_and_dropped(canned):
    """What the settings say of fields holds for every request, inside other fields too."""
    canned.answer(200, {"message": {"content": GOOD}, "done_reason": "stop"})
    model = asked(
        canned,
        "ollama",
        fields={"keep_alive": "5m", "options": {"num_ctx": 4096}},
        rename={"options.num_predict": "options.max_new", "stream": "streaming"},
        drop=["think", "options.temperature", "nothing.of.that"],
    )
    await model.complete(ASK, Said, max_tokens=77)
    await model.close()
    body = canned.bodies[0]
    assert body["keep_alive"] == "5m"
    assert body["options"] == {"num_ctx": 4096, "max_new": 77}
    assert body["streaming"] is False
    assert not {"think", "stream"} & body.keys()


async def test_options_are_unlearnt_inside_other_fields(canned):
    """A field that the server complains about is left out wherever it stands."""
    canned.answer(400, {"error": "invalid option: num_ctx"})
    canned.answer(200, {"message": {"content": GOOD}, "done_reason": "stop"})
    model = asked(canned, "ollama")
    await model.complete(ASK, Said)
    await model.close()
    assert canned.bodies[1]["options"] == {"temperature": 0}


@pytest.mark.parametrize("provider", ["anthropic", "google", "ollama"])
async def test_what_is_no_answer_is_malformed(canned, provider):
    """A 200 that is not this provider's answer is a typed error that keeps the text."""
    canned.answer(200, {"what": "is this"})
    model = asked(canned, provider)
    with pytest.raises(UnusableAnswer, match="not what this provider answers") as caught:
        await model.complete(ASK, Said)
    await model.close()
    assert "is this" in caught.value.raw
    assert model.usage.calls == 1


async def test_the_server_refuses_bad_requests_in_each_format(server):
    """A request without what it needs gets a 400 in the provider's own form."""
    headers = {
        "Authorization": "Bearer hunter2",
        "x-api-key": "hunter2",
        "x-goog-api-key": "hunter2",
    }
    async with httpx.AsyncClient(base_url=server.root, headers=headers) as http:
        for path in ("/v1/messages", "/v1beta/models/m:generateContent", "/api/chat", "/api/embed"):
            response = await http.post(path, json={})
            assert response.status_code == 400
            assert response.json()["error"]
        assert (await http.post("/v1beta/models/m:dance", json={})).status_code == 404


async def test_a_prompt_that_is_too_long_teaches_nothing(canned):
    """The one prompt is refused for good, and the next one is asked in the same form as before."""
    said = (
        "maximum context length is 8192 tokens, and yours, with response_format schemas, is longer"
    )
    canned.answer(400, {"error": {"message": said}})
    canned.complete(GOOD)
    model = asked(canned, "openai-compatible")
    with pytest.raises(Permanent):
        await model.complete(ASK, Said)
    await model.complete(ASK, Said)
    await model.close()
    assert canned.bodies[1] == canned.bodies[0]


async def test_a_limit_that_fills_the_context_is_dropped(canned):
    """A server that counts the limit of the answer into its context is asked without one."""
    said = "maximum context length is 4096 tokens, but 90 in the messages, 9000 in the completion"
    canned.answer(400, {"error": {"message": said}})
    canned.complete(GOOD)
    model = asked(canned, "openai-compatible")
    await model.complete(ASK, Said, max_tokens=9000)
    await model.close()
    assert "max_tokens" not in canned.bodies[1]


async def test_what_a_refusal_repeats_is_no_complaint(canned):
    """Words of the prompt that a server hands back teach nothing."""
    said = {
        "loc": ["body", "seed"],
        "msg": "Field required",
        "input": "a tool, temperature, schema",
    }
    canned.answer(422, {"detail": [said]})
    model = asked(canned, "openai-compatible")
    with pytest.raises(Permanent):
        await model.complete(ASK, Said)
    await model.close()


@pytest.mark.parametrize(
    ("provider", "status", "body", "error"),
    [
        ("google", 400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, ConfigError),
        ("anthropic", 400, {"error": {"message": "Your credit balance is too low"}}, RateLimited),
        ("openai-compatible", 402, {"error": {"message": "no credits"}}, RateLimited),
    ],
)
async def test_who_must_pay_or_mend_is_told(canned, provider, status, body, error):
    """A wrong key and an empty account are no faults of the request, whatever their status."""
    canned.answer(status, body)
    model = asked(canned, provider)
    with pytest.raises(error):
        await model.complete(ASK, Said)
    await model.close()
    assert len(canned.bodies) == 1


async def test_an_overloaded_provider_is_an_outage(canned):
    """Anthropic's 529 is waited for."""
    canned.answer(529, {"type": "error", "error": {"type": "overloaded_error"}}, Retry_After="9")
    model = asked(canned, "anthropic")
    with pytest.raises(ModelOutage):
        await model.complete(ASK, Said)
    await model.close()
