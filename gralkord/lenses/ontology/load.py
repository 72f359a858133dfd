"""Finding the ontology that a setting names."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

from gralkord.errors import ConfigError
from gralkord.lenses.ontology.model import Ontology
from gralkord.lenses.ontology.toml_form import read_ontology


def load_ontology(reference: str, base: Path | None = None) -> Ontology:
    """Return the ontology of that name.

    Args:
        reference: A TOML file, ``kinds.toml``, or an object of a module, ``package.module:name``.
        base: The folder that a file is looked for in; default: the working directory.

    Raises:
        ConfigError: It is not there, or something is wrong with it.
    """
    if reference.endswith(".toml"):
        return read_ontology((base or Path()) / reference)
    module_name, _, name = reference.partition(":")
    if not module_name or not name:
        raise ConfigError(
            f"ontology {reference[:128]!r}: neither a .toml file nor package.module:name",
            field="ontology",
        )
    try:
        module = importlib.import_module(module_name)
    except ConfigError as error:
        raise ConfigError(f"ontology {reference}: {error.message}", field="ontology") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"ontology {reference}: cannot import {module_name}: {type(error).__name__}: {error}",
            field="ontology",
        ) from error
    found = getattr(module, name, None)
    if not isinstance(found, Ontology):
        place = getattr(module, "__file__", None) or module_name
        what = "has no such name" if found is None else f"{name} is no ontology"
        raise ConfigError(f"ontology {reference}: {place} {what}", field="ontology")
    return replace(found, origin=f"{reference} ({found.origin})")
