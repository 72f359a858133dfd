"""A real model, where one is named and asked for: ``make test-functional``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gralkord.config import load_settings
from gralkord.providers.build import build_model

sys.path.append(str(Path(__file__).parents[1] / "chaos"))

# A name that began with GRALKORD_ would be a setting that there is not.
ASKED_FOR = os.environ.get("FUNCTIONAL_TESTS") == "1"
NOT_ASKED = "it costs: `make test-functional` asks the model of GRALKORD_MODELS__LLM"
NO_MODEL = "no model: set GRALKORD_MODELS__LLM, and the key of its provider"
# Whose daemon it is, and where: the suite has one of its own.
_FOREIGN = ("GRALKORD_DATA_DIR", "GRALKORD_URL", "GRALKORD_TOKEN", "GRALKORD_TOKEN_FILE")


def pytest_collection_modifyitems(items):
    """Skip what asks a model, with the reason, unless there is one and it may be asked."""
    if ASKED_FOR:
        settings = load_settings(None, os.environ)
        reason = "" if build_model(settings.models, os.environ) else NO_MODEL
    else:
        reason = NOT_ASKED
    if reason:
        for item in items:
            if item.get_closest_marker("asks_a_model"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def up(tmp_path_factory):
    """A ``gralkord up`` with the model and all settings of the environment."""
    from up_process import UpProcess

    home = tmp_path_factory.mktemp("functional")
    chosen = {
        key: value
        for key, value in os.environ.items()
        if key.startswith(("GRALKORD_", "OPENAI_")) and key not in _FOREIGN
    }
    up = UpProcess(home / "data", state=home / "state", **chosen)
    try:
        yield up.ready()
    finally:
        up.end()
        up.clear()
