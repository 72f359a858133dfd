"""The memory block: what an agent reads of an answer, escaped and marked as untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from gralkord.models import Memory
from gralkord.models.recall import Tier

OPEN: Final = '<gralkor-memory trust="untrusted">'
CLOSE: Final = "</gralkor-memory>"
NOTHING: Final = "No relevant memories found."

_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
# What a learning has besides its text, in the order in which it is read.
_OF_LEARNING: Final = {"problem_kind": "problem", "approach": "approach", "lesson": "lesson"}


def memory_block(
    memories: Iterable[Memory],
    tier: Tier | None = None,
    *,
    by_lens: bool = False,
    nothing: str = NOTHING,
) -> str:
    """Return the block that shows *memories*, one a line, in their order.

    Args:
        memories: What was found.
        tier: The level of detail that they were cut to.
        by_lens: Whether they come lens by lens, and stand under the lenses' names.
        nothing: What the block says if there are none.
    """
    if by_lens:
        return _block(_by_lens(memories, tier), nothing)
    return _block([_line(memory, tier) for memory in memories], nothing)


def _by_lens(memories: Iterable[Memory], tier: Tier | None) -> list[str]:
    lines: list[str] = []
    for lens, some in groupby(memories, key=lambda memory: memory.lens):
        lines += [f"From {_flat(lens)}:", *(_line(memory, tier) for memory in some)]
    return lines


def _block(lines: Sequence[str], nothing: str = NOTHING) -> str:
    return "\n".join((OPEN, *(lines or [nothing]), CLOSE))


def _line(memory: Memory, tier: Tier | None = None) -> str:
    if tier == 1:
        place = f"{memory.source}#{memory.offset}" if memory.offset else memory.source
        return f"- {memory.id} {memory.score:.2f}{f' {_flat(place)}' if place else ''}"
    if tier is not None and "\u2026" in {memory.text[:1], memory.text[-1:]}:  # it was cut
        return f"{_line(memory)} ({memory.id})"
    moment = memory.valid_at or memory.event_time
    date = f"[{_flat(moment[:10])}] " if moment else ""
    speaker = f"{_flat(memory.speaker)}: " if memory.speaker else ""
    text = _parts(memory.text) if memory.kind == "learning" else _flat(memory.text)
    said = f"{speaker}{text}{_untold(memory)}{_relevance(memory)}"
    return f"- {date}{_kind(memory)}{_ended(memory)}{said}"


def _kind(memory: Memory) -> str:
    """Return what tells a reader what a note is; passages and facts speak for themselves."""
    known, more = memory.attributes, ""
    if memory.kind in {"passage", "fact"}:
        return ""
    if memory.kind == "learning" and isinstance(known.get("success"), bool):
        more = "succeeded" if known["success"] else "failed"
    elif memory.kind == "generalisation" and isinstance(known.get("confidence"), float):
        more = f"confidence {known['confidence']:.2f}"
    elif memory.kind == "memory" and isinstance(known.get("memory_kind"), str):
        more = _flat(known["memory_kind"])
    return f"({memory.kind}, {more}) " if more else f"({memory.kind}) "


def _untold(memory: Memory) -> str:
    """Return what a learning teaches, where its text does not say it already."""
    if memory.kind != "learning":
        return ""
    text = " ".join(memory.text.split())
    parts = [
        f"{name}: {_flat(value)}"
        for key, name in _OF_LEARNING.items()
        if isinstance(value := memory.attributes.get(key), str)
        and value.strip()
        and " ".join(value.split()) not in text
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def _relevance(memory: Memory) -> str:
    """Return in what way it helps, where a model has said so."""
    return f" (relevant: {_flat(memory.relevance)})" if memory.relevance else ""


def _parts(text: str) -> str:
    """Return a text whose lines are its parts on one line, all but the last without a full stop."""
    lines = [flat for line in text.splitlines() if (flat := _flat(line))]
    return "; ".join([*(line.rstrip(".") for line in lines[:-1]), *lines[-1:]])


def _ended(memory: Memory) -> str:
    """Return what tells a reader that a memory does not hold any more."""
    if not memory.invalidated:
        return ""
    since = f" since {_flat(memory.invalid_at[:10])}" if memory.invalid_at else ""
    return f"(invalid{since}) "


def _flat(text: str) -> str:
    """Return *text* on one line and without markup, whatever it holds."""
    return " ".join(text.split()).translate(_ESCAPES)
