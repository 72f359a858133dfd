"""The examples of docs/how-to/models.md work as they stand there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gralkord.config import Settings
from gralkord.providers.check import check_roles
from gralkord.providers.specs import PROVIDERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/models.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
KEYS = {each.key_variable: "k" for each in PROVIDERS.values() if each.key_variable}


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_are_settings_that_are_taken(text, tmp_path):
    """Each can be a configuration file, and every role in it can be had."""
    key = tmp_path / "key"
    key.write_text("k")
    settings = Settings.model_validate(
        tomllib.loads(text.replace("/etc/gralkord/gateway-key", str(key)))
    )
    if "onnx:" not in text:  # its directory is somebody else's
        one_key = {"OPENAI_API_KEY": "k"}
        roles = check_roles(settings, KEYS if settings.models.llm else one_key)
        assert roles["embedder"].spec != "none"


@pytest.mark.parametrize("path", sorted(ROOT.glob("config/*.toml")), ids=lambda path: path.name)
def test_configurations_are_taken(path):
    """Every file in config/ can be used as it is."""
    settings = Settings.model_validate(tomllib.loads(path.read_text()))
    assert check_roles(settings, {"OPENAI_API_KEY": "k"})["embedder"].spec == "local"


@pytest.mark.parametrize("name", sorted(PROVIDERS))
def test_every_provider_is_described(name):
    """There is a row, an example, its variables and what its key selects."""
    provider = PROVIDERS[name]
    assert f"| `{name}` |" in PAGE
    assert any(f'"{name}:' in text for text in EXAMPLES)
    assert all(f"`{variable}`" in PAGE for variable in provider.key_variables)
    if provider.default_llm:
        assert f"`{name}:{provider.default_llm}`" in PAGE
        assert f"`{name}-api-key`" in PAGE
