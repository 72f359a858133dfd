from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys

import pytest

from gralkord import cli
from gralkord.cli.app import COMMANDS, build, run
from gralkord.cli.output import (
    EXIT_CODES,
    complain,
    emit,
    exit_code,
    printable,
    tree_lines,
)
from gralkord.errors import (
    BackendUnavailable,
    ConfigError,
    DeadlineExpired,
    GralkorError,
    InvalidInput,
    NoModel,
    NotFound,
    QueueFull,
    SessionConflict,
    StartError,
    Unauthorized,
    UnknownLens,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb", "a\\rb"),
        ("a\x08\x08b\x7f", "a\\x08\\x08b\\x7f"),
        ("\x9b2J", "\\x9b2J"),
        ("safe \u202eevil", "safe \\u202eevil"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
        ("\x00", "\\x00"),
    ],
)
def test_no_character_commands_the_terminal(text, shown):
    """Control characters, turned text and lone surrogates are shown as escapes."""
    assert printable(text) == shown


@pytest.mark.parametrize("text", ["plain", "🦊 ünï", "مرحبا שלום", "[bold]x[/bold]", "a\nb\tc", ""])
def test_text_of_every_alphabet_stays(text):
    """What is only text is left alone."""
    assert printable(text) == text


def test_one_line_stays_one_line():
    """Line feeds and tabs are escaped where each line is a record."""
    assert printable("a\nb\tc", one_line=True) == "a\\nb\\tc"


def test_json_is_safe_on_a_terminal_and_unchanged_as_data(capsys):
    """Escapes in JSON output mean the same characters."""
    text = "\x1b[2J \x9b \u202e \x7f \u2028 é 🦊"
    emit({"text": text})
    out = capsys.readouterr().out

    assert json.loads(out)["text"] == text
    assert not set(out) & set("\x1b\x9b\u202e\x7f\u2028")
    assert "🦊" in out
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GralkorError(), 1),
        (DeadlineExpired(), 1),
        (StartError(), 1),
        (ConfigError(), 2),
        (BackendUnavailable(), 3),
        (NotFound(), 4),
        (InvalidInput(), 5),
        (SessionConflict(), 5),
        (UnknownLens(), 5),
        (Unauthorized(), 5),
        (QueueFull(), 5),
        (NoModel(), 5),
    ],
)
def test_each_error_has_its_exit_code(error, code):
    """The exit code follows from the kind of error, and every one is documented."""
    assert exit_code(error) == code
    assert code in EXIT_CODES


def test_an_error_is_shown_with_its_hint(capsys):
    """People read message and hint on standard error, without control characters."""
    code = complain(NotFound("no \x1b[2J such", hint="look"), as_json=False)
    out, err = capsys.readouterr()

    assert (code, out) == (4, "")
    assert err == "error: no \\x1b[2J such\n  hint: look\n"


def test_a_tree_is_indented_lines():
    """Nested values become lines; nothing is shown as nothing."""
    lines = tree_lines({"a": 1, "b": {"c": True, "d": None}, "e": [{"f": "x\n"}], "g": [], "h": {}})

    assert list(lines) == ["a: 1", "b:", "  c: yes", "  d: -", "e[0]:", "  f: x\\n", "g: -", "h: -"]


def test_a_wrong_command_line_is_2(capsys):
    """A usage error is told on standard error with the usage."""
    assert run(["recall", "x", "-o", "a", "--max-results", "0"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage: gralkord recall" in err
    assert "--max-results" in err


def test_a_wrong_command_line_is_json_if_asked(capsys):
    """With --json it is an object on standard output."""
    assert run(["recall", "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "usage"
    assert err == ""


@pytest.mark.parametrize("words", ["up", "serve", "status", "eval retrieval x"])
def test_a_blank_data_directory_is_wrong_usage(words, capsys):
    """What a variable that is not set leaves is not taken for the current directory."""
    assert run([*words.split(), "--data-dir", ""]) == 2
    assert "must not be blank" in capsys.readouterr().err


@pytest.mark.parametrize("group", ["config", "eval", "testing"])
def test_a_group_without_a_command_shows_its_help(group, capsys):
    """The help is an answer, not an error."""
    assert run([group]) == 0
    out, err = capsys.readouterr()
    assert "Commands:" in out
    assert err == ""


def test_an_unknown_command_is_2(capsys):
    """A misspelt command is a usage error."""
    assert run(["recal"]) == 2
    assert "recal" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_documents_the_exit_codes(arguments, capsys):
    """The help lists every command and every exit code."""
    assert run(arguments) == 0
    out = capsys.readouterr().out
    for code, meaning in EXIT_CODES.items():
        assert f"{code:<4}{meaning}" in out
    for name in ("up", "serve", "worker", "capture", "flush", "recall", "import", "eval", "demo"):
        assert f"\n  {name}" in out


@pytest.mark.parametrize(
    "words",
    ["capture", "flush", "recall", "status", "backfill", "config check", "config show"],
)
def test_each_command_has_an_example_and_json(words, capsys):
    """The help of each command ends with an example, and each has --json."""
    assert run([*words.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert f"  gralkord {words}" in out.partition("Examples:")[2]
    assert "--json" in out


def test_the_version_is_printed(capsys):
    """--version prints one line."""
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("gralkord ")


def test_every_module_of_commands_registers():
    """All of them come together without a clash of names."""
    names = [f"gralkord.cli.{module.name}" for module in pkgutil.iter_modules(cli.__path__)]
    modules = [importlib.import_module(name) for name in names]
    assert set(COMMANDS) == {module for module in modules if hasattr(module, "register")}
    build()


def test_help_loads_nothing_heavy():
    """Showing the help waits for no HTTP client, model or server."""
    code = (
        "import sys\n"
        "from gralkord.cli.app import run\n"
        "run(['--help'])\n"
        "heavy = {'httpx', 'numpy', 'graphiti_core', 'pydantic', 'fastapi', 'redis', 'dramatiq',\n"
        "  'uvicorn', 'structlog', 'rich.table', 'wordllama'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr.strip() == "[]"
