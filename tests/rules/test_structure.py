"""The structure of the code, held by tests."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("gralkord/**/*.py"), *ROOT.glob("workers/**/*.py")])
MAX_LINES = 400

# Which folders each folder may import; the path of a turn downwards, the way back upwards.
SHARED = {
    "errors",
    "models",
    "config",
    "clock",
    "groups",
    "log",
    "notify",
    "wire",
    "__init__",
}
ALLOWED = {
    "mailbox": set(),
    "lenses": set(),
    "agents": set(),
    "providers": set(),
    "intake": {"lenses", "mailbox"},
    "graph": {"providers"},
    "recall": {"lenses", "graph", "providers"},
    "turns": {"agents", "intake", "lenses", "mailbox", "graph", "providers", "recall"},
    "memories": {"agents", "intake", "lenses", "mailbox", "graph", "providers", "turns"},
    "rpc": set(),
    "daemon": {
        *("intake", "lenses", "mailbox", "graph", "providers", "turns", "recall", "rpc"),
        "memories",
    },
    "client": {"agents", "mailbox"},
    "embedded": {"client", "mailbox", "graph"},
    "doctor": {"client", "lenses", "mailbox", "graph", "providers"},
    "testing": {"client", "graph", "lenses", "memories", "providers", "recall"},
    "evaluation": {"client", "embedded", "graph", "providers", "recall", "turns"},
    "demo": {"client", "evaluation", "graph", "testing"},
    "cli": {
        "agents",
        "client",
        "daemon",
        "demo",
        "doctor",
        "embedded",
        "evaluation",
        "lenses",
        "providers",
        "testing",
    },
}


@cache
def imports_of(path):
    """Return the dotted names that a file imports."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def folder_of(path):
    """Return the folder of gralkord that a file belongs to, or its own name at the top."""
    parts = path.relative_to(ROOT).parts
    return parts[1] if len(parts) > 2 else path.stem


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    """A folder imports only the folders that the table allows."""
    folder = folder_of(path)
    if "workers" in path.parts or folder in SHARED:
        return
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "gralkord_workers":
            assert folder == "cli", f"{path}: {name}"
        if parts[0] != "gralkord" or len(parts) < 2:
            continue
        allowed = SHARED | {folder, "__version__"} | ALLOWED[folder]
        assert parts[1] in allowed, f"{path.name} in {folder}/ imports {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_readable(path):
    """A file is one noun and short enough to be read at once."""
    assert len(path.read_text().splitlines()) <= MAX_LINES


def test_graph_alone_knows_graphiti_and_falkordb():
    """Nothing outside graph/ imports Graphiti or the FalkorDB client."""
    for path in SOURCES:
        names = {name.split(".")[0] for name in imports_of(path)}
        if names & {"graphiti_core", "falkordb"}:
            assert folder_of(path) == "graph", path


def test_mailbox_and_intake_alone_write_queue_keys():
    """Queue keys are spelled in mailbox/ only."""
    for path in SOURCES:
        if folder_of(path) not in {"mailbox", "intake", "graph"}:
            assert not re.search(r"[\"']gk:", path.read_text()), path


def test_tests_open_the_queue_as_the_product_does():
    """What redis-py opens by itself loses cancellations: a test that fails might never end."""
    for path in (ROOT / "tests").rglob("*.py"):
        assert "redis.asyncio." + "Redis(" not in path.read_text(), path


def test_importing_the_client_loads_nothing_heavy():
    """`import gralkord` loads neither Graphiti nor numpy nor an HTTP client."""
    code = (
        "import sys, gralkord; heavy = {'graphiti_core', 'numpy', 'httpx', 'fastapi', 'redis', "
        "'pydantic'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_recall_path_does_not_load_graphiti():
    """The daemon starts without Graphiti, which only the understand lane needs."""
    code = (
        "import sys, gralkord.daemon; heavy = {'graphiti_core', 'openai'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_lua_script_states_its_contract():
    """Each script begins with its name, its arguments and what it returns."""
    for path in (ROOT / "gralkord/mailbox/lua").glob("*.lua"):
        first = path.read_text().split("\nlocal", 1)[0]
        if not path.stem.endswith("lib"):
            assert first.startswith(f"-- {path.stem}:"), path
            assert "ARGV:" in first, path
            assert "Returns" in first, path


def test_lint_exceptions_are_explained():
    """Every rule that is ignored everywhere says why."""
    text = (ROOT / "pyproject.toml").read_text()
    ignored = tomllib.loads(text)["tool"]["ruff"]["lint"]["ignore"]
    block = text.split("ignore = [", 1)[1].split("]", 1)[0]
    explained = [line for line in block.splitlines() if "#" in line]
    assert (
        len(explained) >= len(ignored) - 3
    )  # TC001 speaks for TC002 and TC003, PLR0913 for PLR0917
