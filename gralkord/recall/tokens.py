"""How many tokens a text takes: estimated, or counted by a function that the settings name."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any, Final

from gralkord.errors import ConfigError

Counter = Callable[[str], int]

CHARS_OF_A_TOKEN: Final = 4
# Of what is neither ASCII nor one of the scripts below, such as Cyrillic or Arabic.
OTHER_CHARS_OF_A_TOKEN: Final = 2
# Chinese, Japanese and Korean, full-width forms, and pictures: a token each.
_WIDE: Final = re.compile(
    "[\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
    "\U0001f000-\U0003ffff]"
)


def estimate(text: str) -> int:
    """Return about how many tokens a text takes, rather too many than too few."""
    if text.isascii():
        return -(-len(text) // CHARS_OF_A_TOKEN)
    plain = len(text.encode("ascii", "ignore"))
    wide = sum(map(len, _WIDE.findall(text)))
    others = len(text) - plain - wide
    return wide - (-plain // CHARS_OF_A_TOKEN) - (-others // OTHER_CHARS_OF_A_TOKEN)


def load_counter(reference: str | None) -> Counter | None:
    """Return the function that ``package.module:function`` names; None if nothing is named.

    Raises:
        ConfigError: There is none, or it does not count the tokens of a text.
    """
    if reference is None:
        return None
    module, _, name = reference.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
        count = checked(found("a text"))
    except (Exception, SystemExit) as error:  # whatever stands in it is run
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"recall.token_counter: {reference[:128]} counts no tokens: {said}",
            field="recall.token_counter",
        ) from error
    if not count:
        raise ConfigError(
            f"recall.token_counter: {reference[:128]} counts 0 tokens in a text",
            field="recall.token_counter",
        )
    counter: Counter = found
    return counter


def checked(count: Any) -> int:
    """Return what a counter has counted.

    Raises:
        ValueError: It is no number of tokens.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(f"{count!r:.64} is no number of tokens")
    return count
