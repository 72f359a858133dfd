"""Ingestion processes of the user's own, found by the names in the settings."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, cast

from gralkord.errors import ConfigError

if TYPE_CHECKING:
    from gralkord.lenses.process import OwnProcess

# What a process is given: a request and a store.
ARGUMENTS = 2


def load_process(reference: str) -> OwnProcess:
    """Return the process that ``package.module:function`` names.

    Raises:
        ConfigError: There is none, or it cannot be called with a request and a store.
    """
    module, _, name = reference.partition(":")
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"{reference}: {module} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:  # whatever stands in it is run
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{reference}: {module} cannot be imported: {said}") from error
    try:
        found = getattr(imported, name)
    except AttributeError as error:
        raise ConfigError(f"{reference}: {module} has no {name}") from error
    if not callable(found) or inspect.isclass(found):
        raise ConfigError(f"{reference}: is no function")
    if any(_yields(each) for each in (found, cast("Any", type(found)).__call__)):
        raise ConfigError(f"{reference}: has a `yield`, so a call of it would do nothing")
    try:
        inspect.signature(found).bind(*range(ARGUMENTS))
    except TypeError as error:
        raise ConfigError(
            f"{reference}: cannot be called with a request and a store: {error}"
        ) from error
    return cast("OwnProcess", found)


def _yields(call: Any) -> bool:
    return inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call)
