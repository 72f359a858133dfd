"""From what the arms say to one score: a weighted sum of parts that each reach from 0 to 1.

The weights of a passage come from a regression over questions whose evidence is known: they make
the evidence of a question as likely as can be to be drawn, with probabilities proportional to e to
the power of the score, from all passages of its conversation. Each part held on a conversation that
was left out of the fit. The weight of the period is lower than fitted (5.9), so that a date that
was read wrongly does less harm. ``bench/fit_weights.py`` makes the fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gralkord.recall.arms import FactArms, Flags, Numbers, PassageArms
from gralkord.recall.top import top

# Below this the closeness of two vectors is that of any two texts.
NEAR: Final = 0.3
# The best rows among which probability is shared out: about as many as the fit had.
RIVALS: Final = 500
# From the probability that a piece of evidence is this row to the odds that this row is evidence;
# questions have about two pieces.
ODDS: Final = 2.4


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part counts; see `PassageArms` and `FactArms`."""

    turn: float = 0.92
    one: float = 0.28
    two: float = 3.26
    session: float = 1.65
    vector: float = 2.8
    speaker: float = 2.5
    asks: float = -0.7
    tells_when: float = 2.0
    period: float = 4.0
    fact_words: float = 5.0
    fact_vector: float = 4.0
    succeeded: float = 0.7


@dataclass(frozen=True, slots=True)
class Fused:
    """Scores of all rows, group by group; minus infinity for those that must not be returned.

    Attributes:
        passages: One array per group.
        facts: One array per group.
    """

    passages: list[Numbers]
    facts: list[Numbers]

    def probabilities(self, scores: Iterable[float]) -> list[float]:
        """Return, for scores of rows, the probability that such a row is evidence, 0 to 1."""
        every = np.concatenate([np.zeros(0, dtype=np.float32), *self.passages, *self.facts])
        every = top(every, RIVALS)
        most = float(every.max(initial=-np.inf))
        if not np.isfinite(most):
            return []
        share = 1 / float(np.exp(every.astype(np.float64) - most).sum())
        odds = [ODDS * share * float(np.exp(score - most)) for score in scores]
        return [one / (1 + one) for one in odds]


def fuse(passages: Sequence[PassageArms], facts: Sequence[FactArms], weights: Weights) -> Fused:
    """Return the score of each row.

    A part is divided by the most that any row of any group has in it. So groups compare, and a
    question that hardly meets anything is decided by what it does meet.

    Args:
        passages: What the arms say, one entry per group.
        facts: The same for facts.
        weights: How much each part counts.
    """
    words = _most([*(arms.two for arms in passages), *(arms.words for arms in facts)])
    most = _Most(
        turn=_most(arms.turn for arms in passages),
        one=_most(arms.one for arms in passages),
        words=words,
        session=_most(arms.session for arms in passages),
        vector=_most(arms.vector for arms in passages),
        cosine=_most([*(arms.cosine for arms in passages), *(arms.cosine for arms in facts)]),
    )
    return Fused(
        passages=[_fuse_passages(arms, weights, most) for arms in passages],
        facts=[_fuse_facts(arms, weights, most) for arms in facts],
    )


@dataclass(frozen=True, slots=True)
class _Most:
    turn: float
    one: float
    words: float
    session: float
    vector: float
    cosine: float


def _fuse_passages(arms: PassageArms, weights: Weights, most: _Most) -> Numbers:
    total = np.zeros(len(arms.turn), dtype=np.float32)
    _add(total, arms.turn, weights.turn / most.turn)
    _add(total, arms.one, weights.one / most.one)
    _add(total, arms.two, weights.two / most.words)
    _add(total, arms.session, weights.session / most.session)
    _add(total, arms.vector, weights.vector / most.vector)
    _add(total, arms.speaker, weights.speaker)
    _add(total, arms.asks, weights.asks)
    _add(total, arms.tells_when, weights.tells_when)
    _add(total, arms.period, weights.period)
    found = (arms.turn > 0) | (arms.two > 0)
    return _only(total, found, arms.cosine, arms.shown)


def _fuse_facts(arms: FactArms, weights: Weights, most: _Most) -> Numbers:
    total = np.zeros(len(arms.words), dtype=np.float32)
    _add(total, arms.words, weights.fact_words / most.words)
    _add(total, arms.vector, weights.fact_vector / most.cosine)
    _add(total, arms.named, weights.speaker)
    _add(total, arms.tells_when, weights.tells_when)
    _add(total, arms.period, weights.period)
    _add(total, arms.succeeded, weights.succeeded)
    return _only(total, arms.words > 0, arms.cosine, arms.shown)


def _add(total: Numbers, part: Numbers | Flags | None, weight: float) -> None:
    if part is not None:
        total += np.float32(weight) * part


def _only(total: Numbers, found: Flags, cosine: Numbers | None, shown: Flags) -> Numbers:
    if cosine is not None:
        found = found | (cosine >= NEAR)
    total[~(found & shown)] = -np.inf
    return total


def _most(parts: Iterable[Numbers | None]) -> float:
    """Return the largest number of all parts, or 1 if none is above 0."""
    most = max((float(part.max(initial=0)) for part in parts if part is not None), default=0.0)
    return most if most > 0 else 1.0
