from __future__ import annotations

import pytest

from gralkord.graph.analyzer import Analyzer

ANALYZER = Analyzer()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Running", "runs"),
        ("CAFÉ", "cafe"),
        ("Straße", "STRASSE"),
        ("Alice's", "alice"),
        ("Alice\u2019s", "alice"),
        ("O'Brien", "o\u2019brien"),
        ("ＡＢＣ", "abc"),
        ("José", "Jose\u0301"),
    ],
)
def test_forms_of_a_word_have_one_term(one, other):
    """Case, accents, width, possessives and endings do not count."""
    assert ANALYZER.terms(one) == ANALYZER.terms(other) != []


def test_stop_words_are_left_out_beside_others():
    """A question is about its content words."""
    assert ANALYZER.terms("what is it that the painter didn't paint") == ["paint", "painter"]


def test_a_query_of_stop_words_keeps_them():
    """Whoever asks "the it" means these words."""
    assert len(ANALYZER.terms("the it")) == 2


def test_a_stop_word_is_no_stem():
    """What is stemmed to a stop word, as "wills" is, stays another term."""
    assert set(ANALYZER.terms("wills")).isdisjoint(ANALYZER.terms("will"))


@pytest.mark.parametrize("text", ["", "_", "!?", "\u3000", "👍", "- _ -"])
def test_text_without_words_has_no_terms(text):
    """Punctuation, underscores and symbols are no words."""
    assert ANALYZER.terms(text) == []


def test_scripts_without_blanks_are_found_by_part():
    """A word within a run of Japanese is found."""
    assert set(ANALYZER.terms("東京")) < set(ANALYZER.words("私は東京タワーに行った"))


@pytest.mark.parametrize("text", ["привет мир", "שלום עולם", "مرحبا بالعالم", "γειά σου"])
def test_other_scripts_have_a_term_per_word(text):
    """Words of any alphabet are indexed."""
    assert len(ANALYZER.terms(text)) == 2


def test_identifiers_are_found_by_their_parts():
    """A name with underscores or dots is the words in it."""
    assert ANALYZER.words("user_id v3.14") == ["user", "id", "v3", "14"]
