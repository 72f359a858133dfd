"""How the settings name models: provider, model, address, for each role."""

from __future__ import annotations

import pytest

from gralkord.errors import ConfigError
from gralkord.providers.specs import PROVIDERS, ROLES, parse_spec, supported


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("written", ["", "  ", "none", " none "])
def test_nothing_is_nothing(written, role):
    """A blank and `none` are no model, for every role."""
    assert parse_spec(written, f"models.{role}", role) is None


@pytest.mark.parametrize(
    ("spec", "model", "base_url"),
    [
        (
            "google:gemini-3.1-flash-lite",
            "gemini-3.1-flash-lite",
            "https://generativelanguage.googleapis.com/v1beta",
        ),
        ("google:m@https://proxy.example", "m", "https://proxy.example/v1beta"),
        ("google:models/m@https://proxy.example/x", "models/m", "https://proxy.example/x"),
        ("anthropic:claude-haiku-4-5", "claude-haiku-4-5", "https://api.anthropic.com/v1"),
        ("anthropic:c@https://gw.example/v1/messages", "c", "https://gw.example/v1"),
        ("ollama:qwen3:8b", "qwen3:8b", "http://127.0.0.1:11434"),
        ("ollama:m@http://gpu:11434", "m", "http://gpu:11434"),
        ("ollama:m@http://gpu:11434/api/chat", "m", "http://gpu:11434"),
        ("ollama:m@http://gpu:11434/v1", "m", "http://gpu:11434"),
        (" openai : gpt-5 ", "gpt-5", "https://api.openai.com/v1"),
        ("openai-compatible:m@h", "m@h", None),
    ],
)
def test_specs(spec, model, base_url):
    """Each provider has an address of its own, or takes the one that is written."""
    if base_url is None:
        with pytest.raises(ConfigError, match="address is missing"):
            parse_spec(spec, "models.llm")
        return
    found = parse_spec(spec, "models.llm")
    assert (found.model, found.base_url) == (model, base_url)


@pytest.mark.parametrize(
    ("host", "base_url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("gpu", "http://gpu:11434"),
        ("gpu:8080", "http://gpu:8080"),
        ("http://gpu", "http://gpu:11434"),
        ("https://gpu.example", "https://gpu.example"),
        ("http://gpu:8080/", "http://gpu:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("[::]:8080", "http://[::1]:8080"),
    ],
)
def test_the_host_of_ollama(host, base_url):
    """It is read as Ollama itself reads it; one that listens everywhere is on this machine."""
    for role in ("llm", "embedder", "vision"):
        assert parse_spec("ollama:m", "s", role, {"OLLAMA_HOST": host}).base_url == base_url
    written = parse_spec("ollama:m@http://other:1", "s", "llm", {"OLLAMA_HOST": host})
    assert written.base_url == "http://other:1"


@pytest.mark.parametrize(
    ("role", "spec"),
    [
        ("embedder", "anthropic:m"),
        ("reranker", "anthropic:m"),
        ("reranker", "openai:m"),
        ("reranker", "ollama:m"),
    ],
)
def test_a_provider_without_such_models(role, spec):
    """The message has the spec, the setting, and all that the role takes."""
    with pytest.raises(ConfigError) as caught:
        parse_spec(spec, f"models.{role}", role)
    assert caught.value.field == f"models.{role}"
    assert spec in caught.value.message
    assert supported(role) in caught.value.message


@pytest.mark.parametrize("role", ROLES)
def test_what_is_supported_is_supported(role):
    """Each spec that a message offers for a role is accepted for it."""
    for offered in supported(role).split(", "):
        if offered.partition(":")[0] in PROVIDERS:
            spec = offered.replace("HOST:PORT", "h:1")
            assert parse_spec(spec, "s", role).provider.name == offered.partition(":")[0]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("openai:m@http://h:0", "not an address"),
        ("openai:m@http://h/v1#x", "not an address"),
        ("openai:m@http://h/a b", "not an address"),
        ("openai:m@http://[::1", "not an address"),
        ("openai:m@http://h/v1?key=hunter2", "not an address"),
        ("openai:m@http://user:hunter2/x@h", "not an address"),
        ("openai:m@ftp://h", "begins with http:// or https://"),
        ("openai:m@h:8000/v1", "begins with http:// or https://"),
        ("ollama:m:8b@127.0.0.1:11434", "begins with http:// or https://"),
        ("openai:m\x00", "a control character"),
        ("openai-compatible:m@http://user@h", "may not hold a user"),
        ("openai-compatible:m@http://user:hunter2@h", "may not hold a user"),
        ("gpt:m@http://user:hunter2@h", "supported are"),
        ("ollama: ", "name is missing"),
    ],
)
def test_addresses_that_are_none(spec, words):
    """The mistake is told, and never a password."""
    with pytest.raises(ConfigError, match=words) as caught:
        parse_spec(spec, "models.llm")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("host", ["h i", "ftp://h", "h:70000", "http://user:hunter2@h"])
def test_a_host_of_ollama_that_is_none(host):
    """The variable is named, for it is what has to be mended."""
    with pytest.raises(ConfigError, match=r"^OLLAMA_HOST") as caught:
        parse_spec("ollama:m", "models.llm", "llm", {"OLLAMA_HOST": host})
    assert "hunter2" not in str(caught.value)
    assert caught.value.field == "OLLAMA_HOST"


@pytest.mark.parametrize(
    ("spec", "model"),
    [("ollama:m@sha256:0123abcd", "m@sha256:0123abcd"), ("openai:@cf/m", "@cf/m")],
)
def test_names_that_only_look_like_addresses(spec, model):
    """What stands behind an @ in a name need not be an address."""
    assert parse_spec(spec, "models.llm").model == model


def test_addresses_are_the_same_in_capitals():
    """Who is at one address is not told apart by how it is written."""
    found = parse_spec("openai-compatible:M@HTTP://Gpu.Example:1/V1", "models.llm")
    assert (found.model, found.base_url) == ("M", "http://gpu.example:1/V1")


def test_a_spec_has_a_name_without_its_address():
    """The ledger and fingerprints tell models apart by provider and name."""
    assert parse_spec("openai-compatible:m@http://h:1", "s").name == "openai-compatible:m"
