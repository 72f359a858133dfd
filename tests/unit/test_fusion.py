from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gralkord.recall.arms import FactArms, PassageArms
from gralkord.recall.fusion import RIVALS, Fused, Weights, fuse

WEIGHTS = Weights()


def numbers(*values: float) -> np.ndarray:
    return np.asarray(values, dtype=np.float32)


def flags(*values: bool) -> np.ndarray:
    return np.asarray(values, dtype=np.bool_)


def arms(*turn: float, **values) -> PassageArms:
    """Return arms whose words are those of the turn, and nothing else."""
    words, size = numbers(*turn), len(turn)
    plain = PassageArms(
        turn=words,
        one=words,
        two=words,
        session=words,
        cosine=None,
        vector=None,
        speaker=None,
        asks=np.zeros(size, dtype=np.bool_),
        tells_when=None,
        period=None,
        shown=np.ones(size, dtype=np.bool_),
    )
    return replace(plain, **values)


def facts(*words: float, **values) -> FactArms:
    plain = FactArms(
        words=numbers(*words),
        cosine=None,
        vector=None,
        named=None,
        tells_when=None,
        period=None,
        notes=None,
        succeeded=None,
        shown=np.ones(len(words), dtype=np.bool_),
    )
    return replace(plain, **values)


def scores(*groups: PassageArms) -> list[list[float]]:
    return [each.tolist() for each in fuse(groups, [], WEIGHTS).passages]


def test_parts_are_measured_by_the_best_of_all_groups():
    """A group of weak matches does not come up to one of strong matches."""
    strong, weak = scores(arms(0.8, 0.4), arms(0.2))
    assert strong[0] > strong[1] > weak[0]


def test_rows_without_a_word_or_a_near_vector_are_not_returned():
    """A question that meets nothing has no answer."""
    cosine = numbers(0.1, 0.5)
    assert scores(arms(0.0, 0.0, cosine=cosine, vector=cosine))[0][0] == -np.inf
    assert np.isfinite(scores(arms(0.0, 0.0, cosine=cosine, vector=cosine))[0][1])


def test_hidden_rows_are_not_returned():
    """However well it fits, an invalid row stays hidden."""
    assert scores(arms(0.9, 0.1, shown=flags(False, True)))[0][0] == -np.inf


@pytest.mark.parametrize(
    "values",
    [
        {"speaker": flags(True, False)},
        {"tells_when": flags(True, False)},
        {"period": numbers(1, 0)},
        {"asks": flags(False, True)},
        {"cosine": numbers(0.5, 0.4), "vector": numbers(0.5, 0.4)},
    ],
)
def test_each_part_decides_between_equal_words(values):
    """Speaker, time words, dates, being no question and vectors each count."""
    first, second = scores(arms(0.5, 0.5, **values))[0]
    assert first > second


def test_facts_and_passages_are_on_one_scale():
    """A fact that holds all words beats a passage that holds few, and the other way round."""
    fused = fuse([arms(0.9, 0.1)], [facts(0.9, 0.1)], WEIGHTS)
    assert fused.facts[0][0] > fused.passages[0][1]
    assert fused.passages[0][0] > fused.facts[0][1]


def test_empty_groups_fuse_to_nothing():
    """A group that has just been made is no error."""
    fused = fuse([arms()], [facts()], WEIGHTS)
    assert fused.passages[0].size == fused.facts[0].size == 0
    assert fused.probabilities([]) == []


def test_probabilities_keep_the_order_and_lie_between_0_and_1():
    """The best row is the likeliest, and a clear best row is likely."""
    row = numbers(9, 5, 4, -np.inf)
    found = Fused([row], []).probabilities([9, 5, 4])
    assert 1 > found[0] > 0.6 > found[1] > found[2] > 0


def test_probabilities_do_not_depend_on_how_much_is_remembered():
    """Beyond the nearest rivals more rows change nothing."""
    few, many = (numbers(8, *[2.0] * count) for count in (RIVALS - 1, 50_000))
    assert Fused([few], []).probabilities([8]) == pytest.approx(
        Fused([many], []).probabilities([8])
    )
