"""Settings: flag, environment, file, default, in that order; unknown keys are refused.

The environment spells a key of the file in capitals with two underscores for each dot:
``recall.deadline_ms`` is ``GRALKORD_RECALL__DEADLINE_MS``.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from gralkord.config.python_lenses import add_lenses
from gralkord.config.sections import Settings
from gralkord.errors import ConfigError

ENV_PREFIX: Final = "GRALKORD_"

# Read by the command line and the client to find a daemon; not settings of the daemon itself.
NOT_SETTINGS: Final = frozenset(
    {"CONFIG", "DATA_DIR", "URL", "TOKEN", "TOKEN_FILE", "OPERATOR", "LOG_LEVEL"}
)


_PLAINLY: Final = {
    "extra_forbidden": "no such setting",
    "missing": "must be set",
    "model_type": "must be a table",
    "dict_type": "must be a table",
}


def load_settings(
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings: *overrides* over *environ* over the file at *path* over the defaults.

    Args:
        path: A TOML file; default: the one that ``GRALKORD_CONFIG`` names, if any.
        environ: Environment variables; default: those of this process.
        overrides: Dotted key to value, as given by command-line flags; ``None`` values are ignored.

    Raises:
        ConfigError: A file that cannot be read, an unknown key, or a value out of its range.
    """
    environ = os.environ if environ is None else environ
    if path is None and environ.get(ENV_PREFIX + "CONFIG"):
        path = Path(environ[ENV_PREFIX + "CONFIG"])
    tree = _read_toml(path) if path else {}
    flags = {key: value for key, value in (overrides or {}).items() if value is not None}
    variables = _from_environ(environ)
    for key, value in (variables | flags).items():
        _put(tree, key, value)
    add_lenses(tree)
    if path:
        _anchor_ontologies(tree, path.absolute().parent)
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"]]
        message = str(first["msg"]).removeprefix("Value error, ")
        if place[-1:] == ["[key]"]:  # not a value but the name of a lens is wrong
            message = f"the name {place[-2][:64]!r}: {message}"
            place = place[:-2]
        message = _PLAINLY.get(first["type"], message)
        key = ".".join(map(_spelled, place))
        variable = _variable(".".join(place), variables.keys() - flags.keys())
        where = f"{key} ({variable})" if variable else key
        raise ConfigError(f"{where}: {message}" if key else message, field=key or None) from None


def _anchor_ontologies(tree: Mapping[str, Any], folder: Path) -> None:
    """Name the files of ontologies from *folder*, wherever the process that reads them runs."""
    lenses = tree.get("lenses")
    for section in (
        tree.get("default_lens"),
        *(lenses.values() if isinstance(lenses, dict) else ()),
    ):
        reference = section.get("ontology") if isinstance(section, dict) else None
        if isinstance(reference, str) and reference.endswith(".toml"):
            section["ontology"] = str(folder / reference)


def _spelled(part: str) -> str:
    """Return a part of a key as TOML has it."""
    plain = re.fullmatch(r"[A-Za-z0-9_-]+", part)
    return part if plain else json.dumps(part[:128], ensure_ascii=False)


def _variable(place: str, keys: Iterable[str]) -> str | None:
    """Return the variable of the environment that a place stands in, if it stands in one."""
    for key in keys:
        if f"{key}.".startswith(f"{place}.") or f"{place}.".startswith(f"{key}."):
            return ENV_PREFIX + key.upper().replace(".", "__")
    return None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in environ.items():
        key = name.removeprefix(ENV_PREFIX)
        if key == name or key in NOT_SETTINGS:
            continue
        found[key.lower().replace("__", ".")] = value
    return found


def _put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for parent in parents:
        branch = tree.setdefault(parent, {})
        if not isinstance(branch, dict):
            raise ConfigError(f"{parent} is a section, not a value", field=parent)
        tree = branch
    tree[last] = value
