"""The JSON in what a language model wrote, with the slips that models make."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_THINKING: Final = re.compile(
    r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE
)
# Some chat templates put the opening tag into the prompt, so only the closing one is seen.
_THINKING_TAIL: Final = re.compile(r"\A.*</(think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_FENCE: Final = re.compile(r"```[\w-]*\s*\n?(.*?)```", re.DOTALL)
# Where an object may begin: at the first brace, and at the beginnings of lines.
_FIRST: Final = re.compile(r"\{")
_LINE: Final = re.compile(r"^\{", re.MULTILINE)
# An object that was begun: after it breaks off, what follows may be a part of it.
_BEGUN: Final = re.compile(r"\{\s*([\"'}{\[]|//|/\*)")
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_QUOTED: Final = r"'(?:[^'\\]|\\.)*'"
_SLIPS: Final = re.compile(
    rf"({_STRING})|(?P<quoted>{_QUOTED})|//[^\n]*|/\*.*?\*/|"
    r"\b(?P<word>True|False|None)\b|,(?=\s*[}\]])",
    re.DOTALL,
)
_QUOTES: Final = {"\\'": "'", '"': '\\"'}
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_MARKS: Final = "\ufeff\u200b\u2060"

Json = dict[str, Any]


class _TwiceError(ValueError):
    """An object names a field twice, with different values."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> Json:
    result: Json = {}
    for name, value in pairs:
        if name in result and result[name] != value:
            raise _TwiceError(name)
        result[name] = value
    return result


def _no_number(written: str) -> Any:
    raise _TwiceError(written)  # NaN and Infinity are no values of ours


# Lenient, because weak models write line breaks inside strings.
_DECODER: Final = json.JSONDecoder(
    strict=False, object_pairs_hook=_without_repeats, parse_constant=_no_number
)


def readings(text: str) -> Iterator[list[Json | list[Any]]]:
    """Yield the ways to read *text*, likeliest first: each is the objects and lists it then holds.

    Untouched first: "<think>" may stand in a remembered text. Then without thinking aloud, then
    what stands in code fences, then what begins in the midst of words.
    """
    text = text.strip().strip(_MARKS).strip()
    yield _alone(text)
    spoken = _THINKING_TAIL.sub("", _THINKING.sub("", text)).strip()
    yield _alone(spoken)
    yield [value for block in _FENCE.findall(spoken) for value in values_in(block.strip())]
    yield values_in(spoken)


def _alone(text: str) -> list[Json | list[Any]]:
    value = _whole(text)
    return [] if value is None else [value]


def values_in(block: str) -> list[Json | list[Any]]:
    """Return the JSON objects and lists in *block*: the block itself, or what begins in it.

    An object inside a broken one is never among them, and none beside it: a list of facts that
    breaks off must not read as a short one, and the broken one may have been the answer.
    """
    whole = _whole(block)
    if whole is not None:
        return [whole]
    found: list[Json | list[Any]] = []
    starts = _FIRST.search(block)
    while starts is not None:
        value, end = _read(block, starts.start())
        if value is not None:
            found.append(value)
            starts = _BEGUN.search(block, end)
        elif _BEGUN.match(block, starts.start()):
            return []
        else:
            starts = _LINE.search(block, starts.end())
    return found


def _whole(block: str) -> Json | list[Any] | None:
    """Return the value that *block* is, if it is one from its first to its last character."""
    for text in (block, _mended(block)):
        try:
            value = _DECODER.decode(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, str):  # JSON that was written as a text
            return _whole(value.strip()) if value.strip().startswith(("{", "[")) else None
        return value if isinstance(value, dict | list) else None
    return None


def _read(block: str, start: int) -> tuple[Json | None, int]:
    """Return the object that begins at *start*, and where it ends; None if there is none."""
    try:
        value, end = _DECODER.raw_decode(block, start)
    except (ValueError, RecursionError):
        pass
    else:
        return (value if isinstance(value, dict) else None), end
    try:
        # Slips are mended to the end of the block: where the object ends is not known yet.
        value, end = _DECODER.raw_decode(_mended(block[start:]))
    except (ValueError, RecursionError):
        return None, start
    return (value if isinstance(value, dict) else None), len(block)


def _mended(text: str) -> str:
    """Return *text* without comments, commas before a bracket, Python's words and quotes."""
    return _SLIPS.sub(_mend, text)


def _mend(found: re.Match[str]) -> str:
    if found[1] is not None:
        return found[1]
    if (quoted := found["quoted"]) is not None:
        inner = re.sub(r"\\.|\"", lambda mark: _QUOTES.get(mark[0], mark[0]), quoted[1:-1])
        return f'"{inner}"'
    return _WORDS[found["word"]] if found["word"] else ""
