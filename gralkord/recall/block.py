"""The memory block: what an agent reads of an answer, escaped and marked as untrusted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gralkord.models import Memory

OPEN: Final = '<gralkor-memory trust="untrusted">'
CLOSE: Final = "</gralkor-memory>"
NOTHING: Final = "No relevant memories found."

_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def memory_block(memories: Iterable[Memory]) -> str:
    """Return the block that shows *memories*, one a line, in their order."""
    lines = [_line(memory) for memory in memories] or [NOTHING]
    return "\n".join((OPEN, *lines, CLOSE))


def _line(memory: Memory) -> str:
    moment = memory.valid_at or memory.event_time
    date = f"[{_flat(moment[:10])}] " if moment else ""
    speaker = f"{_flat(memory.speaker)}: " if memory.speaker else ""
    return f"- {date}{_ended(memory)}{speaker}{_flat(memory.text)}"


def _ended(memory: Memory) -> str:
    """Return what tells a reader that a memory does not hold any more."""
    if not memory.invalidated:
        return ""
    since = f" since {_flat(memory.invalid_at[:10])}" if memory.invalid_at else ""
    return f"(invalid{since}) "


def _flat(text: str) -> str:
    """Return *text* on one line and without markup, whatever it holds."""
    return " ".join(text.split()).translate(_ESCAPES)
