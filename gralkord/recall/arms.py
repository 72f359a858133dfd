"""What each arm says about every row of a group: plain numbers, not yet weighed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gralkord.graph.cache import GroupCache
from gralkord.graph.validity import View
from gralkord.graph.vectors import VectorMatrix
from gralkord.recall.query import Query
from gralkord.recall.times import closeness

Numbers = NDArray[np.float32]
Flags = NDArray[np.bool_]

# Share of a neighbour in the vector of a turn.
NEIGHBOUR_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class PassageArms:
    """What is known about each passage of a group; None where the question gives no occasion.

    BM25 is a share of the best that a text could have, so that it compares between groups.

    Attributes:
        turn: BM25 of the turn.
        one: BM25 of the turn with a neighbour on each side.
        two: The same with two neighbours on each side.
        session: BM25 of its session.
        cosine: Closeness of the turn's vector.
        vector: That with half of each neighbour's; of turns whose vector is yet to come, what their
            words let expect.
        speaker: Whether the question names its speaker.
        asks: Whether it is itself a question.
        tells_when: Whether it tells a time, if the question asks for one.
        period: How well its time fits those that the question names, 0 to 1.
        shown: Whether it may be returned.
    """

    turn: Numbers
    one: Numbers
    two: Numbers
    session: Numbers
    cosine: Numbers | None
    vector: Numbers | None
    speaker: Flags | None
    asks: Flags
    tells_when: Flags | None
    period: Numbers | None
    shown: Flags


@dataclass(frozen=True, slots=True)
class FactArms:
    """What is known about each fact of a group.

    Attributes:
        words: BM25 of the fact, as a share of the best that a text could have.
        cosine: Closeness of its vector.
        vector: That, or what the words of a fact let expect whose vector is yet to come.
        named: Whether somebody whom the question names is in it.
        tells_when: Whether it tells a time, if the question asks for one.
        period: How well its time fits those that the question names, 0 to 1.
        notes: Which kind of note it is, see `FactTable.notes`; None if there are none.
        succeeded: Whether it is a learning of what succeeded, likewise.
        shown: Whether it may be returned.
    """

    words: Numbers
    cosine: Numbers | None
    vector: Numbers | None
    named: Flags | None
    tells_when: Flags | None
    period: Numbers | None
    notes: NDArray[np.uint8] | None
    succeeded: Flags | None
    shown: Flags


def passage_arms(
    cache: GroupCache,
    query: Query,
    vector: Numbers | None,
    names: Sequence[str],
    view: View,
) -> PassageArms:
    """Return what the arms say about the passages of a group.

    Args:
        cache: The group; its lock is held.
        query: The question.
        vector: The question's vector, shape (d,).
        names: Speakers whom the question names.
        view: From where memory is looked at.
    """
    table = cache.passages
    size = len(table)
    order = table.neighbours.order()
    words = table.words.window_scores(query.terms, order)
    ideal = table.words.ideal(query.terms)
    cosine = None if vector is None else table.vectors.cosines(vector, size)
    expected = _expected(cosine, words.turn, table.vectors)
    named = np.zeros(len(table.speakers), dtype=np.bool_)
    named[[table.speakers[name] for name in names if name in table.speakers]] = True
    return PassageArms(
        turn=_share(words.turn, ideal),
        one=_share(words.one, ideal),
        two=_share(words.two, ideal),
        session=_share(words.session, ideal),
        cosine=cosine,
        vector=None if expected is None else order.nearby(expected, NEIGHBOUR_SHARE),
        speaker=named[table.speaker] if named.any() else None,
        asks=table.asks,
        tells_when=_holding(table.words.holding(query.time_terms), size, query),
        period=closeness(query.periods, table.event_ms) if query.periods else None,
        shown=table.shown(view),
    )


def fact_arms(
    cache: GroupCache,
    query: Query,
    vector: Numbers | None,
    name_terms: Sequence[str],
    view: View,
) -> FactArms:
    """Return what the arms say about the facts of a group.

    Args:
        cache: The group; its lock is held.
        query: The question.
        vector: The question's vector, shape (d,).
        name_terms: Terms of those whom the question names.
        view: From where memory is looked at.
    """
    table = cache.facts
    size = len(table)
    words = table.words.scores(query.terms)
    cosine = None if vector is None else table.vectors.cosines(vector, size)
    return FactArms(
        words=_share(words, table.words.ideal(query.terms)),
        cosine=cosine,
        vector=_expected(cosine, words, table.vectors),
        named=_flags(table.words.holding(name_terms), size) if name_terms else None,
        tells_when=_holding(table.words.holding(query.time_terms), size, query),
        period=closeness(query.periods, table.since_ms) if query.periods else None,
        notes=table.notes if table.has_notes else None,
        succeeded=table.succeeded if table.has_notes else None,
        shown=cache.shown_facts(view),
    )


def _expected(cosine: Numbers | None, words: Numbers, vectors: VectorMatrix) -> Numbers | None:
    """Return how close vectors are; where there is none, as if as close as the words are.

    Else what was said just now would stand behind all that has a vector already.
    """
    if cosine is None or (present := vectors.present(len(cosine))).all():
        return cosine
    most = float(words.max(initial=0))
    if not most:
        return cosine
    closest = np.float32(max(0.0, float(cosine.max(initial=0))) / most)
    return np.where(present, cosine, words * closest)


def _share(scores: Numbers, ideal: float) -> Numbers:
    return scores / np.float32(ideal) if ideal else scores


def _holding(rows: NDArray[np.intp], size: int, query: Query) -> Flags | None:
    return _flags(rows, size) if query.asks_when else None


def _flags(rows: NDArray[np.intp], size: int) -> Flags:
    flags = np.zeros(size, dtype=np.bool_)
    flags[rows] = True
    return flags
