"""How the scripted model finds its way in a prompt: the parts between tags."""

from __future__ import annotations

import ast
import json
import re
from datetime import UTC, datetime
from typing import Any, Final

_SCHEMA_AHEAD: Final = re.compile(r"in the following format:\s*")


class Prompt:
    """The text of a request, read by its tags."""

    def __init__(self, text: str) -> None:
        self.text = text

    def part(self, *names: str) -> str | None:
        """Return what stands between the tags of the first of *names* that is there.

        The last closing tag counts, because the part may hold anything people say.
        """
        for name in names:
            found = re.search(rf"<{name}>[ \t]*\n(.*)\n[ \t]*</{name}>", self.text, re.DOTALL)
            if found:
                return found[1].strip()
        return None

    def literal(self, *names: str) -> Any:
        """Return a part that is JSON or was printed by Python; None if there is none."""
        return read_literal(self.part(*names) or "")

    def moment(self, *names: str) -> datetime | None:
        """Return a part that is a time, in UTC; None if it is not."""
        return read_moment(self.part(*names) or "")

    def spoken(self, *names: str) -> list[str]:
        """Return the texts of a part with one JSON value a line: earlier episodes first."""
        return _texts(self.part(*names) or "")

    def listed_after(self, label: str) -> list[str]:
        """Return the texts of the JSON values on the lines after the last *label*."""
        return _texts(self.text.rpartition(label)[2])


def _texts(lines: str) -> list[str]:
    texts: list[str] = []
    for line in lines.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        for item in value if isinstance(value, list) else [value]:
            text = item.get("content") if isinstance(item, dict) else item
            if isinstance(text, str):
                texts.append(text)
    return texts


def read_literal(text: str) -> Any:
    """Return the value that *text* is in JSON or in Python; None if it is neither."""
    try:
        return json.loads(text, strict=False)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def read_moment(text: str) -> datetime | None:
    """Return the ISO time at the start of *text*, in UTC; None if there is none."""
    try:
        moment = datetime.fromisoformat(text.split("#", maxsplit=1)[0].strip())
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)


def schema_in(text: str) -> dict[str, Any] | None:
    """Return the JSON schema that a prompt spells out, if it does."""
    for ahead in reversed(list(_SCHEMA_AHEAD.finditer(text))):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, ahead.end())
        except ValueError:
            continue
        if isinstance(value, dict) and "properties" in value:
            return value
    return None
