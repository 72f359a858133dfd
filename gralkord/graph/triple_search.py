"""Facts by subject, predicate, object and time, found in a group's cache."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gralkord.errors import InvalidInput
from gralkord.graph.resolution import known_entities, relation_name
from gralkord.graph.rows import FactRow, to_ms
from gralkord.graph.validity import View
from gralkord.models.triples import StoredTriple, TripleEnd, TriplePage, TripleQuery

if TYPE_CHECKING:
    from gralkord.graph.cache import GroupCache

Place = tuple[int, str]
Numbers = NDArray[np.intp]


def find_triples(cache: GroupCache, query: TripleQuery, view: View) -> TriplePage:
    """Return the facts that fit, in the order in which they were written.

    Args:
        cache: What the group knows.
        query: What is asked for.
        view: From where memory is looked at.

    Raises:
        InvalidInput: The predicate has no letter or digit, or the page does not begin at a place.
    """
    after = _read_place(query.after)
    relation = None if query.predicate is None else relation_name(query.predicate)
    if relation == "":
        raise InvalidInput("predicate: has no letter or digit", field="predicate")
    with cache.lock:
        numbers = _of_relation(cache, _candidates(cache, query, view), relation)
        best = _first(cache, numbers, query.limit + 1, after)
        found = [_triple(cache, row, view) for _, row in best[: query.limit]]
    if len(best) <= query.limit:
        return TriplePage(triples=found)
    created_ms, uuid = best[query.limit - 1][0]
    return TriplePage(triples=found, next=f"{created_ms}-{uuid}")


def _of_relation(cache: GroupCache, numbers: Numbers, relation: str | None) -> Numbers:
    if relation is None:
        return numbers
    table = cache.facts
    names = [table.row(number).name for number in numbers.tolist()]
    wanted = {name for name in set(names) if relation_name(name) == relation}
    return numbers[[name in wanted for name in names]] if names else numbers


def _first(
    cache: GroupCache, numbers: Numbers, limit: int, after: Place | None
) -> list[tuple[Place, FactRow]]:
    """Return the rows that come first behind a place; only those that may be are compared."""
    table = cache.facts
    created = table.created_ms[numbers]
    if after is not None:
        behind = created >= after[0]
        numbers, created = numbers[behind], created[behind]
    # Those of the very place's moment may be before it.
    most = limit if after is None else limit + int((created == after[0]).sum())
    if len(numbers) > most:
        numbers = numbers[created <= np.partition(created, most - 1)[most - 1]]
    pairs = (
        ((int(table.created_ms[number]), table.uuid(number)), table.row(number))
        for number in numbers.tolist()
    )
    fit = (pair for pair in pairs if after is None or pair[0] > after)
    return heapq.nsmallest(limit, fit, key=lambda pair: pair[0])


def _candidates(cache: GroupCache, query: TripleQuery, view: View) -> Numbers:
    """Return the numbers of the facts that the ends and the time let through."""
    table = cache.facts
    if query.subject is None and query.object is None:
        return np.flatnonzero(cache.shown_facts(view) & (table.notes == 0))
    sources, targets = _ends(cache, query.subject), _ends(cache, query.object)
    near = sources if sources is not None else targets
    rows = {row.uuid: row for uuid in near or () for row in table.touching(uuid)}
    fit = (
        table.number(row.uuid)
        for row in rows.values()
        if not row.note_kind
        and (sources is None or row.source_uuid in sources)
        and (targets is None or row.target_uuid in targets)
        and _shown(cache, row, view)
    )
    return np.fromiter(fit, np.intp)


def _ends(cache: GroupCache, term: str | None) -> set[str] | None:
    return None if term is None else {row.uuid for row in known_entities(cache, term)}


def _shown(cache: GroupCache, row: FactRow, view: View) -> bool:
    """Whether a view may see a fact, as `FactTable.shown` has it."""
    since = row.valid_at or row.reference_time
    if view.as_of_ms is not None and since and to_ms(since) > view.as_of_ms:
        return False
    if view.known_ms is not None and row.created_at and to_ms(row.created_at) > view.known_ms:
        return False
    return view.include_invalidated or not cache.ending(row, view).hides(view)


def _triple(cache: GroupCache, row: FactRow, view: View) -> StoredTriple:
    ending = cache.ending(row, view)
    return StoredTriple(
        id=row.uuid,
        subject=_end(cache, row.source_uuid),
        predicate=relation_name(row.name),
        object=_end(cache, row.target_uuid),
        fact=row.fact,
        valid_at=row.valid_at,
        invalid_at=ending.at,
        invalidated=ending.hides(view),
        reason=ending.reason,
        created_at=row.created_at,
        source=row.source,
        offset=row.offset,
        confidence=row.confidence,
        episodes=list(row.episodes),
    )


def _end(cache: GroupCache, uuid: str) -> TripleEnd:
    names = [row.name for row in cache.entities.by_uuid([uuid])]
    return TripleEnd(id=uuid, name=names[0] if names else "")


def _read_place(text: str | None) -> Place | None:
    if text is None:
        return None
    created_ms, _, uuid = text.partition("-")
    if not (created_ms.isascii() and created_ms.isdecimal() and uuid):
        raise InvalidInput("after: is not the `next` of a page", field="after")
    return int(created_ms), uuid
