from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gralkord.graph.vectors import VectorMatrix, decode, encode


def unit_rows(count: int, dimension: int = 64, seed: int = 0):
    rows = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def matrix_of(texts) -> VectorMatrix:
    matrix = VectorMatrix()
    for row, text in enumerate(texts):
        matrix.put(row, text)
    return matrix


def test_decoded_vectors_point_where_the_encoded_ones_did():
    """Eight bits a number lose less than a thousandth of the cosine."""
    rows = unit_rows(50)
    small = decode(encode(rows)).astype(np.float32)
    cosines = (rows * small).sum(axis=1) / np.linalg.norm(small, axis=1)
    assert cosines.min() > 0.999


def test_largest_number_of_a_row_becomes_127():
    """The whole range of eight bits is used."""
    assert np.abs(decode(encode(unit_rows(5)))).max(axis=1).tolist() == [127] * 5


def test_zero_row_stays_zero():
    """A text that says nothing has a vector of zeros, which is close to nothing."""
    texts = encode(np.zeros((1, 8), dtype=np.float32))
    assert not decode(texts).any()
    assert matrix_of(texts).cosines(np.ones(8, dtype=np.float32), 1).tolist() == [0]


def test_nothing_encodes_to_nothing():
    """No rows are no texts, and the other way round."""
    assert encode(np.zeros((0, 8), dtype=np.float32)) == []
    assert decode([]).shape == (0, 0)


@pytest.mark.parametrize("texts", [["no base64!"], ["AAAA", "AAAAAAAA"]])
def test_decode_refuses_what_encode_did_not_make(texts):
    """Broken text, and rows of different lengths, are errors."""
    with pytest.raises(ValueError, match=r"vector"):
        decode(texts)


def test_cosines_are_those_of_the_full_vectors():
    """The search is exact but for the rounding, over more rows than fit into one block."""
    rows = unit_rows(9_000)
    query = unit_rows(1, seed=1)[0]
    found = matrix_of(encode(rows)).cosines(query * 3, 9_000)
    assert np.allclose(found, rows @ query, atol=0.01)


def test_searches_that_share_the_work_find_the_same(monkeypatch):
    """Split between two threads, and with several searches at once, each gets its own answer."""
    rows, queries = unit_rows(4_001), unit_rows(40, seed=1)
    matrix = matrix_of(encode(rows))
    alone = [matrix.cosines(query, 4_001) for query in queries]
    monkeypatch.setattr("gralkord.graph.vectors.SHARED_NUMBERS", 1)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda query: matrix.cosines(query, 4_001), queries))
    assert np.allclose(found, alone, atol=1e-6)


def test_best_fifty_are_found():
    """Of the fifty closest rows the rounding loses at most one."""
    rows, query = unit_rows(5_000), unit_rows(1, seed=2)[0]
    found = matrix_of(encode(rows)).cosines(query, 5_000)
    true = set(np.argsort(-(rows @ query))[:50].tolist())
    assert len(true & set(np.argsort(-found)[:50].tolist())) >= 49


def test_rows_without_a_vector_score_nothing():
    """A row may come before its vector, be the last one, or lose its vector."""
    first, second = encode(unit_rows(2))
    matrix = matrix_of([None, first, None, second, None])
    matrix.put(3, None)
    query = unit_rows(2)[0]
    assert np.flatnonzero(matrix.cosines(query, 5)).tolist() == [1]
    assert matrix.present(5).tolist() == [False, True, False, False, False]


def test_a_replaced_vector_counts_at_once():
    """What was measured for the old vector is not used for the new one."""
    rows = unit_rows(3)
    matrix = matrix_of(encode(rows))
    matrix.cosines(rows[0], 3)
    matrix.put(1, encode(rows[:1] * 0.5)[0])
    assert matrix.cosines(rows[0], 3)[1] == pytest.approx(1, abs=0.001)


def test_a_vector_of_another_dimension_counts_as_none():
    """One odd vector does not take the others down."""
    matrix = matrix_of([*encode(unit_rows(1)), *encode(unit_rows(1, dimension=8)), "???"])
    assert matrix.present(3).tolist() == [True, False, False]
    assert matrix.cosines(np.ones(8, dtype=np.float32), 3).tolist() == [0, 0, 0]
