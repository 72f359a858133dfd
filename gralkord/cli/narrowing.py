"""Options that narrow an answer down, of ``recall`` and ``search``: filters, tiers and tokens."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import typer

Speakers = Annotated[
    list[str] | None,
    typer.Option("--speaker", metavar="NAME", help="Only what they said; may be repeated."),
]
Sources = Annotated[
    list[str] | None,
    typer.Option("--source", metavar="SOURCE", help="Only what is from it; may be repeated."),
]
Sessions = Annotated[
    list[str] | None,
    typer.Option(
        "--from-session", metavar="SESSION", help="Only what was said in it; may be repeated."
    ),
]
Since = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only what was said or happened then or later, ISO 8601."),
]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Likewise, then or earlier; a date alone means all of that day."
    ),
]
Meta = Annotated[
    list[str] | None,
    typer.Option(
        "--meta",
        metavar="NAME=VALUE",
        help="Only with such metadata, also NAME>=VALUE and NAME<=VALUE; may be repeated: values "
        "of one name are any of them.",
    ),
]
TierOption = Annotated[
    int | None,
    typer.Option(
        "--tier",
        help="How much is shown: 1 ids, 2 snippets, 3 previews. Default: all.",
        min=1,
        max=3,
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(help="Tokens that the memory block takes at most.", min=1, max=1_000_000),
]

_CONDITION: Final = re.compile(r"(.+?)(>=|<=|=)(.*)", re.DOTALL)
_BOUNDS: Final = {">=": "gte", "<=": "lte"}


def filters_of(
    meta: list[str] | None,
    speaker: list[str] | None,
    source: list[str] | None,
    session: list[str] | None,
    since: str | None,
    until: str | None,
) -> dict[str, Any] | None:
    """Return the filters that options name; None if there are none.

    Raises:
        BadParameter: What is said of the metadata is no condition.
    """
    told = {"speaker": speaker, "source": source, "session": session}
    filters: dict[str, Any] = {name: names for name, names in told.items() if names}
    span = {"gte": since, "lte": until}
    if when := {name: time for name, time in span.items() if time is not None}:
        filters["event_time"] = when
    if meta:
        filters["metadata"] = conditions_of(meta)
    return filters or None


def conditions_of(pairs: list[str]) -> dict[str, Any]:
    """Return what ``NAME=VALUE``, ``NAME>=VALUE`` and ``NAME<=VALUE`` ask of metadata.

    A value that reads as a number or a truth value stands for the same as a text, too.

    Raises:
        BadParameter: One is neither, or a name has both a value and a range.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        match = _CONDITION.fullmatch(pair)
        if match is None:
            raise typer.BadParameter(f"--meta {pair[:64]!r} is not NAME=VALUE")
        name, sign, text = match.groups()
        value = _value(text)
        kind = list if sign == "=" else dict
        known = found.setdefault(name, kind())
        if not isinstance(known, kind) or (isinstance(known, dict) and _BOUNDS[sign] in known):
            raise typer.BadParameter(f"--meta {name[:64]!r} is asked for in two ways")
        if isinstance(known, dict):
            known[_BOUNDS[sign]] = value
        else:
            known += [text] if value == text else [text, value]
    return found


def _value(text: str) -> str | int | float | bool:
    import orjson

    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if isinstance(value, int | float) else text
