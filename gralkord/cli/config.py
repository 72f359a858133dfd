"""``gralkord config``: check and show the settings."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.options import AsJson, help_alone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gralkord.config import Server, Settings

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", help="A TOML file. Default: what GRALKORD_CONFIG names, if any."
    ),
]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

_CHECK_EPILOG = """
Examples:

  gralkord config check gralkord.toml

  gralkord config check --json

Environment variables count too, as they do for `gralkord up`.
"""

_SHOW_EPILOG = """
Examples:

  gralkord config show

  gralkord config show gralkord.toml --json

Prints TOML that can be used as a configuration file, except that secrets are hidden.
"""


def register(app: typer.Typer) -> None:
    """Add the commands ``config check`` and ``config show`` to *app*."""
    group = typer.Typer()
    group.callback(invoke_without_command=True)(help_alone)
    group.command(epilog=_CHECK_EPILOG)(check)
    group.command(epilog=_SHOW_EPILOG)(show)
    app.add_typer(group, name="config", help="Check and show the settings.")


def check(file: File = None, as_json: AsJson = False) -> None:
    """Check the settings, the files that they name, lenses, and that models have their keys."""
    from gralkord import log
    from gralkord.cli.output import emit, say, tree_lines
    from gralkord.cli.process import load
    from gralkord.lenses.load import load_lenses, warn_of_ontologies
    from gralkord.providers.check import check_roles

    log.configure(level="warning")
    settings = load(file)
    check_files(settings)
    roles = check_roles(settings, os.environ)
    lenses = load_lenses(settings)
    warn_of_ontologies(lenses)
    summary: dict[str, Any] = {
        "ok": True,
        "file": str(file) if file else None,
        "queue": _place(settings.queue),
        "graph": _place(settings.graph),
        "models": {role: chosen.spec for role, chosen in roles.items()},
        "lenses": {name: lenses.lens(name).reference for name in lenses.names()},
    }
    if as_json:
        emit(summary)
    else:
        for line in tree_lines(summary):
            say(line)


def show(file: File = None, as_json: AsJson = False) -> None:
    """Print the settings in force, with secrets hidden."""
    from gralkord.cli.output import emit, printable, say
    from gralkord.cli.process import load

    content = _without_secrets(load(file).model_dump(mode="json"))
    if as_json:
        emit(content)
    else:
        say(printable("\n".join(toml_lines(content)).strip()))


def check_files(settings: Settings) -> None:
    """Check that the files which *settings* name can be read.

    Raises:
        ConfigError: One cannot.
    """
    from gralkord.errors import ConfigError

    files = {
        "queue.password_file": settings.queue.password_file,
        "graph.password_file": settings.graph.password_file,
        "queue.tls_ca": settings.queue.tls_ca,
        "graph.tls_ca": settings.graph.tls_ca,
        "models.api_key_file": settings.models.api_key_file,
        "models.embedder_api_key_file": settings.models.embedder_api_key_file,
        "models.reranker_api_key_file": settings.models.reranker_api_key_file,
        "models.vision_api_key_file": settings.models.vision_api_key_file,
    }
    for key, path in files.items():
        if path is None:
            continue
        try:
            with path.open("rb"):
                continue
        except OSError as error:
            raise ConfigError(
                f"{key}: {path} cannot be read: {error.strerror}", field=key
            ) from error


def toml_lines(content: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield *content* as lines of TOML; what is not set is left out."""
    sections = {name: value for name, value in content.items() if isinstance(value, dict)}
    for name, value in content.items():
        if value is not None and name not in sections:
            yield f"{_key(name)} = {_toml(value)}"
    for name, section in sections.items():
        if any(value is not None for value in section.values()):
            inner = f"{path}.{_key(name)}" if path else _key(name)
            yield ""
            yield f"[{inner}]"
            yield from toml_lines(section, inner)


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(one) for one in value)}]"
    if isinstance(value, dict):
        inner = (f"{_key(name)} = {_toml(one)}" for name, one in value.items() if one is not None)
        return f"{{ {', '.join(inner)} }}"
    written = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else _escaped(each) for each in written)


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _without_secrets(value: Any) -> Any:
    """Return *value* with addresses as they are told, for a password may stand in one."""
    from gralkord.providers.specs import shown

    if isinstance(value, str):
        return shown(value) if "://" in value else value
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    if isinstance(value, dict):
        return {_without_secrets(name): _without_secrets(each) for name, each in value.items()}
    return value


def _key(name: str) -> str:
    return (
        name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _toml(name)
    )


def _place(server: Server) -> str:
    if server.socket:
        return str(server.socket)
    if server.host is None:
        return "embedded"
    return f"{server.host}:{server.port}{' with TLS' if server.tls else ''}"
