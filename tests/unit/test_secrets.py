"""Where keys are looked for, and who is shown them."""

from __future__ import annotations

import pytest

from gralkord.config import Models, Settings
from gralkord.errors import ConfigError
from gralkord.providers.build import Builder
from gralkord.providers.check import check_roles
from gralkord.providers.specs import ROLES

GATEWAY = "openai-compatible:m@https://gw.example/v1"
OTHER = "openai-compatible:o@https://other.example/v1"


def key_of(role, environ=None, **models):
    """Return the key of a role, and where it stands."""
    builder = Builder.of(Models(**models), environ or {})
    endpoint = builder.endpoint(builder.spec(role))
    return endpoint.key, endpoint.key_source


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("google", "GOOGLE_API_KEY"),
        ("google", "GEMINI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
    ],
)
def test_variables_of_providers(provider, variable, tmp_path):
    """Each provider has a variable, and one that names a file."""
    spec = f"{provider}:m"
    assert key_of("llm", {variable: " k \n"}, llm=spec) == ("k", variable)
    file = tmp_path / "key"
    file.write_text("from-file\n")
    key, source = key_of("llm", {f"{variable}_FILE": str(file)}, llm=spec)
    assert (key, f"{variable}_FILE" in source) == ("from-file", True)
    file.write_bytes(b"\xef\xbb\xbffrom-windows\r\n")
    assert key_of("llm", {f"{variable}_FILE": str(file)}, llm=spec)[0] == "from-windows"
    both = {variable: "k", f"{variable}_FILE": str(file)}
    assert key_of("llm", both, llm=spec)[0] == "k"


def test_the_first_variable_that_holds_one_wins():
    """A blank one is passed over if another is set, and told if none is."""
    environ = {"GOOGLE_API_KEY": " ", "GEMINI_API_KEY": "k"}
    assert key_of("llm", environ, llm="google:m") == ("k", "GEMINI_API_KEY")
    with pytest.raises(ConfigError, match=r"GOOGLE_API_KEY.* is blank"):
        key_of("llm", {"GOOGLE_API_KEY": " "}, llm="google:m")


@pytest.mark.parametrize("prefix", ["", "gralkord_"])
def test_credentials_of_the_service_manager(prefix, tmp_path):
    """A credential is named by its provider; variables and settings win over it."""
    (tmp_path / f"{prefix}google-api-key").write_text("k\n")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    key, source = key_of("embedder", environ, embedder="google:m")
    assert (key, source) == ("k", "the credential google-api-key")
    assert key_of("llm", environ | {"GOOGLE_API_KEY": "v"}, llm="google:m")[0] == "v"
    assert key_of("llm", environ, llm="google:m", api_key="s")[0] == "s"
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        key_of("llm", environ, llm="openai:m")


@pytest.mark.parametrize(
    ("role", "setting"),
    [
        ("llm", "api_key"),
        ("llm_small", "api_key"),
        ("embedder", "embedder_api_key"),
        ("reranker", "reranker_api_key"),
        ("vision", "vision_api_key"),
    ],
)
def test_each_role_has_a_setting(role, setting, tmp_path):
    """Its key is the setting's, or in the file that the setting names."""
    models = {"llm": GATEWAY, role: GATEWAY}
    assert key_of(role, **models, **{setting: "k"}) == ("k", f"models.{setting}")
    file = tmp_path / "key"
    file.write_text("f")
    assert key_of(role, **models, **{f"{setting}_file": str(file)})[0] == "f"


@pytest.mark.parametrize("role", ["llm_small", "embedder", "reranker", "vision"])
def test_keys_are_shared_at_one_address_only(role):
    """What is at the language model's address is shown its key, nobody else is."""
    assert key_of(role, llm=GATEWAY, api_key="k", **{role: GATEWAY})[0] == "k"
    assert key_of(role, llm=GATEWAY, api_key="k", **{role: OTHER})[0] is None


def test_a_role_wins_with_a_key_of_its_own():
    """The role's own setting goes before the shared one."""
    found = key_of("embedder", llm=GATEWAY, api_key="a", embedder=GATEWAY, embedder_api_key="b")
    assert found == ("b", "models.embedder_api_key")


@pytest.mark.parametrize("spec", ["ollama:m", GATEWAY])
def test_servers_without_a_key_of_their_own(spec):
    """No variable of another provider is looked at; `none` says so where a setting stands."""
    everything = {"OPENAI_API_KEY": "k", "GOOGLE_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    assert key_of("llm", everything, llm=spec)[0] is None
    assert key_of("llm", llm=spec, api_key="none")[0] is None


@pytest.mark.parametrize(
    ("models", "environ", "words"),
    [
        ({"embedder": "google:e"}, {}, "models.embedder is 'google:e', but GOOGLE_API_KEY"),
        ({"vision": "anthropic:v"}, {}, "models.vision is 'anthropic:v', but ANTHROPIC_API_KEY"),
        ({"llm": "openai:m"}, {"OPENAI_API_KEY_FILE": "/nowhere"}, "OPENAI_API_KEY_FILE /nowhere"),
        ({"llm": "openai:m"}, {"OPENAI_API_KEY": "hunter2 x"}, "OPENAI_API_KEY, the key for"),
        ({"llm": "openai:m"}, {"OPENAI_API_KEY": "hünter2"}, "OPENAI_API_KEY, the key for"),
        ({"embedder": GATEWAY, "embedder_api_key": " "}, {}, "models.embedder_api_key.* is blank"),
    ],
)
def test_mistakes(models, environ, words):
    """The setting or variable and the role are named, and no key is repeated."""
    role = next(iter(models))
    with pytest.raises(ConfigError, match=words) as caught:
        key_of(role, environ, **models)
    assert "nter2" not in str(caught.value)


def test_an_unselected_provider_needs_no_key():
    """Only what a role names is looked for."""
    found = check_roles(Settings(models={"llm": "ollama:m"}), {"OPENAI_API_KEY": " "})
    assert found["llm"].spec == "ollama:m"
    assert found["llm_small"] == found["llm"]
    assert found["embedder"].spec == "local"
    assert {role for role in ROLES if found[role].spec == "none"} == {"reranker", "vision"}


def test_a_lone_key_selects_language_models_only():
    """Not the embedder, and not where two providers could be meant."""
    found = check_roles(Settings(), {"ANTHROPIC_API_KEY": "k"})
    assert found["llm"].spec.startswith("anthropic:")
    assert found["embedder"].spec == "local"
    with pytest.raises(ConfigError, match="GOOGLE_API_KEY and ANTHROPIC_API_KEY are"):
        check_roles(Settings(), {"ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY_FILE": "/k"})
