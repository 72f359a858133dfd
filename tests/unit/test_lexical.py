from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gralkord.graph.analyzer import Analyzer
from gralkord.graph.lexical import K1, B, LexicalIndex
from gralkord.graph.neighbours import Neighbours

ANALYZER = Analyzer()
WORDS = ("apple", "banana", "cherry", "the", "date", "elder")


def index_of(texts) -> LexicalIndex:
    index = LexicalIndex(ANALYZER)
    index.add(0, texts)
    return index


def scores(index: LexicalIndex, query: str) -> list[float]:
    return index.scores(ANALYZER.terms(query)).tolist()


def bm25(texts, terms):
    """Return BM25 the plain way; a stop word counts as a term but not for the length."""
    count = len(texts) or 1
    bags = [[ANALYZER.term(word) for word in ANALYZER.words(text)] for text in texts]
    lengths = [sum(not stop for _, stop in bag) for bag in bags]
    mean = sum(lengths) / count or 1
    found = np.zeros(len(texts))
    for term in terms:
        counts = np.asarray([sum(word == term for word, _ in bag) for bag in bags])
        holding = np.count_nonzero(counts)
        weight = math.log1p((count - holding + 0.5) / (holding + 0.5))
        base = K1 * (1 - B + B * np.asarray(lengths) / mean)
        found += weight * (K1 + 1) * counts / (counts + base)
    return found


TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=20)


@given(TEXTS, st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join))
@settings(max_examples=200, deadline=None)
def test_scores_are_bm25(texts, query):
    """Every row has exactly the score that the formula gives."""
    terms = ANALYZER.terms(query)
    assert np.allclose(index_of(texts).scores(terms), bm25(texts, terms), atol=1e-4)


@given(TEXTS, st.lists(st.integers(1, 4), max_size=8), st.sampled_from(WORDS))
@settings(max_examples=200, deadline=None)
def test_window_scores_are_those_of_the_joined_texts(texts, sizes, query):
    """A window scores as the text that its rows make together would."""
    sessions = [number for number, size in enumerate(sizes) for _ in range(size)]
    sessions = (sessions + [99] * len(texts))[: len(texts)]
    neighbours, terms = Neighbours(), ANALYZER.terms(query)
    for row, session in enumerate(sessions):
        neighbours.place(row, str(session), row, 0)
    found = index_of(texts).window_scores(terms, neighbours.order())

    def joined(reach):
        return [
            " ".join(
                texts[other]
                for other in range(len(texts))
                if sessions[other] == sessions[row] and abs(other - row) <= reach
            )
            for row in range(len(texts))
        ]

    assert np.allclose(found.turn, bm25(texts, terms), atol=1e-4)
    assert np.allclose(found.one, bm25(joined(1), terms), atol=1e-4)
    assert np.allclose(found.two, bm25(joined(2), terms), atol=1e-4)
    names = list(dict.fromkeys(sessions))
    whole = [" ".join(t for t, s in zip(texts, sessions, strict=True) if s == n) for n in names]
    by_session = dict(zip(names, bm25(whole, terms), strict=True))
    assert np.allclose(found.session, [by_session[session] for session in sessions], atol=1e-4)


@given(TEXTS.filter(bool), st.data())
@settings(max_examples=100, deadline=None)
def test_a_removed_row_leaves_nothing_behind(texts, data):
    """After rows are removed and others changed the index is as if made anew."""
    index = index_of(texts)
    after = list(texts)
    for row in data.draw(st.sets(st.sampled_from(range(len(texts))))):
        index.remove(row, after[row])
        after[row] = data.draw(st.sampled_from(WORDS))
        index.add(row, [after[row]])
    for query in WORDS:
        assert np.allclose(scores(index, query), scores(index_of(after), query), atol=1e-5)


def test_a_new_row_is_found_by_the_next_query():
    """There is nothing to commit."""
    index = index_of(["apple pie"])
    assert scores(index, "banana") == [0]
    index.add(1, ["banana bread"])
    assert np.flatnonzero(scores(index, "banana")).tolist() == [1]


def test_unknown_words_find_nothing():
    """A query without any known word has no hit."""
    assert not any(scores(index_of(["apple pie", "banana"]), "zucchini"))


def test_stop_words_alone_find_the_rows_that_hold_them():
    """A query of stop words is answered."""
    index = index_of(["the apple", "apple pie", "is it the one"])
    assert np.flatnonzero(scores(index, "the it")).tolist() == [0, 2]


def test_rare_words_outweigh_common_ones():
    """A word that few rows hold counts more."""
    found = scores(index_of(["apple", "apple", "apple", "cherry"]), "apple cherry")
    assert found[3] == max(found) > found[0]


def test_no_row_scores_more_than_the_ideal():
    """The ideal is above every row, so shares of it stay below 1."""
    index = index_of(["apple " * 300, "apple banana", "cherry"])
    terms = ANALYZER.terms("apple banana zucchini")
    assert 0 < index.scores(terms).max() < index.ideal(terms)


def test_rows_holding_a_term_are_told():
    """Any of the terms is enough."""
    index = index_of(["apple", "banana", "cherry"])
    assert sorted(index.holding(["appl", "cherri", "unknown"])) == [0, 2]


def test_an_empty_index_answers():
    """Before the first row there is nothing, and no error."""
    index = LexicalIndex(ANALYZER)
    assert index.scores(["appl"]).tolist() == []
    assert index.window_scores(["appl"], Neighbours().order()).two.tolist() == []


def test_too_many_rows_are_refused():
    """A row number that does not fit into a posting is an error, not another row."""
    with pytest.raises(ValueError, match="16777216"):
        LexicalIndex(ANALYZER).add(1 << 24, ["apple"])
