"""The words beside a date: which make it one, and which say that it is none."""

from __future__ import annotations

from typing import Final


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


# Months that are other words as well: alone they need a preposition.
AMBIGUOUS: Final = _words("dec jan mar march may sep sept")
PEOPLE: Final = _words("april august jan june may")
# What comes before a person, and after one, but not before or after a month.
BEFORE_PEOPLE: Final = _words(
    "and ask asked call called can could dear did do does for had has have hello hi is meet",
    "met name named should tell to told was were will with would",
)
AFTER_PEOPLE: Final = _words(
    "ask asked asks be called can could did does feels felt gets goes got had has is liked",
    "likes lived lives loved loves mentioned met might moved must replied said say says",
    "should tell tells thinks thought told wanted wants was went will worked works would",
    "wrote",
)
# What may stand before the year, month, weekday or season itself.
PREPOSITIONS: Final = _words(
    "about after around at before between by circa during every for from in of on over since",
    "through throughout till until within",
)
WITHIN: Final = _words("around between during every from in since through till until")
# What comes after or before numbers that are no years.
COUNTED: Final = _words(
    "attempts bucks bytes calories cents characters chars cm copies customers days degrees",
    "dollars employees entries errors eur euros feet files ft games gb gbp grams hours hz",
    "inches items iterations kb kg kilometers kilometres km lines m mb members messages",
    "meters metres mhz miles minutes mm months ms pages people percent pieces pixels points",
    "pounds px queries records requests rows rpm samples seconds steps students tickets times",
    "tokens turns units usd users volts votes watts weeks words years yen",
)
NUMBERED: Final = _words(
    "apartment article block box build building bus channel chapter code column commit error",
    "es ext extension flight gate highway house http id invoice isbn issue java line locker",
    "lot model no nr number office order page paragraph pin platform port pr python ref rev",
    "revision room route row section status step suite ticket unit v version windows",
)
STREETS: Final = _words(
    "ave avenue blvd boulevard court dr drive lane ln place rd road square st street way",
)
# Whose forties are an age.
OWNERS: Final = _words("her his its my our someones their your")
# By which a text is told to be about what is to come.
FUTURE: Final = _words(
    "due going plan planned planning plans scheduled shall tomorrow upcoming will",
)
