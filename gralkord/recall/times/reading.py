"""What the rules of the grammar have in common: the words, the moment of asking, the place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from gralkord.recall.times.context import COUNTED
from gralkord.recall.times.spans import Span
from gralkord.recall.times.tokens import NONE, Token

# So many dates are looked for in a text at most, so deep within each other.
MAX_TRIES: Final = 48
MAX_DEPTH: Final = 4
LEAST_YEAR: Final = 1000
AFTER_NUMBERS: Final = frozenset({"month", "unit", "units"})
# Kinds of words that seldom begin a date, which is soon told.
CHEAP: Final = frozenset({"article", "count", "unit", "number", "ordinal"})


class Found(NamedTuple):
    """A date that was read: what it names, and the number of the word behind it."""

    spans: tuple[Span, ...]
    next: int


Rule = Callable[["Reading", int], Found | None]


@dataclass(slots=True)
class Reading:
    """A text that is being read.

    Attributes:
        rest: Its words, those that were not looked at yet.
        now: The moment of asking, local time.
        rules: What may begin with a word, by its kind; the longest first.
        future: The text is about what is to come.
        tries: How many more dates are looked for.
        depth: Within how many others one is being read.
        skip: Up to which word there is nothing, as it is no date though it looks like one.
        tokens: Its words as far as they were looked at.
    """

    rest: Iterator[Token]
    now: datetime
    rules: Mapping[str, Sequence[Rule]]
    future: bool = False
    tries: int = MAX_TRIES
    depth: int = 0
    skip: int = 0
    tokens: list[Token] = field(default_factory=list)

    def at(self, number: int) -> Token:
        """Return the word of that number; `NONE` before the first and behind the last."""
        if number < 0:
            return NONE
        while number >= len(self.tokens):
            token = next(self.rest, None)
            if token is None:
                return NONE
            self.tokens.append(token)
        return self.tokens[number]

    def kind(self, number: int) -> str:
        """Return the kind of the word of that number."""
        return self.at(number).kind

    def date(self, number: int) -> Found | None:
        """Return the date that begins with the word of that number."""
        rules = self.rules.get(self.kind(number), ())
        if not rules or self._alone(number) or self.tries <= 0 or self.depth >= MAX_DEPTH:
            return None
        self.tries -= (
            self.depth > 0 or self.kind(number) not in CHEAP or self.at(number).value >= LEAST_YEAR
        )
        self.depth += 1
        try:
            for rule in rules:
                try:
                    found = rule(self, number)
                except (ValueError, OverflowError):  # the 31st of June, a million years ago
                    continue
                if found is not None and not found.spans:
                    self.skip = max(self.skip, found.next)
                    return None
                if found is not None:
                    return found
            return None
        finally:
            self.depth -= 1

    def _alone(self, number: int) -> bool:
        """Return whether a number is surely of no date."""
        token = self.at(number)
        if token.kind != "number" or token.value >= LEAST_YEAR:
            return False
        after = self.at(number + 1)
        if after.kind == "dash":  # "3-9 July", "3-July"
            number += 1 + (self.kind(number + 2) == "number")
            after = self.at(number + 1)
        return after.kind not in AFTER_NUMBERS and after.text != "of"

    def behind_the(self, number: int) -> int:
        """Return the number of the word behind "the", or *number* if there is none."""
        return number + (self.kind(number) == "the")

    def behind_of(self, number: int) -> int:
        """Return the number of the word behind "of the" or "in the", each of which may miss."""
        return self.behind_the(number + (self.at(number).text in {"of", "in"}))

    def before(self, number: int) -> str:
        """Return the word before the one of that number, without "the"."""
        back = number - 1 - (self.kind(number - 1) == "the")
        return "" if self.at(back).closes else self.at(back).text

    def closed(self, number: int) -> bool:
        """Return whether nothing follows that belongs to the words up to *number*."""
        return self.at(number) is NONE or self.at(number - 1).closes

    def counts(self, number: int) -> bool:
        """Return whether what follows is counted: what stands before is no year."""
        return not self.closed(number) and self.at(number).text in COUNTED
