"""What others have written, in a prompt: between tags that nothing in it can close."""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

# As the tags of prompts are written. Markup in small letters is no tag of theirs.
_TAG: Final = re.compile(r"<(?=\s*/?\s*[A-Z][A-Z_ ]{3,}>)")


def quoted(value: Any) -> str:
    """Return a value as JSON in which nothing opens or closes a tag."""
    return tagless(orjson.dumps(value).decode())


def tagless(json: str) -> str:
    """Return the same JSON without a character that could open or close a tag."""
    return json.replace("<", "\\u003c")


def untagged(text: str) -> str:
    """Return a text that stands in a prompt as it is, so that nothing in it is one of its tags."""
    return _TAG.sub("&lt;", text)
