"""A turn within its limits: words are never cut, steps of an agent may be left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gralkord.errors import InvalidInput
from gralkord.models import MAX_MESSAGES, MAX_TURN_BYTES, Message

_HINT: Final = "capture it in parts, or split a whole conversation with turns_of"
_NOTICE_BYTES: Final = 64


def fit(messages: Sequence[Message]) -> list[Message]:
    """Return *messages* with as many behaviours as a turn has room for.

    The first and the last are kept, those in the middle are replaced by one that says how many
    they were.

    Raises:
        InvalidInput: The words of users and agent alone do not fit.
    """
    sizes = [len(message.content.encode()) for message in messages]
    if len(messages) <= MAX_MESSAGES and sum(sizes) <= MAX_TURN_BYTES:
        return list(messages)
    words = [n for n, message in enumerate(messages) if message.role != "behaviour"]
    room, size = MAX_MESSAGES - len(words), MAX_TURN_BYTES - sum(sizes[n] for n in words)
    if room < 0:
        raise InvalidInput(
            f"turn: {len(words)} messages of users and the agent, the limit is {MAX_MESSAGES}",
            field="turn",
            limit=MAX_MESSAGES,
            hint=_HINT,
        )
    if size < 0:
        raise InvalidInput(
            f"turn: {MAX_TURN_BYTES - size} bytes of text, the limit is {MAX_TURN_BYTES} bytes",
            field="turn",
            limit=MAX_TURN_BYTES,
            hint=_HINT,
        )
    steps = [n for n, message in enumerate(messages) if message.role == "behaviour"]
    kept = _ends(steps, sizes, room - 1, size - _NOTICE_BYTES)
    left_out = [n for n in steps if n not in kept]
    found = []
    for number, message in enumerate(messages):
        if number in kept or message.role != "behaviour":
            found.append(message)
        elif number == left_out[0] and room and size >= _NOTICE_BYTES:
            text = f"… {len(left_out)} steps left out …"
            found.append(Message(role="behaviour", content=text))
    return found


def _ends(steps: Sequence[int], sizes: Sequence[int], room: int, size: int) -> set[int]:
    """Return the steps to keep, taken from both ends, the last first.

    Args:
        steps: Numbers of the steps.
        sizes: Bytes of each message.
        room: How many may be kept.
        size: How many bytes.
    """
    kept: set[int] = set()
    first, last = 0, len(steps) - 1
    while first <= last and len(kept) < room:
        at_end = len(kept) % 2 == 0
        step = steps[last] if at_end else steps[first]
        size -= sizes[step]
        if size < 0:
            break
        kept.add(step)
        first, last = (first, last - 1) if at_end else (first + 1, last)
    return kept
