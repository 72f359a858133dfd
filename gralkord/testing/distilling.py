"""How the scripted model sums up what an agent did, and what it learns from that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gralkord.testing.prompts import Prompt

Json = dict[str, Any]

_DID: Final = "(did) "
_TOOL: Final = re.compile(r"tool ([^\s(→]+)[^→]*(?:→ (error)?)?")
_WORDS: Final = 6


def distilled_turns(prompt: Prompt) -> Json:
    """Answer what an agent did in turns, and what it learned in each.

    It is the tools that it used, or else that it thought, and whether it failed. What was learned
    is of the kind of the first words that it was told.
    """
    return {"turns": [_turn(turn) for turn in prompt.literal("TURNS") or ()]}


def _turn(turn: Json) -> Json:
    steps = [line.removeprefix(_DID) for line in turn["lines"] if line.startswith(_DID)]
    said = [line for line in turn["lines"] if not line.startswith(_DID)]
    entry: Json = {"turn": turn["turn"]}
    if "behaviour" in turn["wanted"]:
        entry["behaviour"] = _told(steps)
    if "learning" in turn["wanted"]:
        entry["learning"] = _learned(turn, steps, said)
    return entry


def _told(steps: Sequence[str]) -> str:
    tools = [tool for step in steps if (tool := _TOOL.match(step))]
    used = [f"{tool[1]}, which failed" if tool[2] else tool[1] for tool in tools]
    told = f"I used {' and then '.join(used)}." if used else "I thought about it."
    return f"{told} In the end I failed." if _failed(steps) else told


def _learned(turn: Json, steps: Sequence[str], said: Sequence[str]) -> Json | None:
    """Return what was learned; nothing where nothing was said and nothing was done."""
    if not (steps or said):
        return None
    success = not _failed(steps) if turn.get("outcome") is None else turn["outcome"] == "succeeded"
    words = (said[0].partition(": ")[2] if said else "an agent at work").split()
    advice = "Do the same" if success else "Try something else"
    return {
        "problem_kind": " ".join(words[:_WORDS]).rstrip(".?!"),
        "approach": _told(steps) if steps else "I answered at once.",
        "success": success,
        "lesson": f"{advice} the next time.",
    }


def _failed(steps: Sequence[str]) -> bool:
    return any(step.startswith("request failed") for step in steps)
