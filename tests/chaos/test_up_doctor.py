"""``gralkord doctor`` beside a ``gralkord up``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gralkord.testing.model_server import ScriptedModelServer

pytestmark = pytest.mark.timeout(120)


def test_it_finds_the_servers_and_the_daemon_of_an_up(start_up, tmp_path):
    """All sections are looked at, nothing is wrong, and what is held back is told."""
    with ScriptedModelServer(api_key="sk-hunter2") as server:
        keyed = {"GRALKORD_MODELS__LLM": server.spec, "GRALKORD_MODELS__API_KEY": "sk-hunter2"}
        up = start_up(**keyed).ready()
        command = [sys.executable, "-m", "gralkord.cli.app", "doctor", "--json"]
        done = subprocess.run(
            [*command, "--data-dir", str(up.data_dir)],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), **keyed},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        content = json.loads(done.stdout)
    states = {check["name"]: check["state"] for check in content["checks"]}
    looked = {name.partition(".")[0] for name, state in states.items() if state == "ok"}
    assert looked >= {"machine", "settings", "queue", "graph", "daemon", "llm", "embedder"}
    left = {"llm_small", "reranker", "vision"}
    skipped = {name for name, state in states.items() if state == "skip"} - {"llm.length"}
    assert {name.partition(".")[0] for name in skipped} == left
    assert content["samples"]["calls"] == 1
    assert "sk-hunter2" not in done.stdout + done.stderr
    assert up.end() == 0
