"""What one search has found so far: rows of its groups that may be returned, and memories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import structlog

from gralkord.graph.cache import GroupCache
from gralkord.graph.drafts import NOTE_KINDS, NoteKind
from gralkord.graph.rows import FactRow, PassageRow
from gralkord.graph.scope import Scope
from gralkord.graph.validity import View
from gralkord.groups import Group
from gralkord.models import Memory
from gralkord.models.recall import MemoryKind
from gralkord.recall.arms import FactArms, Flags, Numbers, PassageArms
from gralkord.recall.described import memory_of
from gralkord.recall.duplicates import Candidate
from gralkord.recall.fusion import NEAR, Fused
from gralkord.recall.top import best
from gralkord.recall.unflushed import Unflushed

log = structlog.get_logger(__name__)

# The kinds that do not compete with what was said: they have shares of an answer of their own.
OWN: Final = ("learning", "generalisation")
# The arm that each kind of note comes by.
NOTE_ARMS: Final[dict[NoteKind, str]] = {
    "learning": "learnings",
    "generalisation": "generalisations",
    "memory": "memories",
}
# What a note may hold that cannot be shown.
_UNREADABLE: Final = (ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Searched:
    """A group that is searched.

    Attributes:
        group: The group.
        cache: What is known of it.
        vector: The question's vector, shape (d,); None where that would be of no use.
        kinds: What is looked for in it; None: everything.
        limit: How many memories of it at most; None: any number.
        scope: What a memory of it must fit; None: anything.
        unflushed: What is not returned, because whoever asks has just heard it.
    """

    group: Group
    cache: GroupCache
    vector: Numbers | None
    kinds: Collection[MemoryKind] | None = None
    limit: int | None = None
    scope: Scope | None = None
    unflushed: Unflushed | None = None


class Finding:
    """One search under way.

    Attributes:
        missing: The arms that could not be looked at.
    """

    def __init__(
        self,
        groups: Sequence[Searched],
        passages: Sequence[PassageArms],
        facts: Sequence[FactArms],
        fused: Fused,
        view: View,
    ) -> None:
        self._groups = groups
        self._passages = passages
        self._facts = facts
        self._fused = fused
        self._view = view
        self.missing: set[str] = set()

    def candidates(self, count: int, own: int, in_time: Callable[[], bool]) -> Iterator[Candidate]:
        """Yield the best rows of each kind and group.

        Args:
            count: How many at most.
            own: How many of each kind that has a share of its own.
            in_time: Whether there is still time to look at notes.
        """
        for place, each in enumerate(self._groups):
            table, scores = each.cache.passages, self._fused.passages[place]
            for number in best(scores, count, table.uuid):
                arms = _arms_of_passage(self._passages[place], number)
                yield self._candidate(place, table.row(number), float(scores[number]), arms)
            notes = self._facts[place].notes
            yield from self._told(place, count, None if notes is None else notes == 0)
        for number, kind in enumerate(NOTE_KINDS, 1):
            most = own if kind in OWN else count
            yield from self._of_kind(number, NOTE_ARMS[kind], most, in_time)

    def _of_kind(
        self, number: int, arm: str, count: int, in_time: Callable[[], bool]
    ) -> Iterator[Candidate]:
        """Yield the notes of one kind; when that fails there are none, and what was said stays."""
        some = [
            (place, arms.notes == number)
            for place, arms in enumerate(self._facts)
            if arms.notes is not None
        ]
        if not any(mask.any() for _, mask in some):
            return
        if not in_time():
            self.missing.add(arm)
            return
        try:
            found = [each for place, mask in some for each in self._told(place, count, mask, arm)]
        except _UNREADABLE as error:
            self._failed({arm}, error)
            return
        yield from found

    def _told(self, place: int, count: int, mask: Flags | None, *more: str) -> Iterator[Candidate]:
        table, scores = self._groups[place].cache.facts, self._fused.facts[place]
        if mask is not None:
            scores = np.where(mask, scores, np.float32(-np.inf))
        for number in best(scores, count, table.uuid):
            arms = _arms_of_fact(self._facts[place], number, more)
            yield self._candidate(place, table.row(number), float(scores[number]), arms)

    def _candidate(
        self, place: int, row: PassageRow | FactRow, score: float, arms: frozenset[str]
    ) -> Candidate:
        # Unless asked for there is nothing among them that has ended.
        ended = self._view.include_invalidated and self._groups[place].cache.ending(
            row, self._view
        ).hides(self._view)
        return Candidate(place, row, score, arms, ended=ended)

    def memories(self, kept: Sequence[Candidate]) -> Iterator[Memory]:
        """Yield the memories that candidates are; a note that is none is left out."""
        chances = self._fused.probabilities([each.score for each in kept])
        for each, chance in zip(kept, chances, strict=True):
            try:
                memory = self._memory(each, chance)
            except _UNREADABLE as error:
                arms = each.arms & set(NOTE_ARMS.values())
                if not arms:
                    raise
                self._failed(arms, error)
            else:
                yield memory

    def _memory(self, candidate: Candidate, chance: float) -> Memory:
        where = self._groups[candidate.group]
        return memory_of(
            candidate.row,
            where.cache.ending(candidate.row, self._view),
            self._view,
            lens=where.group.lens or where.group.scope,
            score=chance,
            arms=candidate.arms,
            passages=candidate.passages,
        )

    def _failed(self, arms: Collection[str], error: Exception) -> None:
        self.missing.update(arms)
        log.warning("recall_without_notes", arms=sorted(arms), reason=type(error).__name__)


def _arms_of_passage(arms: PassageArms, number: int) -> frozenset[str]:
    found = set()
    if arms.turn[number] > 0:
        found.add("lexical")
    elif arms.two[number] > 0:
        found.add("neighbours")
    if arms.cosine is not None and arms.cosine[number] >= NEAR:
        found.add("vector")
    if arms.period is not None and arms.period[number] > 0:
        found.add("time")
    return frozenset(found)


def _arms_of_fact(arms: FactArms, number: int, more: Sequence[str]) -> frozenset[str]:
    found = set(more)
    if arms.words[number] > 0:
        found.add("lexical")
    if arms.cosine is not None and arms.cosine[number] >= NEAR:
        found.add("vector")
    if arms.period is not None and arms.period[number] > 0:
        found.add("time")
    return frozenset(found)
