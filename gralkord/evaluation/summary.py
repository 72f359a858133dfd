"""The figures of a run: means over its questions, overall and by category."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from gralkord.errors import InvalidInput
from gralkord.evaluation.retrieval import (
    MEASURED,
    RANKS,
    THRESHOLDS,
    TOKEN_BUDGETS,
    Score,
    percentile,
)


def summarize(scores: Sequence[Score]) -> dict[str, Any]:
    """Return the means over *scores*, overall and by category, what is wrong, and the latency.

    Questions that are not answerable count for ``abstention`` and for the latency only.

    Raises:
        InvalidInput: There are no scores of answerable questions.
    """
    answerable = [one for one in scores if one.question.answerable]
    if not answerable:
        raise InvalidInput("no answerable question has evidence: nothing to score")
    by_category: defaultdict[str, list[Score]] = defaultdict(list)
    for one in answerable:
        by_category[one.question.category].append(one)
    return {
        "overall": _means(answerable),
        "by_category": {name: _means(by_category[name]) for name in sorted(by_category)},
        "measures": _measures(answerable),
        "abstention": _abstention(
            answerable, [one for one in scores if not one.question.answerable]
        ),
        "latency_ms": {
            "p50": round(percentile([one.milliseconds for one in scores], 50), 2),
            "p95": round(percentile([one.milliseconds for one in scores], 95), 2),
        },
        "questions": len(answerable),
    }


def _means(scores: Sequence[Score]) -> dict[str, Any]:
    return {
        "at": {str(rank): _mean(one.at[rank] for one in scores) for rank in RANKS},
        "tokens": {
            str(budget): _mean(one.tokens[budget] for one in scores) for budget in TOKEN_BUDGETS
        },
    }


def _measures(scores: Sequence[Score]) -> dict[str, Any]:
    """Return what is counted over all results; None where no question gives occasion for it."""
    tempting = [one for one in scores if one.question.distractors]
    return {
        "mrr": _mean(1 / one.first if one.first else 0.0 for one in scores),
        "misled": _mean(one.misled for one in tempting),
        "within": {str(rank): _within(scores, rank) for rank in MEASURED},
    }


def _within(scores: Sequence[Score], rank: int) -> dict[str, float | None]:
    parts = [one.within[rank] for one in scores]
    results = sum(part.results for part in parts)
    wanted = [one for one in scores if one.question.whole]
    return {
        "recall": _ratio(
            sum(part.evidence for part in parts), sum(len(one.question.evidence) for one in scores)
        ),
        "precision": _ratio(sum(part.relevant for part in parts), results),
        "hit_rate": _mean(part.evidence > 0 for part in parts),
        "near_distractors": _ratio(
            sum(part.distractors for part in parts),
            sum(len(one.question.distractors) for one in scores),
        ),
        "whole": _mean(one.within[rank].evidence == len(one.question.evidence) for one in wanted),
        "repeats": _ratio(sum(part.repeats for part in parts), results),
    }


def _abstention(answerable: Sequence[Score], others: Sequence[Score]) -> dict[str, Any]:
    """Return how often nothing is answered where nothing is right, and what a threshold would do.

    ``told_apart`` is the probability that the best result of an answerable question has a higher
    score than that of one that is not: 0.5 if scores tell nothing about it.
    """
    return {
        "unanswerable": len(others),
        "answered_with_nothing": _mean(one.within[MEASURED[0]].results == 0 for one in others),
        "answerable_with_nothing": _mean(
            one.within[MEASURED[0]].results == 0 for one in answerable
        ),
        "told_apart": _told_apart([one.best for one in answerable], [one.best for one in others]),
        "thresholds": {
            f"{least:g}": {
                "nothing": _mean(one.best < least for one in others),
                "at_10": _mean(one.above[least] for one in answerable),
            }
            for least in THRESHOLDS
        },
    }


def _told_apart(above: Sequence[float], below: Sequence[float]) -> float | None:
    pairs = [(high > low) + (high == low) / 2 for high in above for low in below]
    return _mean(pairs)


def _mean(values: Iterable[float]) -> float | None:
    every = list(values)
    return _ratio(sum(every), len(every))


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None
