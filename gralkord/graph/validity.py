"""What holds when: the end of a passage or a fact, seen from any moment and with any knowledge.

Four things end a memory: the end that was told with it, a fact that superseded it, somebody who
invalidated it, and the end of all passages that it was taken from. The first is about the world,
the others are found out at some time, so that what was known before that time does not have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from gralkord.graph.rows import NEVER_MS, FactRow, PassageRow, to_ms

if TYPE_CHECKING:
    from datetime import datetime

# Reasons that are not somebody's own words.
REPLACED: Final = "replaced"
PASSAGES_ENDED: Final = "passages_invalidated"
_TOLD: Final = "ended"


@dataclass(frozen=True, slots=True)
class View:
    """From where memory is looked at. Times are Unix milliseconds.

    Attributes:
        now_ms: The time.
        as_of_ms: What was valid then is asked for; default: what is valid now.
        known_ms: Only what was known then counts; default: all that is known.
        include_invalidated: What does not hold any more is shown, too.
    """

    now_ms: int
    as_of_ms: int | None = None
    known_ms: int | None = None
    include_invalidated: bool = False

    @property
    def moment_ms(self) -> int:
        """The moment at which a memory has to hold."""
        if self.as_of_ms is not None:
            return self.as_of_ms
        return self.now_ms if self.known_ms is None else self.known_ms


def view_at(
    now: datetime,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    *,
    include_invalidated: bool = False,
) -> View:
    """Return the view that a question asks for."""
    return View(
        _ms(now),
        None if as_of is None else _ms(as_of),
        None if known_at is None else _ms(known_at),
        include_invalidated,
    )


class Ending(NamedTuple):
    """How a memory ends.

    Attributes:
        at: Since when it does not hold any more, ISO 8601; None: it holds.
        ms: The same in Unix milliseconds; `NEVER_MS`: it holds.
        found_out: It was found to have ended, which hides it unless a moment is asked for.
        reason: Why it ended.
    """

    at: str | None
    ms: int
    found_out: bool
    reason: str | None

    def hides(self, view: View) -> bool:
        """Whether it has ended for that view."""
        return self.ms <= view.moment_ms or (self.found_out and view.as_of_ms is None)


ENDLESS: Final = Ending(None, NEVER_MS, found_out=False, reason=None)


def passage_ending(row: PassageRow, known_ms: int | None = None) -> Ending:
    """Return how a passage ends, as far as that was known at *known_ms* (default: now).

    Raises:
        ValueError: A time of it cannot be read.
    """
    told = _ending(row.invalid_at, _TOLD)
    return _withdrawn(row, told, known_ms)


def fact_ending(row: FactRow, known_ms: int | None = None) -> Ending:
    """Return how a fact ends, as far as that was known at *known_ms* (default: now).

    Raises:
        ValueError: A time of it cannot be read.
    """
    told = superseded_ending(row, known_ms)
    return _withdrawn(row, told, known_ms)


def superseded_ending(row: FactRow, known_ms: int | None = None) -> Ending:
    """Return how a fact ends by what other facts say, whatever people have invalidated.

    Raises:
        ValueError: A time of it cannot be read.
    """
    found_at = row.superseded_at or row.expired_at
    if row.superseded_by is not None and (
        row.superseded_by in row.undone or not _known(found_at, known_ms)
    ):
        told = _ending(row.superseded_invalid_at, _TOLD)
        found_out = told.at is not None
    else:
        told = _ending(row.invalid_at, row.superseded_reason if row.superseded_by else _TOLD)
        found_out = True
    if found_out and row.expired_at and _known(row.expired_at, known_ms):
        if told.at is not None and told.ms > to_ms(row.expired_at):
            return told  # it was found out that it will end; until then it holds
        return told._replace(found_out=True, reason=told.reason or _TOLD)
    return told


def support_ending(endings: Iterable[Ending]) -> Ending:
    """Return how a fact ends by the end of its passages: not before the last of them."""
    last: Ending | None = None
    for each in endings:
        if each.ms == NEVER_MS and not each.found_out:
            return ENDLESS
        if last is None or each.ms > last.ms:
            last = each
    return ENDLESS if last is None else last._replace(reason=PASSAGES_ENDED)


def earlier(one: Ending, other: Ending) -> Ending:
    """Return the ending that comes first."""
    first = other if other.ms < one.ms else one
    return first._replace(found_out=one.found_out or other.found_out)


def _withdrawn(row: PassageRow | FactRow, told: Ending, known_ms: int | None) -> Ending:
    if row.withdrawn_at is None or not _known(row.withdrawn_at, known_ms):
        return told
    return earlier(told, _ending(row.withdrawn_until or row.withdrawn_at, row.withdrawn_reason))


def _ending(at: str | None, reason: str | None) -> Ending:
    return Ending(at, to_ms(at), found_out=False, reason=reason) if at else ENDLESS


def _known(at: str | None, known_ms: int | None) -> bool:
    return known_ms is None or at is None or to_ms(at) <= known_ms


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
