"""The search of some groups at one moment: arms, fusion, duplicates. It waits for nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.cache import GroupCache
from gralkord.graph.drafts import NOTE_KINDS
from gralkord.graph.scope import Scope
from gralkord.graph.validity import View
from gralkord.models import Memory
from gralkord.models.recall import MemoryKind
from gralkord.recall.arms import FactArms, PassageArms, fact_arms, passage_arms
from gralkord.recall.duplicates import Collapser
from gralkord.recall.finding import Finding, Searched
from gralkord.recall.fusion import Weights, fuse
from gralkord.recall.query import Query
from gralkord.recall.shares import Shares

__all__ = ["Found", "Searched", "find", "search"]

# Candidates for each result that is wanted, because duplicates take some away.
SPARE: Final = 3
LEAST: Final = 20


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found.

    Attributes:
        memories: The best first.
        missing: The arms that it is without.
    """

    memories: list[Memory]
    missing: frozenset[str] = frozenset()


def search(
    query: Query,
    groups: Sequence[Searched],
    limit: int,
    view: View,
    weights: Weights | None = None,
) -> list[Memory]:
    """Return the memories that help with a question, best first; see `find`."""
    return find(query, groups, limit, view, weights).memories


def find(
    query: Query,
    groups: Sequence[Searched],
    limit: int,
    view: View,
    weights: Weights | None = None,
    in_time: Callable[[], bool] = lambda: True,
) -> Found:
    """Find the memories that help with a question.

    Args:
        query: The question.
        groups: Where to look, in the order that decides between equals.
        limit: How many memories at most.
        view: From where memory is looked at; what does not hold then is left out beforehand.
        weights: How much each part of a score counts.
        in_time: Whether there is still time to look at notes; else their arms are missing.
    """
    analyzer = Analyzer()
    names = sorted({name for each in groups for name in each.cache.passages.named(query.words)})
    name_terms = sorted({term for name in names for term in analyzer.terms(name)})
    passages: list[PassageArms] = []
    facts: list[FactArms] = []
    for each in groups:
        with each.cache.lock:
            said = passage_arms(each.cache, query, each.vector, names, view)
            told = fact_arms(each.cache, query, each.vector, name_terms, view)
            if each.scope is not None:
                said, told = _within(each.cache, each.scope, said, told)
            hidden = each.unflushed.numbers(each.cache) if each.unflushed else []
        if hidden:
            said = _without(said, hidden)
        passages.append(said if _wants(each, "passage") else _nothing_of(said))
        facts.append(told if each.kinds is None else _only(told, each.kinds))
    found = Finding(groups, passages, facts, fuse(passages, facts, weights or Weights()), view)
    kinds = None
    if all(each.kinds is not None for each in groups):
        kinds = {kind for each in groups for kind in each.kinds or ()}
    shares = Shares.of(limit, [each.limit for each in groups], kinds)
    enough, of_notes = (SPARE * count + LEAST for count in (limit, shares.own))
    candidates = list(found.candidates(enough, of_notes, in_time))
    tables = [each.cache.passages for each in groups]
    collapser = Collapser(analyzer, tables, [each.scope for each in groups])
    memories = list(found.memories(shares.choose(collapser, candidates)))
    return Found(memories, frozenset(found.missing))


def _wants(each: Searched, kind: MemoryKind) -> bool:
    return each.kinds is None or kind in each.kinds


def _within(
    cache: GroupCache, scope: Scope, said: PassageArms, told: FactArms
) -> tuple[PassageArms, FactArms]:
    """Return the arms of what fits a scope; the group's lock is held."""
    passages = said.shown & cache.masks.passages(cache.passages, scope)
    facts = told.shown & cache.masks.facts(cache.facts, cache.passages, scope)
    return replace(said, shown=passages), replace(told, shown=facts)


def _without(arms: PassageArms, hidden: Sequence[int]) -> PassageArms:
    shown = arms.shown.copy()
    shown[hidden] = False
    return replace(arms, shown=shown)


def _nothing_of(arms: PassageArms) -> PassageArms:
    return replace(arms, shown=np.zeros_like(arms.shown))


def _only(arms: FactArms, kinds: Collection[MemoryKind]) -> FactArms:
    wanted = np.asarray(["fact" in kinds, *(kind in kinds for kind in NOTE_KINDS)])
    if arms.notes is None:
        return arms if wanted[0] else replace(arms, shown=np.zeros_like(arms.shown))
    return replace(arms, shown=arms.shown & wanted[arms.notes])
