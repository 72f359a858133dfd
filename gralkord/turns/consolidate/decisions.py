"""What is done with candidates: pure functions over them and the memories that are near to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from gralkord.errors import MalformedOutput
from gralkord.graph.notes import FoundNote
from gralkord.graph.rows import FactRow
from gralkord.graph.sanitise import fold_name
from gralkord.turns.consolidate.candidates import Candidate

Action = Literal["add", "update", "forget", "noop"]

# Texts whose vectors are at least so near (cosine) say the same.
SAME: Final = 0.97
ENDING: Final = frozenset({"update", "forget"})


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done with a candidate.

    Attributes:
        action: What.
        candidate: The candidate.
        known: The memory that is ended by it, or that says it already.
        like: Instead, place of the candidate of the same batch that says it.
        reason: Why, for people.
    """

    action: Action
    candidate: Candidate
    known: FactRow | None = None
    like: int | None = None
    reason: str | None = None


def repeats(candidates: Sequence[Candidate], vectors: NDArray[np.float32] | None) -> dict[int, int]:
    """Return which candidates say the same as an earlier one: the place of that, by their own.

    Args:
        candidates: In their order.
        vectors: One row each, of length 1 or zero; with none, the words alone tell.
    """
    found: dict[int, int] = {}
    firsts: list[int] = []
    for at, candidate in enumerate(candidates):
        folded = fold_name(candidate.content)
        for first in firsts:
            near = vectors is not None and float(vectors[at] @ vectors[first]) >= SAME
            if near or fold_name(candidates[first].content) == folded:
                found[at] = first
                break
        else:
            firsts.append(at)
    return found


def decide(
    candidates: Sequence[Candidate],
    near: Sequence[Sequence[FoundNote]],
    *,
    by_words: bool = False,
) -> list[Decision]:
    """Return what is done where no model is asked: what is known is dropped, the rest is added.

    Args:
        candidates: In their order.
        near: For each the memories that are near to it.
        by_words: Only the same words are the same; else what is nearly the same is, too.
    """
    found = []
    for candidate, some in zip(candidates, near, strict=True):
        if (same := _says_it(candidate, some, by_words=by_words)) is not None:
            why = f"nearly the same is known ({same.score:.2f})" if same.score else "it is known"
            found.append(Decision("noop", candidate, same.row, reason=why))
        else:
            found.append(Decision("add", candidate, reason="nothing known is nearly the same"))
    return found


def _says_it(
    candidate: Candidate, near: Sequence[FoundNote], *, by_words: bool
) -> FoundNote | None:
    folded = fold_name(candidate.content)
    for one in near:
        if fold_name(one.row.fact) == folded or (one.score >= SAME and not by_words):
            return one
    return None


def read_decisions(
    answered: Sequence[Mapping[str, Any]],
    candidates: Sequence[Candidate],
    shown: Sequence[Mapping[int, FactRow]],
) -> list[Decision]:
    """Return what a model has decided, checked as a whole.

    The first decision about a candidate counts; one about no candidate is ignored.

    Args:
        answered: Its decisions.
        candidates: What they are about.
        shown: For each candidate the memories that it was shown with it, by their numbers.

    Raises:
        MalformedOutput: A candidate has no decision, or one about a memory that was not shown.
    """
    first: dict[int, Mapping[str, Any]] = {}
    for raw in answered:
        if 0 <= raw["index"] < len(candidates):
            first.setdefault(raw["index"], raw)
    ended: set[str] = set()
    found = []
    for at, candidate in enumerate(candidates):
        if at not in first:
            raise MalformedOutput(f"candidate {at} has no decision")
        decision = _read(first[at], at, candidate, shown[at])
        if (row := decision.known) is not None and decision.action in ENDING:
            if row.uuid in ended:
                decision = _again(decision)
            ended.add(row.uuid)
        found.append(decision)
    return found


def _read(
    raw: Mapping[str, Any], at: int, candidate: Candidate, shown: Mapping[int, FactRow]
) -> Decision:
    action, known = raw["action"], shown.get(raw["target"])
    reason = " ".join(str(raw["reason"]).split())[:500] or None
    if action == "add":
        return Decision(action, candidate, reason=reason)
    if known is None and action in ENDING:
        raise MalformedOutput(
            f"the target of candidate {at} must be one of {sorted(shown)}, not {raw['target']}"
        )
    return Decision(action, candidate, known, reason=reason)


def _again(decision: Decision) -> Decision:
    """Return what is left to do where another candidate has ended the memory already."""
    candidate, known = decision.candidate, decision.known
    if decision.action == "update":
        return Decision("add", candidate, reason="another takes that memory's place already")
    return Decision("noop", candidate, known, reason="it is ended already")
