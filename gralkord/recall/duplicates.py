"""One memory for what says the same: a fact and its passage, a turn that two lenses hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.passage_table import spoken
from gralkord.graph.rows import FactRow, PassageRow
from gralkord.graph.scope import Scope
from gralkord.graph.tables import PassageTable

# Share of a fact's terms that its passage must hold, and the other way round, to be one memory.
FACT_IN_PASSAGE: Final = 0.7
PASSAGE_IN_FACT: Final = 0.6
# A passage supports a fact of its episode if it holds so large a share of the fact's terms.
SUPPORTS: Final = 0.5
MAX_SUPPORT: Final = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A row that may be returned.

    Attributes:
        group: Place of its group in the order of the lenses.
        row: The row.
        score: Its fused score.
        arms: Which arms found it.
        passages: The uuids of the passages that say a fact.
        ended: Whether it is shown although it does not hold; it is merged with its like only.
    """

    group: int
    row: PassageRow | FactRow
    score: float
    arms: frozenset[str]
    passages: tuple[str, ...] = field(default=())
    ended: bool = False

    @property
    def place(self) -> tuple[float, int, str]:
        """Sorts candidates: the best first; then by group and uuid, for answers to be the same."""
        return (-self.score, self.group, self.row.uuid)


class Room:
    """How many candidates there is room for, in all and of each group.

    Args:
        limit: In all.
        caps: Of each group, in their order; None: any number.
    """

    def __init__(self, limit: int, caps: Sequence[int | None]) -> None:
        self._left = limit
        self._caps = caps
        self._taken: Counter[int] = Counter()

    @property
    def full(self) -> bool:
        """Whether there is room for none."""
        return self._left <= 0

    def take(self, group: int) -> bool:
        """Return whether there is room for one more of a group, and if so count it."""
        cap = self._caps[group]
        if self._left <= 0 or (cap is not None and self._taken[group] >= cap):
            return False
        self._left -= 1
        self._taken[group] += 1
        return True


class Collapser:
    """Merges candidates that say the same, and finds the passages of facts.

    Between one `begin` and the next what was told once is not told again.

    Args:
        analyzer: Finds terms.
        tables: The passages of each group.
        scopes: What passages must fit, by which facts are told to be supported, likewise; None:
            anything.
    """

    def __init__(
        self,
        analyzer: Analyzer,
        tables: Sequence[PassageTable],
        scopes: Sequence[Scope | None] | None = None,
    ) -> None:
        self._analyzer = analyzer
        self._tables = tables
        self._scopes = scopes or [None] * len(tables)
        self._terms: dict[str, frozenset[str]] = {}
        self._facts_at: list[int] = []
        self._told: set[tuple[str, bool]] = set()

    def begin(self) -> None:
        """Begin another answer."""
        self._told.clear()

    def distinct(self, candidates: Iterable[Candidate], room: Room) -> list[Candidate]:
        """Return the best notes that there is room for, best first, each thing once.

        What differs in a word stays: two accounts that contradict each other are two.
        """
        kept: list[Candidate] = []
        for candidate in sorted(candidates, key=lambda each: each.place):
            if room.full:
                break
            key = _telling(candidate)
            if key not in self._told and room.take(candidate.group):
                self._told.add(key)
                kept.append(replace(candidate, passages=self._support(candidate)))
        return kept

    def collapse(self, candidates: Iterable[Candidate], room: Room) -> list[Candidate]:
        """Return the best candidates that there is room for, best first, each thing once.

        A fact takes the place of the passage that says the same, whichever of them was better.
        """
        kept: list[Candidate] = []
        self._facts_at.clear()
        turns: set[tuple[str, str, int, int, bool]] = set()
        for candidate in sorted(candidates, key=lambda each: each.place):
            row = candidate.row
            if isinstance(row, FactRow):
                if (key := _telling(candidate)) not in self._told:
                    self._told.add(key)
                    self._keep_fact(kept, candidate, room)
                continue
            turn = (row.session, row.turn_id, row.ordinal, row.part, candidate.ended)
            if turn not in turns:  # it may come through several lenses
                turns.add(turn)
                self._keep_passage(kept, candidate, room)
        return [
            replace(each, passages=each.passages or self._support(each))
            if isinstance(each.row, FactRow)
            else each
            for each in kept
        ]

    def _keep_fact(self, kept: list[Candidate], fact: Candidate, room: Room) -> None:
        assert isinstance(fact.row, FactRow)
        # What comes of no episode is said by no passage.
        for at, other in enumerate(kept if fact.row.episodes else ()):
            if isinstance(other.row, PassageRow) and self._same(fact, other):
                support = (other.row.uuid, *self._support(fact))
                self._facts_at.append(at)
                kept[at] = replace(
                    fact,
                    score=other.score,
                    arms=fact.arms | other.arms,
                    passages=tuple(dict.fromkeys(support)),
                )
                return
        if room.take(fact.group):
            self._facts_at.append(len(kept))
            kept.append(fact)

    def _keep_passage(self, kept: list[Candidate], passage: Candidate, room: Room) -> None:
        for at in self._facts_at:
            other = kept[at]
            if self._same(other, passage):
                support = (*(other.passages or self._support(other)), passage.row.uuid)
                kept[at] = replace(
                    other, arms=other.arms | passage.arms, passages=tuple(dict.fromkeys(support))
                )
                return
        if room.take(passage.group):
            kept.append(passage)

    def _same(self, fact: Candidate, passage: Candidate) -> bool:
        if (fact.group, fact.ended) != (passage.group, passage.ended):
            return False
        told, said = fact.row, passage.row
        if not isinstance(told, FactRow) or not isinstance(said, PassageRow):
            return False
        if said.episode not in told.episodes:
            return False
        facts, words = self._of(told.uuid, told.fact), self._of(said.uuid, spoken(said))
        common = len(facts & words)
        return common >= FACT_IN_PASSAGE * len(facts) and common >= PASSAGE_IN_FACT * len(words)

    def _support(self, fact: Candidate) -> tuple[str, ...]:
        """Return the uuids of the passages that say a fact best."""
        row = fact.row
        if not isinstance(row, FactRow):
            return ()
        wanted, scope = self._of(row.uuid, row.fact), self._scopes[fact.group]
        shares: list[tuple[float, str, int, int, str]] = []
        for episode in row.episodes:
            for said in self._tables[fact.group].of_episode(episode, row.turn):
                if scope is not None and not scope.accepts(said):
                    continue
                common = len(wanted & self._of(said.uuid, spoken(said)))
                share = common / max(1, len(wanted))
                shares.append((-share, said.session, said.ordinal, said.part, said.uuid))
        shares.sort()
        best = [uuid for share, _, _, _, uuid in shares if -share >= SUPPORTS]
        return tuple(best[:MAX_SUPPORT] or [uuid for *_, uuid in shares[:1]])

    def _of(self, uuid: str, text: str) -> frozenset[str]:
        if uuid not in self._terms:
            self._terms[uuid] = frozenset(self._analyzer.terms(text))
        return self._terms[uuid]


def _telling(told: Candidate) -> tuple[str, bool]:
    """Return what is the same for facts of the same words, however they are set."""
    assert isinstance(told.row, FactRow)
    return " ".join(told.row.fact.split()).rstrip(".!").casefold(), told.ended
