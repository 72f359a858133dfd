"""What an agent has learned in a turn, as a note."""

from __future__ import annotations

import re
from typing import Final

from gralkord.agents.profiles import strip_memory
from gralkord.graph.drafts import Note, note_uuid
from gralkord.turns.behaviours import Behaviour
from gralkord.turns.ingestion.distil import Lesson

KIND_CHARS: Final = 120
TEXT_CHARS: Final = 600

# What worked is found before what did not: the word stands in no other text.
_WORKED: Final = re.compile(r"\bsucceeded\b", re.IGNORECASE)


def learning(group: str, episode: str, turn: Behaviour, said: Lesson) -> Note | None:
    """Return the note of a lesson; none if a part of it is blank.

    Args:
        group: The group id.
        episode: Uuid of the episode that the turn becomes part of.
        turn: The turn that taught it. Where it tells how it ended, that is so.
        said: The lesson.
    """
    kind = one_line(said.problem_kind, KIND_CHARS)
    approach, lesson = one_line(said.approach, TEXT_CHARS), one_line(said.lesson, TEXT_CHARS)
    if not (kind and approach and lesson):
        return None
    success = said.success if turn.outcome is None else turn.outcome == "succeeded"
    return Note(
        uuid=note_uuid(group, episode, turn.turn_id),
        kind="learning",
        title=kind,
        text=_text(kind, approach, lesson, success=success),
        since=turn.when,
        attributes={
            "problem_kind": kind,
            "approach": approach,
            "success": success,
            "lesson": lesson,
            "turn": turn.turn_id,
        },
    )


def one_line(text: str, limit: int) -> str:
    """Return what a model wrote in one line, without recalled memory, cut at *limit* characters."""
    line = " ".join(strip_memory(text).split())
    return line if len(line) <= limit else f"{line[: limit - 2].rstrip()} …"


def _text(kind: str, approach: str, lesson: str, *, success: bool) -> str:
    lines = (
        f"Problem: {kind}",
        f"Approach: {approach}",
        f"Outcome: {'it succeeded' if success else 'it did not work'}",
        f"Lesson: {lesson}",
    )
    text = "\n".join(lines)
    return text if success else _WORKED.sub("worked", text)
