"""A real, small and weak language model on this machine: only ``make test-local-model`` has one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Where `scripts/local-model` made its environment; without it nothing here is collected. A name that
# began with GRALKORD_ would be a setting that there is not.
PLACE = os.environ.get("LOCAL_MODEL_VENV", "")
collect_ignore_glob = [] if PLACE else ["test_*.py"]

_report: list[str] = []


@pytest.fixture(scope="session")
def report():
    """A function that adds a line to what is said at the end."""
    return _report.append


@pytest.fixture(scope="session")
def model_server(tmp_path_factory):
    """The server of llama.cpp with the small model, started once."""
    from llama_server import LlamaServer

    with LlamaServer(Path(PLACE), tmp_path_factory.mktemp("llama") / "server.log") as server:
        yield server


def pytest_terminal_summary(terminalreporter):
    """Say what was measured."""
    if _report:
        terminalreporter.section("a weak local model")
        for line in _report:
            terminalreporter.write_line(line)
