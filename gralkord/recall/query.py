"""A question, read once: its terms, whether it asks for a time, and which times it names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from gralkord.graph.analyzer import Analyzer
from gralkord.recall.times import Period, find_periods

_ASKS_WHEN = re.compile(
    r"\b(?:when|how\s+long|how\s+recently|since\s+when|(?:what|which)\s+"
    r"(?:date|day|week|weekend|month|year|time|season))\b",
    re.IGNORECASE,
)

# Words by which people say when something was or will be.
TIME_WORDS: Final = (
    "yesterday today tonight tomorrow ago last next week weekend month year day monday tuesday "
    "wednesday thursday friday saturday sunday january february march april june july august "
    "september october november december recently since soon morning evening night"
)
FIRST_YEAR: Final = 1950
LAST_YEAR: Final = 2050


@dataclass(frozen=True, slots=True)
class Query:
    """A question.

    Attributes:
        text: Its words as they came.
        terms: Its different terms, sorted.
        words: All its terms, stop words too.
        asks_when: Whether the answer is a time.
        time_terms: Terms by which texts tell a time; none unless it asks for one.
        periods: The times that it names.
    """

    text: str
    terms: tuple[str, ...]
    words: frozenset[str]
    asks_when: bool
    time_terms: tuple[str, ...]
    periods: tuple[Period, ...]


class QueryReader:
    """Reads questions; for one thread at a time."""

    def __init__(self) -> None:
        self._analyzer = Analyzer()
        years = map(str, range(FIRST_YEAR, LAST_YEAR + 1))
        self._time_terms = (*self._analyzer.terms(TIME_WORDS), *years)

    @property
    def analyzer(self) -> Analyzer:
        """What finds the terms."""
        return self._analyzer

    def read(self, text: str, now: datetime, zone: tzinfo | None = None) -> Query:
        """Return the question *text* as asked at *now* by somebody in *zone*."""
        asks_when = bool(_ASKS_WHEN.search(text))
        words = frozenset(self._analyzer.term(word)[0] for word in self._analyzer.words(text))
        return Query(
            text=text,
            terms=tuple(self._analyzer.terms(text)),
            words=words,
            asks_when=asks_when,
            time_terms=self._time_terms if asks_when else (),
            periods=tuple(find_periods(text, now, zone)),
        )

    def without(self, query: Query, names: Iterable[str]) -> str:
        """Return the question without the words of *names*; as it is if nothing else is in it.

        The vector of a question is to find what it asks, not all that mentions the same people.
        """
        leave_out = {term for name in names for term in self._analyzer.terms(name)}

        def kept(match: re.Match[str]) -> str:
            terms = self._analyzer.terms(match[0])
            return "" if terms and leave_out.issuperset(terms) else match[0]

        rest = re.sub(r"[^\W_]+(?:['\u2019][^\W_]+)*", kept, query.text)
        return rest if self._analyzer.words(rest) else query.text
