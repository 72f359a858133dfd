"""Lenses that are written in Python instead of TOML: a mapping that the settings name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from gralkord.errors import ConfigError

KEY = "lenses_from"


def add_lenses(tree: dict[str, Any]) -> None:
    """Put the lenses that ``lenses_from`` names among those of *tree*.

    Args:
        tree: All settings as they were read; ``lenses_from``, where it is a text, is
            ``package.module:name`` of a mapping from names of lenses to their settings, which are
            `gralkord.config.Lens` or mappings with the keys of a table in TOML.

    Raises:
        ConfigError: There is no such mapping, or a lens stands in both places.
    """
    reference = tree.get(KEY)
    if not isinstance(reference, str) or not reference.strip():
        return
    lenses = tree.setdefault("lenses", {})
    for name, lens in _mapping(reference).items():
        if isinstance(lenses, dict) and name in lenses:
            raise ConfigError(
                f"{KEY}: the lens {str(name)[:64]!r} stands in the settings, too", field=KEY
            )
        lenses[name] = lens.model_dump(exclude_unset=True) if isinstance(lens, BaseModel) else lens


def _mapping(reference: str) -> Mapping[Any, Any]:
    module, _, name = reference.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"{KEY}: {reference[:128]} cannot be loaded: {what}", field=KEY
        ) from error
    if not isinstance(found, Mapping):
        raise ConfigError(f"{KEY}: {reference[:128]} is no mapping of names to lenses", field=KEY)
    return found
