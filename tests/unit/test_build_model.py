"""From settings to models: what is chosen, and each mistake in one clear sentence."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from gralkord.config import Budget, Models
from gralkord.errors import ConfigError
from gralkord.providers.build import Builder, build_embedder, build_model
from gralkord.providers.ledger import check_prices
from gralkord.providers.specs import parse_spec

OPENAI_DEFAULT = "openai:gpt-6-luna"

KEYED = {"OPENAI_API_KEY": "sk-test"}
LOCAL = "openai-compatible:m@http://127.0.0.1:9/v1"


def endpoint(model):
    """Return where a built model sends its calls."""
    return model._endpoint


@pytest.mark.parametrize(
    ("llm", "environ", "expected"),
    [
        (None, {}, None),
        ("", {}, None),
        ("none", {}, None),
        ("none", KEYED, None),
        ("none", KEYED | {"GRALKOR_LLM_MODEL": "openai:gpt-4.1"}, None),
        (None, {"OPENAI_API_KEY": "  "}, None),
        (None, KEYED, OPENAI_DEFAULT),
        (None, KEYED | {"GRALKOR_LLM_MODEL": "  "}, OPENAI_DEFAULT),
        (None, KEYED | {"GRALKOR_LLM_MODEL": " openai:gpt-4.1 "}, "openai:gpt-4.1"),
        ("openai:gpt-5", KEYED | {"GRALKOR_LLM_MODEL": "openai:gpt-4.1"}, "openai:gpt-5"),
        (LOCAL, {}, LOCAL),
    ],
)
def test_what_is_chosen(llm, environ, expected):
    """The setting wins over the original's variable, that over the key's default; none is none."""
    model = build_model(Models(llm=llm), environ)
    assert (endpoint(model).spec if model else None) == expected


@pytest.mark.parametrize(
    ("spec", "model", "base_url"),
    [
        ("openai:gpt-5-mini", "gpt-5-mini", "https://api.openai.com/v1"),
        ("openai:gpt-5@https://gw.example/v1", "gpt-5", "https://gw.example/v1"),
        ("openai-compatible:m@http://h:1", "m", "http://h:1/v1"),
        ("openai-compatible:m@http://h:1/", "m", "http://h:1/v1"),
        ("openai-compatible:m@http://h:1/v1/", "m", "http://h:1/v1"),
        ("openai-compatible:m@http://h/v1/chat/completions", "m", "http://h/v1"),
        ("openai-compatible:m@https://h/v1beta/openai", "m", "https://h/v1beta/openai"),
        ("openai-compatible:gemma3:270m@http://h:1", "gemma3:270m", "http://h:1/v1"),
        ("openai-compatible:a@b/c@http://[::1]:1", "a@b/c", "http://[::1]:1/v1"),
    ],
)
def test_specs(spec, model, base_url):
    """Provider, model and address are told apart, with or without /v1."""
    found = parse_spec(spec, "models.llm")
    assert (found.model, found.base_url) == (model, base_url)


@pytest.mark.parametrize(
    ("settings", "environ", "message"),
    [
        ({"llm": "gpt-5"}, KEYED, "'gpt-5': supported are none, openai:MODEL, google:MODEL"),
        ({"llm": "google:gemini-3"}, {}, "'google:gemini-3', but GOOGLE_API_KEY.* not set"),
        ({"llm": "mistral:m"}, {}, "'mistral:m': supported are"),
        ({"llm": None}, {"GRALKOR_LLM_MODEL": "gemini"}, "GRALKOR_LLM_MODEL is 'gemini'"),
        ({"llm": "openai:"}, KEYED, "the model's name is missing"),
        ({"llm": "openai-compatible:m"}, {}, "the address is missing"),
        ({"llm": "openai-compatible:m@ftp://h"}, {}, "begins with http"),
        ({"llm": "openai-compatible:@http://h"}, {}, "the model's name is missing"),
        ({"llm": "openai-compatible:m@http://"}, {}, "not an address"),
        ({"llm": "openai-compatible:m@http://h:99999"}, {}, "not an address"),
        ({"llm": "openai-compatible:m@http://h?x=1"}, {}, "not an address"),
        ({"llm": "openai-compatible:m@http://u:hunter2@h"}, {}, "may not hold a user"),
        ({"llm": "openai:gpt-5"}, {}, "models.llm is 'openai:gpt-5', but OPENAI_API_KEY.* not set"),
        ({"llm": "openai:gpt-5"}, {"OPENAI_API_KEY": " "}, "OPENAI_API_KEY.* is blank"),
        ({"llm": "openai:gpt-5", "api_key": " "}, KEYED, "models.api_key.* is blank"),
        ({"llm": LOCAL, "api_key_file": "/nowhere/key"}, {}, "/nowhere/key cannot be read"),
        ({"llm": LOCAL, "api_key": "a", "api_key_file": "/k"}, {}, "not both"),
        ({"llm": LOCAL, "api_key": "two words"}, {}, "more than a key"),
        ({"llm": LOCAL, "api_key": "a\nb"}, {}, "more than a key"),
        ({"llm": "none", "llm_small": LOCAL}, {}, "models.llm_small names a model"),
        ({"llm": LOCAL, "llm_small": "openai:x"}, {}, "models.llm_small is 'openai:x', but OPEN"),
        ({"llm": LOCAL, "llm_small": "x"}, {}, "models.llm_small is 'x': supported"),
    ],
)
def test_mistakes(settings, environ, message):
    """Each mistake names the setting or variable, and never a secret."""
    with pytest.raises(ConfigError, match=message) as caught:
        build_model(Models(**settings), environ)
    assert "hunter2" not in str(caught.value)
    assert "sk-test" not in str(caught.value)


def test_keys_come_from_the_setting_first():
    """A key in the settings wins over the variable."""
    model = build_model(Models(llm="openai:gpt-5", api_key="mine"), KEYED)
    assert endpoint(model).key == "mine"


def test_keys_come_from_files(tmp_path):
    """A key file is read without its line break."""
    file = tmp_path / "key"
    file.write_text("from-file\n")
    model = build_model(Models(llm=LOCAL, api_key_file=file), {})
    assert endpoint(model).key == "from-file"


def test_the_openai_key_is_not_shown_to_others():
    """A server that is not OpenAI does not get OPENAI_API_KEY."""
    assert endpoint(build_model(Models(llm=LOCAL), KEYED)).key is None


def test_the_key_of_one_server_is_not_shown_to_another():
    """A small model at another address does not get the key of the large one."""
    other = "openai-compatible:s@http://127.0.0.1:8/v1"
    model = build_model(Models(llm=LOCAL, llm_small=other, api_key="mine"), {})
    assert endpoint(model._large).key == "mine"
    assert endpoint(model._small).key is None


def test_a_small_model_at_the_same_address_shares_the_key():
    """Two models of one server use one key."""
    small = "openai-compatible:s@http://127.0.0.1:9"
    model = build_model(Models(llm=LOCAL, llm_small=small, api_key="mine"), {})
    assert endpoint(model._small).key == "mine"
    assert endpoint(model._small).model == "s"


def test_keys_are_not_printed():
    """Neither the settings nor the endpoint show the key when printed."""
    settings = Models(llm=LOCAL, api_key="hunter2")
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(endpoint(build_model(settings, {})))


def test_a_key_over_plain_http_is_noted():
    """A key that would cross the network unencrypted is worth a warning, on loopback it is not."""
    with capture_logs() as events:
        build_model(Models(llm="openai-compatible:m@http://gw.example", api_key="k"), {})
        build_model(Models(llm=LOCAL, api_key="k"), {})
    assert [event["event"] for event in events] == ["model_key_unencrypted"]


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("openai:gpt-6-luna", {"reasoning_effort": "none"}),
        ("openai:gpt-5", {"reasoning_effort": "minimal"}),
        ("openai:gpt-4.1-mini", {"temperature": 0}),
        ("openai:o3", {}),
        (LOCAL, {"temperature": 0}),
    ],
)
def test_options_fit_the_model(spec, options):
    """Reasoning models are asked not to think long, others to be steady."""
    assert endpoint(build_model(Models(llm=spec), KEYED)).options == options


def test_embedders():
    """`local` is wordllama, `none` is none."""
    assert build_embedder(Models()).fingerprint.startswith("local:wordllama")
    assert build_embedder(Models(embedder="none")) is None


@pytest.mark.parametrize("budget", [{"tenant": {"usd": 5}}, {"operators": {"ann": {"usd": 1}}}])
def test_a_budget_in_dollars_needs_every_price(budget):
    """The setting that is missing is named; one in tokens needs no price, nor does this machine."""
    far, near = "openai-compatible:m@http://gpu.example:1/v1", LOCAL
    builder = Builder.of(Models(llm=far, llm_small=near), {})
    builder.language_model()
    check_prices(Budget.model_validate({"tenant": {"tokens": 5}}), builder.built)
    with pytest.raises(ConfigError) as error:
        check_prices(Budget.model_validate(budget), builder.built)
    assert error.value.field == f'models.options."{far}".price'
    options = {far: {"price": {"input": 0}}}
    priced = Builder.of(
        Models.model_validate({"llm": far, "llm_small": near, "options": options}), {}
    )
    priced.language_model()
    check_prices(Budget.model_validate(budget), priced.built)
