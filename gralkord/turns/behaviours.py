"""What an agent did in its turns, as it is told to the model that sums it up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import orjson

from gralkord.agents.profiles import strip_memory
from gralkord.agents.rules import DEFAULT_RULES
from gralkord.graph.passages import StoredPassage

Outcome = Literal["succeeded", "failed"]

# The name in a turn's metadata by which its producer says how it ended.
OUTCOME: Final = "outcome"
FAILED: Final = "request failed"
DID: Final = "(did)"

# Of what was said a prompt needs the subject; of what was done, how it began and how it ended.
WORDS_CHARS: Final = 800
STEP_CHARS: Final = 1_500
TURN_CHARS: Final = 6_000

_TOOL: Final = re.compile(r"tool (?P<name>[^(→\n]{1,128}?) *(?:\(|→|->|$)", re.MULTILINE)
_RESULT: Final = re.compile(r" *(?:→|->)(?! error\b).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A turn, as far as it tells what the agent did.

    Attributes:
        turn_id: The turn's id.
        agent: Who did it.
        when: When, UTC.
        lines: What was said and done, in order; what was done begins with `DID`.
        acted: Whether the agent did anything.
        outcome: How it ended, where somebody says so.
    """

    turn_id: str
    agent: str
    when: datetime
    lines: tuple[str, ...]
    acted: bool
    outcome: Outcome | None

    @property
    def chars(self) -> int:
        """Length of its lines."""
        return sum(map(len, self.lines))


def behaviours_of(passages: Sequence[StoredPassage]) -> list[Behaviour]:
    """Return the turns of *passages*, in order, with no memory in them that was recalled."""
    turns: dict[str, list[StoredPassage]] = {}
    for passage in passages:
        turns.setdefault(passage.turn_id, []).append(passage)
    return [_behaviour(turn) for turn in turns.values()]


def _behaviour(passages: Sequence[StoredPassage]) -> Behaviour:
    steps = [passage for passage in passages if passage.role == "behaviour"]
    texts: dict[int, str] = {}
    for passage in passages:
        texts[passage.ordinal] = texts.get(passage.ordinal, "") + passage.text
    first = {passage.ordinal: passage for passage in reversed(passages)}
    lines = []
    for ordinal, text in texts.items():
        passage = first[ordinal]
        bare = strip_memory(text).strip()
        if passage.role == "behaviour":
            lines.append(f"{DID} {_cut(_without_recalled(bare), STEP_CHARS)}")
        elif bare:
            lines.append(f"{passage.speaker}: {_cut(bare, WORDS_CHARS)}")
    doers = {passage.speaker for passage in steps}
    failed = any(step.text.startswith(FAILED) for step in steps if not step.part)
    return Behaviour(
        turn_id=passages[0].turn_id,
        agent=doers.pop() if len(doers) == 1 else passages[0].agent,
        when=max(passage.event_time for passage in passages),
        lines=tuple(_ends(lines)),
        acted=bool(steps),
        outcome=_outcome(passages[0].metadata) or ("failed" if failed else None),
    )


def _outcome(metadata: str | None) -> Outcome | None:
    said: Any = orjson.loads(metadata).get(OUTCOME) if metadata else None
    if said == "succeeded":
        return "succeeded"
    return "failed" if said == "failed" else None


def _without_recalled(step: str) -> str:
    """Return a step without what a tool has answered from memory."""
    tool = _TOOL.match(step)
    if tool is None or not DEFAULT_RULES.recalls(tool["name"].strip()):
        return step
    return _RESULT.sub("", step)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2].rstrip()} … {text[-(limit // 2) :].lstrip()}"


def _ends(lines: Sequence[str]) -> list[str]:
    """Return as many lines as there is room for, from both ends, and how many are left out."""
    first, last, size = 0, len(lines) - 1, 0
    head: list[str] = []
    tail: list[str] = []
    while first <= last:
        at_end = len(tail) <= len(head)
        line = lines[last] if at_end else lines[first]
        size += len(line)
        if size > TURN_CHARS:
            return [*head, f"… {last - first + 1} lines left out …", *reversed(tail)]
        if at_end:
            tail.append(line)
            last -= 1
        else:
            head.append(line)
            first += 1
    return [*head, *reversed(tail)]
