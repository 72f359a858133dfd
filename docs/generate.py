"""Write the reference pages that follow from the code; a test checks that they are up to date."""

from __future__ import annotations

import inspect
import json
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import typer.main
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from gralkord import errors
from gralkord.cli.app import build
from gralkord.config import ENV_PREFIX, Section, Settings
from gralkord.mailbox.keys import KEY_TABLE, Keys
from gralkord.rpc.app import create_app

REFERENCE = Path(__file__).parent / "reference"
# What settings are called elsewhere, and which of those have no counterpart here.
ELSEWHERE = tomllib.loads((Path(__file__).parent / "elsewhere.toml").read_text())


def configuration() -> str:
    """Return the page of all settings."""
    lines = [
        "# Configuration",
        "",
        "Settings are read from flags, the environment, a TOML file (`--config FILE` or "
        "`GRALKORD_CONFIG`) and defaults, in that order. Unknown keys are refused. "
        "`gralkord config check FILE` checks a file, `gralkord config show` prints what holds.",
        "",
        "A key of the file is spelled in the environment in capitals, with two underscores for "
        f"each dot: `recall.deadline_ms` is `{ENV_PREFIX}RECALL__DEADLINE_MS`.",
        "",
        "*Elsewhere* are the names that other memories have for a setting; what of theirs is not "
        "here stands [at the end](#settings-of-others).",
        "",
    ]
    lines += _tables(Settings, "")
    lines += ["", "## Settings of others", "", "They have no counterpart:", ""]
    lines += ["| Memory | Settings | Instead |", "| --- | --- | --- |"]
    lines += [
        f"| {each['memory']} | `{each['settings']}` | {each['instead']} |"
        for each in ELSEWHERE["absent"]
    ]
    return "\n".join(lines).rstrip() + "\n"


def _sections(kind: type[Section], prefix: str = "") -> Iterator[tuple[str, type[Section], bool]]:
    """Yield each section below *kind*: its key, what it is, and whether one may have several."""
    for name, field in kind.model_fields.items():
        path = f"{prefix}{name}"
        if section := _section(field):
            yield path, section, False
            yield from _sections(section, f"{path}.")
        elif section := _several(field):
            yield f"{path}.{_placeholder(name)}", section, True
            yield from _sections(section, f"{path}.{_placeholder(name)}.")


def _section(field: FieldInfo) -> type[Section] | None:
    kind = field.annotation
    if typing.get_origin(kind) in {types.UnionType, typing.Union}:
        kind = next(each for each in typing.get_args(kind) if each is not type(None))
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def _several(field: FieldInfo) -> type[Section] | None:
    """Return what the values of a table of sections are."""
    if typing.get_origin(field.annotation) is not dict:
        return None
    kind = typing.get_args(field.annotation)[1]
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def _placeholder(name: str) -> str:
    return '"SPEC"' if name == "options" else "NAME"


def _plain(kind: type[Section]) -> dict[str, FieldInfo]:
    fields = kind.model_fields.items()
    return {name: field for name, field in fields if not _section(field) and not _several(field)}


def _tables(kind: type[Section], prefix: str) -> list[str]:
    lines = _table(_plain(kind), prefix)
    for path, section, _ in _sections(kind, prefix):
        lines += ["", f"## `[{path}]`", "", inspect.getdoc(section) or "", ""]
        if _plain(section):
            lines += _table(_plain(section), f"{path}.")
    return lines


def _table(fields: dict[str, FieldInfo], prefix: str) -> list[str]:
    rows = [
        f"| `{prefix}{name}` | {_type(field.annotation)} | {_default(field)} "
        f"| {field.description or ''} | {_elsewhere(prefix + name)} |"
        for name, field in fields.items()
    ]
    head = ["| Key | Type | Default | Effect | Elsewhere |", "| --- | --- | --- | --- | --- |"]
    return [*head, *rows]


def _elsewhere(key: str) -> str:
    names = ELSEWHERE["names"].get(key, {})
    return ", ".join(f"{memory}: `{name}`" for memory, name in names.items())


def _type(kind: Any) -> str:
    if typing.get_origin(kind) in {types.UnionType, typing.Union}:
        return _type(next(each for each in typing.get_args(kind) if each is not type(None)))
    if typing.get_origin(kind) is typing.Annotated:
        return _type(typing.get_args(kind)[0])
    if typing.get_origin(kind) is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(kind))
    names = {
        str: "text",
        int: "whole number",
        float: "number",
        bool: "yes or no",
        Path: "path",
        SecretStr: "secret",
        date: "date",
    }
    if typing.get_origin(kind) is dict:
        return "table"
    return names.get(kind, "list of texts")


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "must be set"
    if value is None or value in ([], {}):
        return "none"
    return f"`{json.dumps(value)}`"


def keys() -> str:
    """Return the page of all keys in the queue Redis."""
    rows = [
        f"| `{Keys().prefix}{row.pattern}` | {row.type} | {row.meaning} | {row.lifetime} |"
        for row in KEY_TABLE
    ]
    return "\n".join(
        [
            "# Keys in the queue Redis",
            "",
            "Tenant, operator, session and turn ids are escaped: every byte that is not an ASCII "
            "letter or digit is `_` and two hex digits.",
            "",
            "| Key | Type | Meaning | Kept |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def error_codes() -> str:
    """Return the page of all errors."""
    rows = [
        f"| `{kind.code}` | {'yes' if kind.retry else 'no'} | {_summary(kind)} |"
        for kind in _descendants(errors.GralkorError)
    ]
    return "\n".join(
        [
            "# Errors",
            "",
            "Every refusal is one object, over HTTP and on the command line with `--json`:",
            "",
            "```json",
            '{"error": {"code": "invalid_input", "message": "turn.0.role: …", "retry": false,',
            '           "field": "turn.0.role"}}',
            "```",
            "",
            "`field`, `limit`, `hint` and `retry_after` (seconds) are there where they are known. "
            "*Retry* says whether the same request may succeed later.",
            "",
            "| Code | Retry | Meaning |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _summary(kind: type[errors.GralkorError]) -> str:
    """Return the first paragraph of its docstring, as one line of a table."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())


def _descendants(kind: type[errors.GralkorError]) -> Iterator[type[errors.GralkorError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from _descendants(child)


def command_line() -> str:
    """Return the page of all commands."""
    lines = [
        "# Command line",
        "",
        "`gralkord COMMAND --help` says the same. Every command that answers takes `--json`.",
        "",
    ]
    group = typer.main.get_command(build())
    for path, command in _commands("gralkord", group):
        lines += [f"## `{path}`", "", inspect.cleandoc(command.help or ""), ""]
        lines += _parameters(command)
        if command.epilog:
            lines += ["```text", inspect.cleandoc(command.epilog), "```", ""]
    return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines()) + "\n"


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from _commands(f"{path} {name}", child)


def _parameters(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        is_option = parameter.param_type_name == "option"
        names = ", ".join(parameter.opts) if is_option else parameter.name.upper()
        meaning = (getattr(parameter, "help", None) or "").replace("|", "\\|")
        rows.append(f"| `{names}` | {meaning} |")
    return ["| Parameter | Meaning |", "| --- | --- |", *rows, ""] if rows else []


def openapi() -> str:
    """Return the description of the HTTP interface."""
    schema = create_app(typing.cast("Any", None), token="x" * 32).openapi()
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def http() -> str:
    """Return the page of all HTTP operations."""
    schema = json.loads(openapi())
    lines = [
        "# HTTP",
        "",
        "The daemon listens on the loopback address. It wants a `Host` of this machine, no foreign "
        "`Origin`, bodies as `application/json` in UTF-8, and under `/v1` the token that `gralkord "
        "up` keeps in `DIR/token`, as `Authorization: Bearer TOKEN` or `X-API-Key: TOKEN`.",
        "",
        "```console",
        "$ curl -s http://127.0.0.1:7767/v1/recall \\",
        '    -H "Authorization: Bearer $(cat memory/token)" \\',
        "    -H 'Content-Type: application/json' \\",
        """    -d '{"operator": "ann", "query": "Where does Ida live?"}'""",
        "```",
        "",
        "The whole description is [openapi.json](openapi.json), which the daemon also answers at "
        "`/openapi.json`. Refusals: see [errors](errors.md).",
        "",
        "| Operation | What it does |",
        "| --- | --- |",
    ]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            meaning = operation.get("description", operation.get("summary", "")).replace("\n", " ")
            lines.append(f"| `{method.upper()} {path}` | {meaning} |")
    return "\n".join(lines) + "\n"


def settings_file() -> str:
    """Return the commented configuration file."""
    lines = [
        "# Settings of gralkord, all at their defaults. See docs/reference/configuration.md.",
    ]
    for name, field in _plain(Settings).items():
        lines += ["", f"# {field.description}", f"# {name} = {_toml(field)}"]
    several = ""
    for path, section, many in _sections(Settings):
        if many:
            several = path
        off = "# " if several and path.startswith(several) else ""
        lines += ["", *(f"# {line}" for line in [_heading(section)] if many), f"{off}[{path}]"]
        for key, inner in _plain(section).items():
            lines += [f"# {inner.description}", f"# {key} = {_toml(inner)}"]
    return "\n".join(lines) + "\n"


def _heading(section: type[Section]) -> str:
    return (inspect.getdoc(section) or "").splitlines()[0]


def _toml(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "0.0"
    return json.dumps(value) if value is not None else '""'


PAGES: dict[str, Callable[[], str]] = {
    "../../config/gralkord.toml": settings_file,
    "configuration.md": configuration,
    "keys.md": keys,
    "errors.md": error_codes,
    "cli.md": command_line,
    "http.md": http,
    "openapi.json": openapi,
}


def main() -> int:
    """Write the pages, or with ``--check`` name those that are out of date."""
    stale = []
    for name, make in PAGES.items():
        path, text = REFERENCE / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
    print("\n".join(stale) or "all pages are up to date")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
