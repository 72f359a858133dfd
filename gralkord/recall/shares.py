"""Who gets a place in an answer: learnings and generalisations have shares of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gralkord.recall.described import kind_of
from gralkord.recall.duplicates import Candidate, Collapser, Room
from gralkord.recall.finding import OWN

# With less room the best are taken, of whatever kind.
SHARED_FROM: Final = 3


@dataclass(frozen=True, slots=True)
class Shares:
    """How the room of an answer is shared out.

    Attributes:
        limit: How many results at most.
        own: How many at most of each kind that has its own share.
        caps: How many at most from each group, in their order; None: any number.
    """

    limit: int
    own: int
    caps: Sequence[int | None]

    @classmethod
    def of(cls, limit: int, caps: Sequence[int | None], kinds: Iterable[str] | None) -> Shares:
        """Return the shares of an answer.

        Args:
            limit: How many results at most.
            caps: How many at most from each group.
            kinds: What is asked for; None: everything.
        """
        # Where nothing else is asked for they need not leave room for it.
        alone = kinds is not None and set(kinds) <= set(OWN)
        return cls(limit, limit if alone else max(limit // 3, 1), caps)

    def choose(self, collapser: Collapser, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return who gets a place, best first, each thing once."""
        by_kind: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            kind: str = kind_of(candidate.row)
            by_kind.setdefault(kind if kind in OWN else "", []).append(candidate)
        collapser.begin()
        own: list[Candidate] = []
        for kind in OWN:
            room = Room(self.own, self.caps)
            own += collapser.distinct(by_kind.get(kind, ()), room)
        main = collapser.collapse(by_kind.get("", ()), Room(self.limit, self.caps))
        return self._places(own, main) if own else main

    def _places(self, own: Sequence[Candidate], main: Sequence[Candidate]) -> list[Candidate]:
        room = Room(len(own) + len(main), self.caps)
        ranked = [each for each in _ranked(own, main) if room.take(each.group)]
        if self.limit < SHARED_FROM:
            return ranked[: self.limit]
        notes = [each for each in ranked if kind_of(each.row) in OWN]
        others = [each for each in ranked if kind_of(each.row) not in OWN]
        return _ranked(notes, others[: max(0, self.limit - len(notes))])[: self.limit]


def _ranked(some: Sequence[Candidate], others: Sequence[Candidate]) -> list[Candidate]:
    return sorted([*some, *others], key=lambda each: each.place)
