"""What the commands print, and the exit codes they end with.

Memory contents are untrusted: no character of theirs may move the cursor of a terminal, colour it,
or turn the text around.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from gralkord.errors import (
    BackendUnavailable,
    ConfigError,
    Forbidden,
    GralkorError,
    InvalidInput,
    NoModel,
    NotFound,
    QueueFull,
    RateLimited,
    SessionConflict,
    TooMany,
    Unauthorized,
    UnknownLens,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import RenderableType

OK: Final = 0
FAILURE: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
NOT_FOUND: Final = 4
REFUSED: Final = 5
INTERRUPTED: Final = 130

EXIT_CODES: Final[Mapping[int, str]] = {
    OK: "done",
    FAILURE: "failed, or not done in time",
    USAGE: "the command line or the configuration is wrong",
    UNREACHABLE: "the daemon, or a server that it needs, cannot be reached",
    NOT_FOUND: "there is nothing of that name",
    REFUSED: "the daemon refuses the request",
    INTERRUPTED: "interrupted",
}

_BY_ERROR: Final[dict[type[GralkorError], int]] = {
    GralkorError: FAILURE,
    ConfigError: USAGE,
    BackendUnavailable: UNREACHABLE,
    NotFound: NOT_FOUND,
    InvalidInput: REFUSED,
    SessionConflict: REFUSED,
    UnknownLens: REFUSED,
    Unauthorized: REFUSED,
    Forbidden: REFUSED,
    NoModel: REFUSED,
    QueueFull: REFUSED,
    RateLimited: REFUSED,
    TooMany: REFUSED,
}

# C0, DEL and C1 command a terminal; the bidirectional controls and the line separators change what
# stands where; lone surrogates cannot be written at all.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BREAKS = re.compile("[\t\n]")


def printable(text: str, *, one_line: bool = False) -> str:
    r"""Return *text* with every character that commands a terminal written as an escape.

    Args:
        text: Untrusted text.
        one_line: Whether to write tabs and line feeds as ``\t`` and ``\n`` too.
    """
    text = _UNSAFE.sub(_escape, text)
    return _BREAKS.sub(_escape, text) if one_line else text


def exit_code(error: GralkorError) -> int:
    """Return the exit code of a command that failed with *error*."""
    return next(_BY_ERROR[kind] for kind in type(error).__mro__ if kind in _BY_ERROR)


def emit(content: Any) -> None:
    """Print *content* as one JSON object on one line."""
    text = json.dumps(content, ensure_ascii=False, default=str)
    # Outside its strings JSON has none of these characters.
    print(_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))  # noqa: T201


def say(line: str = "") -> None:
    """Print a line for people."""
    print(line)  # noqa: T201


def complain(error: GralkorError, *, as_json: bool) -> int:
    """Print *error* where it belongs; return the exit code.

    Args:
        error: What went wrong.
        as_json: Whether the output is for a machine: then errors stand on standard output too.
    """
    if as_json:
        emit({"error": error.to_dict()})
    else:
        _err(f"error: {error.message}")
        if error.hint:
            _err(f"  hint: {error.hint}")
    return exit_code(error)


def complain_of_usage(message: str, usage: str | None, *, as_json: bool) -> None:
    """Print that the command line is wrong.

    Args:
        message: What is wrong with it.
        usage: How it is meant.
        as_json: Whether the output is for a machine.
    """
    if as_json:
        emit({"error": {"code": "usage", "message": message, "retry": False}})
        return
    if usage:
        _err(usage)
    _err(f"error: {message}")


def on_terminal() -> bool:
    """Return whether a person reads standard output."""
    return sys.stdout.isatty()


def draw(renderable: RenderableType) -> None:
    """Print something of rich's."""
    from rich.console import Console

    Console().print(renderable)


def tree_lines(content: Mapping[str, Any], indent: str = "") -> Iterable[str]:
    """Yield nested values as indented ``name: value`` lines."""
    for name, value in content.items():
        label = f"{indent}{printable(str(name), one_line=True)}:"
        if isinstance(value, dict) and value:
            yield label
            yield from tree_lines(value, indent + "  ")
        elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
            for place, one in enumerate(value):
                yield from tree_lines({f"{name}[{place}]": one}, indent)
        else:
            yield f"{label} {printable(_plain(value), one_line=True)}"


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | dict):
        return ", ".join(str(one) for one in value) or "-"
    return str(value)


def _err(line: str) -> None:
    print(printable(line), file=sys.stderr)  # noqa: T201


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    named = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    code = ord(character)
    return named.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
