"""From text to index terms: words of any script, folded, stemmed, common ones marked."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import Stemmer

_COMMON: Final = """
    a about above after again against all am an and any are as at be because been before being
    below between both but by can could did do does doing down during each few for from further
    had has have having he her here hers herself him himself his how i if in into is it its itself
    just me more most my myself no nor not now of off on once only or other our ours ourselves out
    over own same she should so some such than that the their theirs them themselves then there
    these they this those through to too under until up very was we were what when where which
    while who whom why will with would you your yours yourself yourselves
"""
STOP_WORDS: Final = frozenset(_COMMON.split())

# Scripts that put no blanks between words; their runs are indexed by pairs of characters.
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_APOSTROPHE = re.compile("['\u2019]")
_ENDINGS: Final = (["s"], ["re"], ["ve"], ["ll"], ["d"], ["m"])
_RUN = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_UNSPACED_ONE = re.compile(f"[{_UNSPACED}]")
# Accents of Latin, Greek and Cyrillic; the vowel signs of other scripts stand elsewhere.
_ACCENT = re.compile("[\u0300-\u036f]")


class Analyzer:
    """Splits English and other text into words and finds the term of each.

    A term is a stem, except that stop words are terms of their own, so that a query of nothing
    else can still be answered.
    """

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")

    def words(self, text: str) -> list[str]:
        """Return the words of *text* in order, folded: case and accents do not count."""
        found: list[str] = _WORD.findall(fold(text))
        if not text.isascii() and _UNSPACED_ONE.search(text):
            return [piece for word in found for piece in _pieces(word)]
        return found

    def term(self, word: str) -> tuple[str, bool]:
        """Return the term of a folded word, and whether it is a stop word."""
        bare, *ending = _APOSTROPHE.split(word)
        if ending == ["t"] or (bare in STOP_WORDS and ending in ([], *_ENDINGS)):
            return f"={bare}", True  # "don't", "they've"; no stem has this sign
        if ending and ending not in _ENDINGS:
            bare += "".join(ending)  # "O'Brien"
        return self._stemmer.stemWord(bare), False

    def terms(self, text: str) -> list[str]:
        """Return the different terms of *text*, sorted; stop words only if there are no others."""
        pairs = {self.term(word) for word in self.words(text)}
        content = [term for term, stop in pairs if not stop]
        return sorted(content or (term for term, _ in pairs))


def fold(text: str) -> str:
    """Return *text* without differences of case, width and accents."""
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFC", _ACCENT.sub("", spread))


def _pieces(word: str) -> list[str]:
    found: list[str] = []
    for run in _RUN.findall(word):
        if _UNSPACED_ONE.match(run) and len(run) > 1:
            found += [run[i : i + 2] for i in range(len(run) - 1)]
        else:
            found.append(run)
    return found
