"""The search of some groups at one moment: arms, fusion, duplicates. It waits for nothing."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.cache import GroupCache
from gralkord.graph.rows import FactRow, PassageRow
from gralkord.groups import Group
from gralkord.models import Memory, Role
from gralkord.recall.arms import FactArms, Numbers, PassageArms, fact_arms, passage_arms
from gralkord.recall.duplicates import Candidate, Collapser
from gralkord.recall.fusion import NEAR, Weights, fuse
from gralkord.recall.query import Query

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
    now_ms: int,
    weights: Weights | None = None,
) -> list[Memory]:
    """Return the memories that help with a question, best first.

    Args:
        query: The question.
        groups: Where to look, in the order that decides between equals.
        limit: How many memories at most.
        now_ms: The time, Unix milliseconds; what has become invalid by then is left out.
        weights: How much each part of a score counts.
    """
    analyzer = Analyzer()
    names = sorted({name for each in groups for name in each.cache.passages.named(query.words)})
    name_terms = sorted({term for name in names for term in analyzer.terms(name)})
    passages: list[PassageArms] = []
    facts: list[FactArms] = []
    for each in groups:
        with each.cache.lock:
            passages.append(passage_arms(each.cache, query, each.vector, names, now_ms))
            facts.append(fact_arms(each.cache, query, each.vector, name_terms, now_ms))
    fused = fuse(passages, facts, weights or Weights())
    candidates: list[Candidate] = []
    for place, each in enumerate(groups):
        tables = each.cache.passages, each.cache.facts
        for number in best(fused.passages[place], SPARE * limit + LEAST, tables[0].uuid):
            score = float(fused.passages[place][number])
            arms = _arms_of_passage(passages[place], number)
            candidates.append(Candidate(place, tables[0].row(number), score, arms))
        for number in best(fused.facts[place], SPARE * limit + LEAST, tables[1].uuid):
            score = float(fused.facts[place][number])
            arms = _arms_of_fact(facts[place], number)
            candidates.append(Candidate(place, tables[1].row(number), score, arms))
    collapser = Collapser(analyzer, [each.cache.passages for each in groups])
    kept = collapser.collapse(candidates, limit)
    chances = fused.probabilities([each.score for each in kept])
    return [
        _memory(candidate, chance, groups[candidate.group].group)
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
    least = np.partition(scores[numbers], -limit)[-limit]
    better = [int(number) for number in numbers[scores[numbers] > least]]
    equal = (int(number) for number in numbers[scores[numbers] == least])
    return better + heapq.nsmallest(limit - len(better), equal, key=uuid)


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


def _memory(candidate: Candidate, chance: float, group: Group) -> Memory:
    row, lens = candidate.row, group.lens or group.scope
    score, arms = round(chance, 6), sorted(candidate.arms)
    if isinstance(row, PassageRow):
        return Memory(
            kind="passage",
            id=row.uuid,
            text=row.text,
            score=score,
            lens=lens,
            speaker=row.speaker,
            role=cast("Role", row.role),
            event_time=row.event_time,
            invalid_at=row.invalid_at,
            session=row.session,
            turn_id=row.turn_id,
            source=row.source,
            offset=row.offset,
            arms=arms,
        )
    return _fact_memory(candidate, row, score, lens, arms)


def _fact_memory(
    candidate: Candidate, row: FactRow, score: float, lens: str, arms: list[str]
) -> Memory:
    return Memory(
        kind="fact",
        id=row.uuid,
        text=row.fact,
        score=score,
        lens=lens,
        event_time=row.reference_time,
        valid_at=row.valid_at,
        invalid_at=row.invalid_at,
        passages=list(candidate.passages),
        arms=arms,
    )
