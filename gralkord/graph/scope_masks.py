"""Which rows of a group fit a scope: found once for each scope, then row by row as they come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from gralkord.graph.scope import EVERYTHING, UNKNOWN_MS, Condition, Scope, meets

if TYPE_CHECKING:
    from gralkord.graph.passage_table import PassageTable
    from gralkord.graph.rows import PassageRow
    from gralkord.graph.tables import FactTable

Flags = NDArray[np.bool_]
Known = TypeVar("Known")

# So many scopes, and names of metadata, are remembered for each group: a few bytes a row each.
REMEMBERED: Final = 8
MISSING: Final = -1


class ScopeMasks:
    """The rows of one group that fit. The group's lock is held by whoever asks."""

    def __init__(self) -> None:
        self._revision = 0
        self._passages: OrderedDict[Scope, Flags] = OrderedDict()
        self._facts: OrderedDict[Scope, tuple[tuple[int, int], Flags]] = OrderedDict()
        self._values: OrderedDict[str, _Values] = OrderedDict()

    def passages(self, table: PassageTable, scope: Scope) -> Flags:
        """Return which passages fit."""
        return self._said(table, scope.timeless) & _in_time(table.event_ms, scope)

    def facts(self, table: FactTable, passages: PassageTable, scope: Scope) -> Flags:
        """Return which facts and notes fit."""
        in_time = _in_time(table.told_ms, scope)
        # Times are the facts' own.
        timeless = scope.timeless
        if timeless == EVERYTHING:
            return in_time
        upto = (passages.changes, table.changes)
        known = self._facts.pop(timeless, None)
        if known is None or known[0] != upto:
            known = upto, self._told(table, passages, timeless)
        _remember(self._facts, timeless, known)
        return known[1] & in_time

    def _told(self, table: FactTable, passages: PassageTable, scope: Scope) -> Flags:
        fit = np.zeros(len(table), dtype=np.bool_)
        whole = passages.whole_episodes(self._said(passages, scope))
        if numbers := table.stated_in(whole):
            fit[numbers] = True

        def said_in(episode: str, turn: str | None) -> list[PassageRow]:
            return passages.of_episode(episode, turn)

        for number in table.own:
            fit[number] = scope.accepts_fact(table.row(number), said_in)
        return fit

    def _said(self, table: PassageTable, scope: Scope) -> Flags:
        if scope == EVERYTHING:
            return np.ones(len(table), dtype=np.bool_)
        if self._revision != table.revision:
            self._passages.clear()
            self._values.clear()
            self._revision = table.revision
        known = self._passages.pop(scope, None)
        if known is None:
            known = np.zeros(0, dtype=np.bool_)
        if len(known) < len(table):
            known = np.concatenate([known, self._more(table, scope, len(known))])
        _remember(self._passages, scope, known)
        return known

    def _more(self, table: PassageTable, scope: Scope, first: int) -> Flags:
        fit = np.ones(len(table) - first, dtype=np.bool_)
        names = (
            ("speaker", scope.speakers),
            ("session", scope.sessions),
            ("source", scope.sources),
        )
        for field, wanted in names:
            if wanted is not None:
                fit &= np.fromiter(
                    (name in wanted for name in table.told(field, first)), np.bool_, len(fit)
                )
        for name, condition in scope.metadata:
            values = self._values.pop(name, None) or _Values(name)
            values.follow(table.told("metadata", len(values.codes)))
            _remember(self._values, name, values)
            fit &= values.meeting(condition, first)
        return fit


class _Values:
    """What the metadata of each row has under one name.

    Args:
        name: The name.

    Attributes:
        codes: Number of each row's value, `MISSING` where there is none.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.codes = np.zeros(0, dtype=np.int32)
        self._values: list[Any] = []
        self._numbers: dict[tuple[type, Any], int] = {}

    def follow(self, metadata: Sequence[str | None]) -> None:
        """Take up rows that have come."""
        if metadata:
            more = np.fromiter(map(self._code, metadata), np.int32, len(metadata))
            self.codes = np.concatenate([self.codes, more])

    def meeting(self, condition: Condition, first: int) -> Flags:
        """Return which rows meet a condition, from number *first* on."""
        codes = self.codes[first:]
        # What is missing has the last place.
        fit = np.zeros(len(self._values) + 1, dtype=np.bool_)
        for code in np.unique(codes).tolist():
            fit[code] = code != MISSING and meets(self._values[code], condition)
        met: Flags = fit[codes]
        return met

    def _code(self, metadata: str | None) -> int:
        if not metadata:
            return MISSING
        try:
            said = orjson.loads(metadata)
        except orjson.JSONDecodeError:
            return MISSING
        if not isinstance(said, dict) or self._name not in said:
            return MISSING
        value = said[self._name]
        plain = value if isinstance(value, str | int | float) else orjson.dumps(value)
        number = self._numbers.setdefault((type(value), plain), len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number


def _remember(known: OrderedDict[Any, Known], key: Any, value: Known) -> None:
    """Put something behind what was asked for before, of which only the last few stay."""
    known[key] = value
    while len(known) > REMEMBERED:
        known.popitem(last=False)


def _in_time(moments: NDArray[np.int64], scope: Scope) -> Flags:
    if scope.since_ms is None and scope.until_ms is None:
        return np.ones(len(moments), dtype=np.bool_)
    fit: Flags = moments != UNKNOWN_MS
    if scope.since_ms is not None:
        fit &= moments >= scope.since_ms
    if scope.until_ms is not None:
        fit &= moments <= scope.until_ms
    return fit
