"""Blocks between tags, and how they are cut out of a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# A block may have gone through JSON or HTML before it gets here.
_LT: Final = r"(?:<|&lt;|\\u003c)"
_GT: Final = r"(?:>|&gt;|\\u003e)"


@dataclass(frozen=True, slots=True)
class _Tag:
    """One tag of a text; `block` says that what follows an opening one is surely not prose."""

    start: int
    end: int
    closing: bool
    block: bool


def _surplus(tags: list[_Tag]) -> int:
    """Return how many more closing than opening tags there are from the first opening one on."""
    closing = [tag.closing for tag in tags]
    after = closing[closing.index(False) :] if False in closing else []
    return 2 * sum(after) - len(after)


class TagStripper:
    """Cuts blocks such as ``<tag …>…</tag>`` out of texts.

    Args:
        names: Regular expression of the tags' names.
    """

    def __init__(self, names: str) -> None:
        self._tag = re.compile(
            rf"{_LT}(?P<closing>\\?/)?(?:{names})(?![\w-])(?P<rest>[^<>]{{0,300}}?{_GT})?",
            re.IGNORECASE,
        )

    def strip(self, text: str) -> str:
        """Return *text* without any block, and without any tag that has no counterpart.

        A memory that says ``</tag>`` does not get out of its block, which ends at the last closing
        tag before the next opening one; if there are more closing than opening tags, at the last
        one. A block that is never closed was cut off, and ends with the text. A tag that is only
        spoken of, within a line, goes alone.
        """
        tags = [self._read(text, match) for match in self._tag.finditer(text)]
        last_closing = max((n for n, tag in enumerate(tags) if tag.closing), default=-1)
        broken_out = _surplus(tags) > 0
        kept: list[str] = []
        position = number = 0
        while number < len(tags):
            tag = tags[number]
            kept += [text[position : tag.start], "\n" if tag.block else " "]
            position = tag.end
            if not tag.closing and number < last_closing:
                number = last_closing if broken_out else self._end(tags, number)
                position = tags[number].end
            elif not tag.closing and tag.block:
                return "".join(kept)
            number += 1
        return "".join([*kept, text[position:]])

    @staticmethod
    def _read(text: str, match: re.Match[str]) -> _Tag:
        before = text[max(0, match.start() - 200) : match.start()]
        begins_line = not before.rpartition("\n")[2].strip()
        return _Tag(
            match.start(),
            match.end(),
            match["closing"] is not None,
            begins_line or "=" in (match["rest"] or ""),
        )

    @staticmethod
    def _end(tags: list[_Tag], opening: int) -> int:
        """Return the number of the tag that ends the block."""
        number = opening + 1
        while not tags[number].closing:
            number += 1
        while number + 1 < len(tags) and tags[number + 1].closing:
            number += 1
        return number
