"""The words of the grammar: what each may mean where it stands."""

from __future__ import annotations

from typing import Final

MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december"),
)
WEEKDAYS: Final = (*("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),)
_SHORT_MONTHS: Final = {month[:3]: number for number, month in enumerate(MONTHS, 1)} | {"sept": 9}
_SHORT_DAYS: Final = {
    **{day[:3]: number for number, day in enumerate(WEEKDAYS)},
    "tues": 1,
    "thur": 3,
    "thurs": 3,
}
UNITS: Final = (
    *("minute", "hour", "day", "night", "week", "weekend", "fortnight", "month", "quarter"),
    *("year", "decade", "century"),
)
SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
# First and last hour of each part of a day; a night ends on the next day.
PARTS: Final = {
    "morning": (6, 12),
    "noon": (11, 14),
    "lunchtime": (11, 14),
    "afternoon": (12, 18),
    "evening": (18, 24),
    "night": (18, 30),
    "tonight": (18, 30),
}
_CARDINALS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen", "twenty"),
)
_ORDINALS: Final = (
    *("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"),
    *("ninth", "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth"),
    *("sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth"),
)
TENS: Final = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}
_DECADES: Final = {
    "twenties": 1920,
    "thirties": 1930,
    "forties": 1940,
    "fifties": 1950,
    "sixties": 1960,
    "seventies": 1970,
    "eighties": 1980,
    "nineties": 1990,
}

# Feasts by their words without apostrophes: month and day.
FEASTS: Final[dict[tuple[str, ...], tuple[int, int]]] = {
    tuple(words.split()): day
    for words, day in {
        "new years eve": (12, 31),
        "new years day": (1, 1),
        "new year": (1, 1),
        "new years": (1, 1),
        "epiphany": (1, 6),
        "groundhog day": (2, 2),
        "valentines day": (2, 14),
        "valentines": (2, 14),
        "valentine day": (2, 14),
        "womens day": (3, 8),
        "st patricks day": (3, 17),
        "saint patricks day": (3, 17),
        "april fools day": (4, 1),
        "april fools": (4, 1),
        "earth day": (4, 22),
        "may day": (5, 1),
        "cinco de mayo": (5, 5),
        "juneteenth": (6, 19),
        "midsummer day": (6, 24),
        "canada day": (7, 1),
        "independence day": (7, 4),
        "bastille day": (7, 14),
        "halloween": (10, 31),
        "all saints day": (11, 1),
        "guy fawkes night": (11, 5),
        "bonfire night": (11, 5),
        "veterans day": (11, 11),
        "armistice day": (11, 11),
        "christmas eve": (12, 24),
        "christmas day": (12, 25),
        "christmas": (12, 25),
        "xmas": (12, 25),
        "boxing day": (12, 26),
    }.items()
}
# How many words the feasts have that begin with a word, the most first.
LENGTHS: Final = {
    words[0]: sorted({len(other) for other in FEASTS if other[0] == words[0]}, reverse=True)
    for words in FEASTS
}

# Each word with its kind and number; whatever is not here is a `word`.
VOCABULARY: Final[dict[str, tuple[str, int]]] = {
    **{words[0]: ("feast", 0) for words in FEASTS},
    **{word: ("month", number) for word, number in _SHORT_MONTHS.items()},
    **{word: ("month", number) for number, word in enumerate(MONTHS, 1)},
    **{word: ("short day", number) for word, number in _SHORT_DAYS.items()},
    **{word: ("weekday", number) for number, word in enumerate(WEEKDAYS)},
    **dict.fromkeys(PARTS, ("part", 0)),
    **{word: ("unit", number) for number, word in enumerate(UNITS)},
    **{f"{word}s": ("units", number) for number, word in enumerate(UNITS)},
    "centuries": ("units", UNITS.index("century")),
    "tonight": ("near", 0),
    **{word: ("season", month) for word, month in SEASONS.items()},
    **{word: ("count", number) for number, word in enumerate(_CARDINALS) if number},
    **{word: ("count", number) for word, number in TENS.items()},
    "several": ("count", 4),
    "couple": ("count", 2),
    "few": ("count", 3),
    "a": ("article", 1),
    "an": ("article", 1),
    "the": ("the", 0),
    **{word: ("ordinal", number) for number, word in enumerate(_ORDINALS) if number},
    **{word: ("decade", number) for word, number in _DECADES.items()},
    "last": ("which", -1),
    "past": ("which", -1),
    "previous": ("which", -1),
    "this": ("which", 0),
    "current": ("which", 0),
    "next": ("which", 1),
    "coming": ("which", 1),
    "upcoming": ("which", 1),
    "today": ("near", 0),
    "yesterday": ("near", -1),
    "tomorrow": ("near", 1),
    **dict.fromkeys(("early", "start", "beginning"), ("third", 0)),
    **dict.fromkeys(("mid", "middle"), ("third", 1)),
    **dict.fromkeys(("late", "end"), ("third", 2)),
    "earlier": ("side", 0),
    "later": ("side", 1),
    "h1": ("half", 1),
    "h2": ("half", 2),
    **{f"q{number}": ("quarter", number) for number in range(1, 5)},
    "from": ("range", 0),
    "between": ("range", 0),
    "before": ("bound", 0),
    "after": ("bound", 1),
    "since": ("bound", 2),
    **dict.fromkeys(("until", "till", "by", "through"), ("bound", 3)),
}

# A text without any of these words and without figures names no time.
HINTS: Final = {
    "eve",
    "mayo",
    "christmas",
    "xmas",
    "halloween",
    "juneteenth",
    "epiphany",
    "valentine",
    "valentines",
} | {
    word
    for word, (kind, _) in VOCABULARY.items()
    if kind
    in {
        *("month", "short day", "weekday", "part", "unit", "units", "season", "decade", "near"),
        *("quarter", "half"),
    }
}
