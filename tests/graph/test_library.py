from __future__ import annotations

import os
import subprocess
import sys


def run(code: str, **options) -> str:
    """Return what a fresh interpreter prints."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        **options,
    ).stdout.strip()


def test_graphiti_is_imported_only_to_understand():
    """What reads, writes passages or waits for episodes starts without the slow import."""
    code = (
        "import sys, gralkord.graph.connection, gralkord.graph.passages, gralkord.graph.episodes\n"
        "print([name for name in ('graphiti_core', 'openai', 'neo4j') if name in sys.modules])"
    )
    assert run(code) == "[]"


def test_graphiti_calls_nobody_and_reads_no_env_file(tmp_path):
    """Telemetry is off, and a .env file in a folder above changes no setting of ours."""
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-a-file\n")
    code = (
        "import os, gralkord.graph.library\n"
        "from graphiti_core.telemetry.telemetry import is_telemetry_enabled\n"
        "print(is_telemetry_enabled(), os.environ.get('OPENAI_API_KEY'), "
        "os.environ.get('PYTHON_DOTENV_DISABLED'))"
    )
    environ = {name: value for name, value in os.environ.items() if "DOTENV" not in name}
    environ.pop("OPENAI_API_KEY", None)
    assert run(code, cwd=tmp_path, env=environ) == "False None None"
