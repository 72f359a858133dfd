"""Long texts are cut into pieces, at places where a reader would pause."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# Where a long text may be cut, the best place first: paragraph, line, sentence, word.
_CUTS: Final = (
    re.compile(r"\n\s*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?…。]\s+"),
    re.compile(r"\s+"),
)
# The place in front of a heading of Markdown.
_HEADING: Final = re.compile(r"(?m)^(?=#{1,6} )")


def pieces(text: str, limit: int, *, headings: bool = False) -> Iterator[str]:
    """Yield *text* in pieces of at most *limit* characters that together are the whole text.

    Cut at the last paragraph, line, sentence or word end in the second half of a piece; a run
    without any is cut at the limit.

    Args:
        text: The text.
        limit: Most characters of a piece.
        headings: Whether a piece rather begins with a heading than with any other paragraph.
    """
    cuts = (_HEADING, *_CUTS) if headings else _CUTS
    start = 0
    while len(text) - start > limit:
        end = start + limit
        for cut in cuts:
            ends = [match.end() for match in cut.finditer(text, start + limit // 2, end)]
            if ends:
                end = ends[-1]
                break
        yield text[start:end]
        start = end
    yield text[start:]
