"""The search of some groups at one moment: arms, fusion, duplicates. It waits for nothing."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import orjson

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.cache import GroupCache
from gralkord.graph.rows import FactRow, PassageRow
from gralkord.graph.validity import View
from gralkord.groups import Group
from gralkord.models import Memory, Role
from gralkord.recall.arms import FactArms, Numbers, PassageArms, fact_arms, passage_arms
from gralkord.recall.duplicates import Candidate, Collapser
from gralkord.recall.fusion import NEAR, Weights, fuse
from gralkord.recall.query import Query
from gralkord.recall.top import top

# Candidates for each result that is wanted, because duplicates take some away.
SPARE: Final = 3
LEAST: Final = 20


@dataclass(frozen=True, slots=True)
class Searched:
    """A group that is searched.

    Attributes:
        group: The group.
        cache: What is known of it.
        vector: The question's vector, shape (d,); None where that would be of no use.
    """

    group: Group
    cache: GroupCache
    vector: Numbers | None


def search(
    query: Query,
    groups: Sequence[Searched],
    limit: int,
    view: View,
    weights: Weights | None = None,
) -> list[Memory]:
    """Return the memories that help with a question, best first.

    Args:
        query: The question.
        groups: Where to look, in the order that decides between equals.
        limit: How many memories at most.
        view: From where memory is looked at; what does not hold then is left out beforehand.
        weights: How much each part of a score counts.
    """
    analyzer = Analyzer()
    names = sorted({name for each in groups for name in each.cache.passages.named(query.words)})
    name_terms = sorted({term for name in names for term in analyzer.terms(name)})
    passages: list[PassageArms] = []
    facts: list[FactArms] = []
    for each in groups:
        with each.cache.lock:
            passages.append(passage_arms(each.cache, query, each.vector, names, view))
            facts.append(fact_arms(each.cache, query, each.vector, name_terms, view))
    fused = fuse(passages, facts, weights or Weights())
    candidates: list[Candidate] = []
    for place, each in enumerate(groups):
        tables = each.cache.passages, each.cache.facts
        for number in best(fused.passages[place], SPARE * limit + LEAST, tables[0].uuid):
            score = float(fused.passages[place][number])
            arms = _arms_of_passage(passages[place], number)
            candidates.append(_candidate(place, each, tables[0].row(number), score, arms, view))
        for number in best(fused.facts[place], SPARE * limit + LEAST, tables[1].uuid):
            score = float(fused.facts[place][number])
            arms = _arms_of_fact(facts[place], number)
            candidates.append(_candidate(place, each, tables[1].row(number), score, arms, view))
    collapser = Collapser(analyzer, [each.cache.passages for each in groups])
    kept = collapser.collapse(candidates, limit)
    chances = fused.probabilities([each.score for each in kept])
    return [
        _memory(candidate, chance, groups[candidate.group], view)
        for candidate, chance in zip(kept, chances, strict=True)
    ]


def best(scores: Numbers, limit: int, uuid: Callable[[int], str]) -> list[int]:
    """Return the numbers of the best *limit* rows; of equal ones those of the first uuids.

    Args:
        scores: One per row; minus infinity is never among the best.
        limit: How many at most.
        uuid: Tells the uuid of a row.
    """
    numbers = np.flatnonzero(np.isfinite(scores))
    if len(numbers) <= limit:
        return [int(number) for number in numbers]
    least = top(scores[numbers], limit).min()
    better = [int(number) for number in numbers[scores[numbers] > least]]
    equal = (int(number) for number in numbers[scores[numbers] == least])
    return better + heapq.nsmallest(limit - len(better), equal, key=uuid)


def _candidate(
    place: int,
    where: Searched,
    row: PassageRow | FactRow,
    score: float,
    arms: frozenset[str],
    view: View,
) -> Candidate:
    # Unless asked for there is nothing among them that has ended.
    ended = view.include_invalidated and where.cache.ending(row, view).hides(view)
    return Candidate(place, row, score, arms, ended=ended)


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


def _arms_of_fact(arms: FactArms, number: int) -> frozenset[str]:
    found = set()
    if arms.words[number] > 0:
        found.add("lexical")
    if arms.cosine is not None and arms.cosine[number] >= NEAR:
        found.add("vector")
    if arms.period is not None and arms.period[number] > 0:
        found.add("time")
    return frozenset(found)


def _memory(candidate: Candidate, chance: float, where: Searched, view: View) -> Memory:
    row, group = candidate.row, where.group
    ending = where.cache.ending(row, view)
    shown: dict[str, Any] = {
        "score": round(chance, 6),
        "lens": group.lens or group.scope,
        "invalid_at": ending.at,
        "invalidated": ending.hides(view),
        "reason": ending.reason,
        "arms": sorted(candidate.arms),
    }
    if isinstance(row, PassageRow):
        return Memory(
            kind="passage",
            id=row.uuid,
            text=row.text,
            speaker=row.speaker,
            role=cast("Role", row.role),
            event_time=row.event_time,
            session=row.session,
            turn_id=row.turn_id,
            source=row.source,
            offset=row.offset,
            metadata=metadata_of(row),
            **shown,
        )
    return Memory(
        kind="fact",
        id=row.uuid,
        text=row.fact,
        event_time=row.reference_time,
        valid_at=row.valid_at,
        source=row.source,
        offset=row.offset,
        passages=list(candidate.passages),
        **shown,
    )


def metadata_of(row: PassageRow) -> dict[str, Any]:
    """Return what a passage's producer says about it."""
    if row.metadata is None:
        return {}
    found: dict[str, Any] = orjson.loads(row.metadata)
    return found
