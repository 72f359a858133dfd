"""Recall of the twin: by the words that a question and a memory share."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from gralkord.errors import NoModel
from gralkord.graph.analyzer import Analyzer
from gralkord.graph.rows import FactRow, PassageRow, to_ms
from gralkord.graph.scope import Scope
from gralkord.graph.validity import view_at
from gralkord.models import Memory, RecallRequest, RecallResult
from gralkord.models.search import RESULTS_OF_A_LENS, SearchRequest, SearchResult
from gralkord.recall.cutting import shape
from gralkord.recall.described import kind_of, memory_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from gralkord.graph.validity import View
    from gralkord.lenses.registry import Reached
    from gralkord.models.recall import MemoryKind, Question
    from gralkord.testing.twin.shelf import Shelf
    from gralkord.testing.twin.shelves import Shelves


@dataclass(frozen=True, slots=True)
class Recalling:
    """Recalls for one tenant."""

    shelves: Shelves
    tenant: str
    analyzer: Analyzer = field(default_factory=Analyzer)

    def recall(self, request: RecallRequest) -> RecallResult:
        """Return the memories that share words with a question, best first.

        Raises:
            UnknownLens: A lens is named that is not there.
            NoModel: It is to be interpreted.
        """
        began = perf_counter()
        if request.interpret == "on":
            raise NoModel(
                "no language model is configured, so nothing can be interpreted",
                field="interpret",
                hint="ask with `interpret` auto or off",
            )
        lenses = self.shelves.lenses
        if request.lens is not None:
            reached = lenses.alone(self.tenant, request.operator, request.lens)
        else:
            reached = lenses.reached(self.tenant, request.operator, request.lenses, request.agent)
        session = self.shelves.tenant(self.tenant).sessions.get(request.session or "")
        waiting = session.waiting if session else ()
        heard = {(request.session, turn) for turn in waiting}
        found = self._find(request, reached, request.max_results, heard)
        shaped = shape(found, request.tier, request.max_tokens, query=request.query)
        return RecallResult(
            results=shaped.memories,
            memory_block=shaped.block,
            tokens_estimate=shaped.tokens,
            took_ms=_since(began),
        )

    def search(self, request: SearchRequest) -> SearchResult:
        """Return the memories that share words with a question, lens by lens.

        Raises:
            UnknownLens: A lens is named that is not there.
        """
        began = perf_counter()
        reached = self.shelves.lenses.reached(
            self.tenant, request.operator, request.lenses, request.agent
        )
        results: list[Memory] = []
        for each in reached:
            limit = request.max_results or each.search.max_results or RESULTS_OF_A_LENS
            results += self._find(request, [each], limit)
        shaped = shape(results, request.tier, request.max_tokens, by_lens=True, query=request.query)
        return SearchResult(
            results=shaped.memories,
            lenses=[each.lens for each in reached],
            memory_block=shaped.block,
            tokens_estimate=shaped.tokens,
            took_ms=_since(began),
        )

    def _find(
        self,
        request: Question,
        reached: Sequence[Reached],
        limit: int,
        heard: Collection[tuple[str | None, str]] = (),
    ) -> list[Memory]:
        view = view_at(
            self.shelves.now(),
            request.as_of,
            request.known_at,
            include_invalidated=request.include_invalidated,
        )
        scope = Scope.of(request.filters)
        rows = [
            (shelf, row)
            for each in reached
            if (shelf := self.shelves.known(each.group)) is not None
            for row in _rows(shelf)
            if shown(shelf, row, view) and _wanted(row, request.kinds or each.search.kinds)
            if scope is None or _fits(shelf, row, scope)
            if not (isinstance(row, PassageRow) and (row.session, row.turn_id) in heard)
        ]
        terms = [self._terms(row) for _, row in rows]
        weights = _weights(self.analyzer.terms(request.query), terms)
        scored = [
            (sum(weight for term, weight in weights.items() if term in found), at)
            for at, found in enumerate(terms)
        ]
        # Of equal ones the newer first: what was said last is asked for most.
        best = sorted((pair for pair in scored if pair[0] > 0), key=lambda p: (-p[0], -p[1]))
        whole = sum(weights.values()) or 1.0
        memories = _once(_memory(*rows[at], view, score / whole) for score, at in best)
        return memories[:limit]

    def _terms(self, row: PassageRow | FactRow) -> frozenset[str]:
        text = f"{row.speaker} {row.text}" if isinstance(row, PassageRow) else row.fact
        return frozenset(self.analyzer.terms(text))


def shown(shelf: Shelf, row: PassageRow | FactRow, view: View) -> bool:
    """Return whether a view may see a memory."""
    if isinstance(row, PassageRow):
        since_ms, created_ms = row.event_ms, row.created_ms
    else:
        since_ms = to_ms(row.valid_at) if row.valid_at else 0
        created_ms = to_ms(row.created_at) if row.created_at else 0
    if view.as_of_ms is not None and since_ms > view.as_of_ms:
        return False
    if view.known_ms is not None and created_ms > view.known_ms:
        return False
    return view.include_invalidated or not shelf.ending(row, view).hides(view)


def _fits(shelf: Shelf, row: PassageRow | FactRow, scope: Scope) -> bool:
    if isinstance(row, PassageRow):
        return scope.accepts(row)

    def said_in(episode: str, turn: str | None) -> list[PassageRow]:
        said = shelf.passages.of_episode(episode)
        return [one for one in said if turn is None or one.turn_id == turn]

    return scope.accepts_fact(row, said_in)


def _rows(shelf: Shelf) -> list[PassageRow | FactRow]:
    return [*shelf.passages.rows(), *shelf.facts.rows()]


def _weights(asked: Iterable[str], memories: list[frozenset[str]]) -> dict[str, float]:
    """Return how much each word of a question counts: rare ones more."""
    counts = Counter(term for terms in memories for term in terms)
    return {term: math.log(1 + (len(memories) + 1) / (counts[term] + 1)) for term in asked}


def _once(memories: Iterable[Memory]) -> list[Memory]:
    """Return memories without those that say the same again, as two lenses do of one turn."""
    found: dict[tuple[str, str | None, str | None], Memory] = {}
    for memory in memories:
        found.setdefault((memory.text, memory.turn_id, memory.speaker), memory)
    return list(found.values())


def _wanted(row: PassageRow | FactRow, kinds: Sequence[MemoryKind] | None) -> bool:
    return not kinds or kind_of(row) in kinds


def _memory(shelf: Shelf, row: PassageRow | FactRow, view: View, score: float) -> Memory:
    ending = shelf.ending(row, view)
    arms = ["lexical"]
    return memory_of(row, ending, view, lens=shelf.lens, score=min(score, 1.0), arms=arms)


def _since(began: float) -> float:
    return round((perf_counter() - began) * 1000, 3)
