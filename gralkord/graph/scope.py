"""What filters let through, row by row; `gralkord.graph.scope_masks` looks at all of a group.

A fact or note fits if what it says of itself does and, for what it does not say, all passages of
one of its episodes do: of which of them it was made, nobody can tell. What cannot be proven of a
row does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from gralkord.graph.rows import NEVER_MS, FactRow, PassageRow, to_ms
from gralkord.models.filters import Filters, last_moment

if TYPE_CHECKING:
    from gralkord.models.filters import Span

# The time of what tells none: it is in no range.
UNKNOWN_MS: Final = -NEVER_MS

# No time is longer.
MAX_MOMENT_CHARS: Final = 40

# A value and its type, so that 1 is 1.0 and not true.
_Key = tuple[str, Any]


class Range(NamedTuple):
    """Both ends within it; of times where both ends are times, else of numbers or texts."""

    of: str
    least: Any
    most: Any

    def holds(self, value: Any) -> bool:
        """Return whether a value is of the range's type and within it."""
        kind, found = _key(value)
        if self.of == "time":
            kind, found = "time", _moment(value)
        if kind != self.of or found is None:
            return False
        return (self.least is None or found >= self.least) and (
            self.most is None or found <= self.most
        )


Condition = frozenset[_Key] | Range


@dataclass(frozen=True, slots=True)
class Scope:
    """What a memory has to fit; None or nothing where that does not matter.

    Attributes:
        speakers: Who may have said it.
        sessions: In which sessions.
        sources: What it may be from.
        metadata: What its metadata must be, by name.
        since_ms: When it may have been said first, Unix milliseconds.
        until_ms: When last.
    """

    speakers: frozenset[str] | None = None
    sessions: frozenset[str] | None = None
    sources: frozenset[str] | None = None
    metadata: tuple[tuple[str, Condition], ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None

    @classmethod
    def of(cls, filters: Filters | None) -> Scope | None:
        """Return the scope of a question's filters; None if they let everything through."""
        if filters is None:
            return None
        span = filters.event_time
        scope = cls(
            speakers=_any_of(filters.speaker),
            sessions=_any_of(filters.session),
            sources=_any_of(filters.source),
            metadata=tuple(
                (name, _condition(filters.metadata[name])) for name in sorted(filters.metadata)
            ),
            since_ms=_first_ms(span),
            until_ms=_last_ms(span),
        )
        return None if scope == EVERYTHING else scope

    @property
    def timeless(self) -> Scope:
        """The same whenever it was said."""
        return replace(self, since_ms=None, until_ms=None)

    def accepts(self, row: PassageRow) -> bool:
        """Return whether a passage fits."""
        return self.in_time(row.event_ms) and self.fits(
            row.speaker, row.session, row.source, row.metadata
        )

    def fits(self, speaker: str, session: str, source: str | None, metadata: str | None) -> bool:
        """Return whether words fit, whenever they were said.

        Args:
            speaker: Who said them.
            session: In which session.
            source: What they are from.
            metadata: What their producer says about them, a JSON object.
        """
        return (
            (self.speakers is None or speaker in self.speakers)
            and (self.sessions is None or session in self.sessions)
            and (self.sources is None or source in self.sources)
            and (not self.metadata or self.describes(metadata))
        )

    def in_time(self, moment_ms: int) -> bool:
        """Return whether a time, Unix milliseconds, is within the range."""
        if self.since_ms is None and self.until_ms is None:
            return True
        return (
            moment_ms != UNKNOWN_MS
            and (self.since_ms is None or moment_ms >= self.since_ms)
            and (self.until_ms is None or moment_ms <= self.until_ms)
        )

    def accepts_fact(
        self, row: FactRow, said_in: Callable[[str, str | None], Sequence[PassageRow]]
    ) -> bool:
        """Return whether a fact or a note fits.

        Args:
            row: The fact.
            said_in: Returns the passages of an episode, or of one turn in it.
        """
        if not self.in_time(told_ms(row)):
            return False
        rest = self.timeless
        if rest.sources is not None and row.source is not None:
            if row.source not in rest.sources:
                return False
            rest = replace(rest, sources=None)
        own = own_metadata(row)
        if rest.metadata and own is not None:
            if not rest.describes(own):
                return False
            rest = replace(rest, metadata=())
        if rest == EVERYTHING:
            return True
        told = (said_in(episode, row.turn) for episode in row.episodes)
        return any(rows and all(map(rest.accepts, rows)) for rows in told)

    def describes(self, metadata: str | None) -> bool:
        """Return whether metadata, a JSON object, is as it must be."""
        if not metadata:
            return not self.metadata
        try:
            said = orjson.loads(metadata)
        except orjson.JSONDecodeError:
            return False
        return isinstance(said, dict) and all(
            name in said and meets(said[name], wanted) for name, wanted in self.metadata
        )


EVERYTHING: Final = Scope()


def own_metadata(row: FactRow) -> str | None:
    """Return what is said about a memory that somebody stored, a JSON object; None: nothing."""
    found = row.attributes.get("metadata") if row.note_kind == "memory" else None
    return found if isinstance(found, str) else None


def told_ms(row: FactRow) -> int:
    """Return when a fact or a note was told, Unix milliseconds; `UNKNOWN_MS` if that is unknown."""
    return to_ms(row.reference_time) if row.reference_time else UNKNOWN_MS


def meets(value: Any, wanted: Condition) -> bool:
    """Return whether a value of some metadata is as it must be; of a list, any of its values."""
    values = value if isinstance(value, list) else [value]
    if isinstance(wanted, Range):
        return any(map(wanted.holds, values))
    return any(isinstance(one, str | int | float) and _key(one) in wanted for one in values)


def _key(value: Any) -> _Key:
    if isinstance(value, bool):
        return "truth", value
    return ("text" if isinstance(value, str) else "number"), value


def _any_of(names: Sequence[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _condition(wanted: Any) -> Condition:
    if not isinstance(wanted, dict):
        return frozenset(map(_key, wanted if isinstance(wanted, list) else [wanted]))
    least, most = wanted.get("gte"), wanted.get("lte")
    moments = (
        None if least is None else _moment(least),
        None if most is None else _moment(most, last=True),
    )
    if [each is None for each in moments] == [least is None, most is None]:
        return Range("time", *moments)
    return Range(
        "text" if isinstance(least if most is None else most, str) else "number", least, most
    )


@lru_cache(maxsize=4096)
def _parsed(text: str, last: bool) -> datetime | None:
    try:
        found = last_moment(text) if last else datetime.fromisoformat(text.strip())
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        found.astimezone(UTC)
    except (OverflowError, ValueError):
        return None
    return found


def _moment(value: Any, *, last: bool = False) -> datetime | None:
    short = isinstance(value, str) and len(value) <= MAX_MOMENT_CHARS
    return _parsed(value, last) if short else None


def _first_ms(span: Span | None) -> int | None:
    if span is None or span.gte is None:
        return None
    return -int(-span.gte.timestamp() * 1000 // 1)


def _last_ms(span: Span | None) -> int | None:
    return None if span is None or span.lte is None else int(span.lte.timestamp() * 1000 // 1)
