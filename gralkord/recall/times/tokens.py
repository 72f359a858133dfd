"""A text as words of the grammar, with figures told apart: years, days, dates, versions, prices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from gralkord.recall.times.context import FUTURE
from gralkord.recall.times.words import HINTS, TENS, VOCABULARY

# So many words of a text are read at most, not counting sentences that tell no time.
MAX_CHUNKS: Final = 600
# Shorter texts are read as a whole.
SHORT: Final = 500
PAIR: Final = 2
# Longer ones are addresses.
MAX_WORD: Final = 40
# More words with figures or signs are a table.
MAX_FIGURES: Final = 40
YEAR_DIGITS: Final = 4
# '51 is of the last century.
LAST_SHORT: Final = 50
# "Sept." ends no sentence.
ABBREVIATED: Final = 4

_CHUNK = re.compile(r"[,;()\[\]]|[^\s,;()\[\]\u2014\u2026]+")
_WORDS = re.compile(r"[a-z]+(?:\d(?!\d))?")
# Figures that may be a date: a year, a day of a date, a clock's or a decade's.
_FIGURES = re.compile(r"\d{4}|\d[./-]\d|\d(?:st|nd|rd|th)\b|\d0['\u2019]?s\b")
# "Sept. 5" is not the end of a sentence.
_END = re.compile(r"(?<=[a-z]{5})[.!?]+\s+|\n\s*\n")
_MARKS: Final = {",": "comma", **dict.fromkeys(";()[]", "mark")}
_OPENING: Final = "\"'`*_<{\u201c\u2018"
_CLOSING: Final = ".:!?\"'`*_>}\u201d\u2019"
_APOSTROPHES: Final = str.maketrans("", "", "'\u2019")
_DASHES = re.compile("[-\u2010-\u2013/]")

_NUMBER = re.compile(r"\d{1,4}", re.ASCII)
_NTH = re.compile(r"(\d{1,2})(?:st|nd|rd|th)", re.ASCII)
_DECADE = re.compile(r"['\u2019]?((?:1[0-9]|20)?\d0)['\u2019]?s", re.ASCII)
_SHORT_YEAR = re.compile(r"['\u2019](\d\d)", re.ASCII)
_YEARS = re.compile(r"((?:1[5-9]|20|21)\d\d)[-/\u2013]((?:1[5-9]|20|21)?\d\d)", re.ASCII)
_CLOCK = re.compile(r"\d{1,2}(?::\d\d){0,2}(?:[ap]\.?m)?|\d{1,2}[ap]m", re.ASCII)
_EXACT: Final = {
    "iso": re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:t\d\d:?\d\d.*)?|(\d{4})/(\d\d)/(\d\d)", re.ASCII),
    "iso month": re.compile(r"([12]\d{3})-(0\d|1[0-2])", re.ASCII),
    "iso week": re.compile(r"(\d{4})-w(\d\d)", re.ASCII),
    "slashes": re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})", re.ASCII),
    "dots": re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})", re.ASCII),
}


class Token(NamedTuple):
    """A word of the grammar.

    Attributes:
        kind: What it may be, see `VOCABULARY`; ``word`` is none of it.
        value: The number that goes with the kind.
        text: In small letters, without apostrophes.
        start: Its first character in the text.
        end: The character behind its last.
        numbers: The figures of a date.
        owns: It ends with an apostrophe and s.
        closes: A sentence or a clause ends with it.
    """

    kind: str
    value: int
    text: str
    start: int
    end: int
    numbers: tuple[int, ...] = ()
    owns: bool = False
    closes: bool = False


NONE: Final = Token("none", 0, "", 0, 0)


def words_of(small: str) -> set[str]:
    """Return the different words of a text in small letters."""
    return set(_WORDS.findall(small))


def may_tell(small: str, words: set[str]) -> bool:
    """Return whether a text in small letters may name a time; else it is sure to name none."""
    return not HINTS.isdisjoint(words) or _FIGURES.search(small) is not None


def is_ahead(words: set[str]) -> bool:
    """Return whether a text of these words is about what is to come."""
    return not FUTURE.isdisjoint(words)


def tokens_of(small: str) -> Iterator[Token]:
    """Yield the words of a text in small letters; of a long one, of what may tell a time."""
    figures = 0
    for match, offset in islice(_chunks(small), MAX_CHUNKS):
        chunk, at = match[0], match.start() + offset
        kind, value = VOCABULARY.get(chunk, ("", 0))
        if kind:
            yield Token(kind, value, chunk, at, at + len(chunk))
        elif chunk in _MARKS:
            yield Token(_MARKS[chunk], 0, chunk, at, at + 1)
        elif chunk.isalpha() or figures >= MAX_FIGURES or len(chunk) > MAX_WORD:
            yield Token("word", 0, chunk, at, at + len(chunk))
        elif chunk.isdigit() and chunk.isascii() and len(chunk) <= YEAR_DIGITS:
            yield Token("number", int(chunk), chunk, at, at + len(chunk))
        else:
            core = chunk.rstrip(_CLOSING)
            figures += not core.isalpha()
            yield from _split(chunk, core, at)


def _chunks(small: str) -> Iterator[tuple[re.Match[str], int]]:
    for offset, sentence in _sentences(small):
        if may_tell(sentence, words_of(sentence)):
            for match in _CHUNK.finditer(sentence):
                yield match, offset


def _sentences(small: str) -> Iterator[tuple[int, str]]:
    start = 0
    if len(small) > SHORT:
        for match in _END.finditer(small):
            yield start, small[start : match.end()]
            start = match.end()
    yield start, small[start:]


def _split(chunk: str, core: str, at: int) -> Iterator[Token]:
    """Yield the parts of a word and what surrounds it; *core* is without the marks behind it."""
    closing = chunk[len(core) :]
    if core and not (_DECADE.fullmatch(core) or _SHORT_YEAR.fullmatch(core)):
        bare = core.lstrip(_OPENING)
        at += len(core) - len(bare)
        core = bare
    if not core:
        return
    closes = any(mark in closing for mark in ".:!?") and not (
        closing == "." and core in VOCABULARY and len(core) <= ABBREVIATED
    )
    tokens = _joined(core, at) or [_one(core, at)]
    yield from tokens[:-1]
    yield tokens[-1]._replace(closes=closes)


def _joined(core: str, at: int) -> list[Token]:
    """Return the parts of words joined by a dash, if all of them are words of the grammar."""
    if core.isalpha():
        return []
    tens, _, ones = core.partition("-")
    if tens in TENS and ones in VOCABULARY:  # "twenty-five", "twenty-first"
        kind, value = VOCABULARY[ones]
        return [Token(kind, TENS[tens] + value, core.replace("-", ""), at, at + len(core))]
    if core[0].isdigit() and core[-1].isdigit():
        return _days(core, at) or _days_of_month(core, at)
    if not _DASHES.search(core):
        return []
    return _parts(core, at)


def _days_of_month(core: str, at: int) -> list[Token]:
    """Return the parts of "7-may-2023"."""
    return _parts(core, at) if re.search("[a-z]", core) else []


def _parts(core: str, at: int) -> list[Token]:
    found: list[Token] = []
    place = 0
    for part in _DASHES.split(core):
        if found:
            found.append(Token("dash", 0, "-", at + place - 1, at + place))
        if not part or (token := _one(part, at + place)).kind in {"word", "figures", "clock"}:
            return []
        found.append(token)
        place += len(part) + 1
    return found


def _days(core: str, at: int) -> list[Token]:
    """Return the parts of "3-9", or of "3rd-9th": days of a month."""
    parts = re.split("[-\u2013/]", core)
    if len(parts) != PAIR or not all(re.fullmatch(r"\d{1,2}(?:st|nd|rd|th)?", p) for p in parts):
        return []
    first, last = parts
    middle = at + len(first)
    return [
        _one(first, at),
        Token("dash", 0, "-", middle, middle + 1),
        _one(last, middle + 1),
    ]


def _one(core: str, at: int) -> Token:
    end = at + len(core)
    if core in VOCABULARY or core.isalpha():
        kind, value = VOCABULARY.get(core, ("word", 0))
        return Token(kind, value, core, at, end)
    if not any(letter.isdigit() for letter in core):
        owns = core.endswith(("'s", "\u2019s"))
        bare = core.translate(_APOSTROPHES)
        known = VOCABULARY.get(core[:-2]) if owns else None
        kind, value = known or VOCABULARY.get(bare, ("word", 0))
        return Token(kind, value, core[:-2] if known else bare, at, end, owns=known is not None)
    if core.endswith(("'s", "\u2019s")) and _NUMBER.fullmatch(core[:-2]) and core[-3] != "0":
        return Token("number", int(core[:-2]), core[:-2], at, end, owns=True)
    return _figures(core, at, end)


def _figures(core: str, at: int, end: int) -> Token:
    plain = core.replace("\u2019", "'").replace("\u2013", "-")
    kind = "clock" if _CLOCK.fullmatch(core) else "figures"
    if _NUMBER.fullmatch(plain):
        kind, value = "number", int(plain)
    elif match := _NTH.fullmatch(plain):
        kind, value = "ordinal", int(match[1])
    elif match := _SHORT_YEAR.fullmatch(plain):
        value = int(match[1])
        kind, value = "short year", value + (1900 if value > LAST_SHORT else 2000)
    elif match := _DECADE.fullmatch(plain):
        value = int(match[1])
        kind, value = "decade", value + (0 if value > 99 else 1900 if value > 20 else 2000)
    else:
        exact = _exact(plain)
        return (
            Token(*exact[:2], core, at, end, exact[2]) if exact else Token(kind, 0, core, at, end)
        )
    return Token(kind, value, core, at, end)


def _exact(plain: str) -> tuple[str, int, tuple[int, ...]] | None:
    for kind, pattern in _EXACT.items():
        if match := pattern.fullmatch(plain):
            return kind, 0, tuple(int(group) for group in match.groups() if group)
    match = _YEARS.fullmatch(plain)
    if match is None:
        return None
    first, last = int(match[1]), int(match[2])
    last += first // 100 * 100 if last < 100 else 0
    return ("years", 0, (first, last)) if first < last < first + 200 else None
