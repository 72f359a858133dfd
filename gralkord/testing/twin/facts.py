"""Triples of the twin: facts that are told, found, and end each other."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from gralkord.clock import to_iso
from gralkord.errors import InvalidInput, NotFound
from gralkord.graph.resolution import Resolver, known_entities, relation_name
from gralkord.graph.rows import FactRow, to_ms
from gralkord.graph.sanitise import MAX_FACT_CHARS, clean_text
from gralkord.graph.validity import View, fact_ending, view_at
from gralkord.models.results import Result
from gralkord.models.triples import (
    AddedTriple,
    StoredTriple,
    Triple,
    TripleEnd,
    TriplePage,
    TripleQuery,
    TriplesRequest,
    TriplesResult,
)
from gralkord.testing.twin.recalling import shown

if TYPE_CHECKING:
    from gralkord.graph.cache import GroupCache
    from gralkord.graph.rows import EntityRow
    from gralkord.testing.twin.shelf import Shelf
    from gralkord.testing.twin.shelves import Shelves

REASON: Final = "same_relation_and_source"


@dataclass(frozen=True, slots=True)
class Facts:
    """The triples of one tenant."""

    shelves: Shelves
    tenant: str

    def add(self, request: TriplesRequest) -> TriplesResult:
        """Add triples: all of them, or none.

        Raises:
            UnknownLens: No lens has that name.
            NotFound: An entity that is named by its id is not there.
            InvalidInput: A triple is not acceptable.
        """
        shelf = self._shelf(request.operator, request.lens)
        draft = _Draft(shelf, self.shelves.now_iso())
        added = [draft.add(triple, f"triples.{at}") for at, triple in enumerate(request.triples)]
        draft.write()
        request_id = self.shelves.new_id()
        answer: dict[str, Any] = {
            "triples": [each.model_dump() for each in added],
            "entities": draft.entities.created,
        }
        result = Result(id=request_id, complete=True, answer=answer)
        self.shelves.tenant(self.tenant).results[request_id] = result
        return TriplesResult.model_validate({"id": request_id, "complete": True, **answer})

    def find(self, query: TripleQuery) -> TriplePage:
        """Return the facts that fit, in the order in which they were written.

        Raises:
            UnknownLens: No lens has that name.
            InvalidInput: The predicate has no letter, or the page does not begin at a place.
        """
        relation = None if query.predicate is None else relation_name(query.predicate)
        if relation == "":
            raise InvalidInput("predicate: has no letter or digit", field="predicate")
        shelf = self._shelf(query.operator, query.lens)
        view = view_at(
            self.shelves.now(),
            query.as_of,
            query.known_at,
            include_invalidated=query.include_invalidated,
        )
        subjects, objects = _ends(shelf, query.subject), _ends(shelf, query.object)
        rows = [
            row
            for row in shelf.facts.rows()
            if (relation is None or relation_name(row.name) == relation)
            and (subjects is None or row.source_uuid in subjects)
            and (objects is None or row.target_uuid in objects)
            and shown(shelf, row, view)
        ]
        start = _start(rows, query.after)
        page = rows[start : start + query.limit]
        more = start + len(page) < len(rows)
        return TriplePage(
            triples=[_stored(shelf, row, view) for row in page],
            next=page[-1].uuid if more else None,
        )

    def result(self, request: str) -> Result:
        """Return what became of a request.

        Raises:
            NotFound: There is no such request.
        """
        results = self.shelves.tenant(self.tenant).results
        if request not in results:
            raise NotFound(f"no request has the id {request!r}", field="id")
        return results[request]

    def _shelf(self, operator: str, lens: str) -> Shelf:
        return self.shelves.shelf(self.shelves.lenses.memory(self.tenant, operator, lens))


class _Draft:
    """What some triples make of a shelf; nothing is written until `write`."""

    def __init__(self, shelf: Shelf, now: str) -> None:
        self.entities = Resolver.of(cast("GroupCache", shelf), now)
        self._shelf = shelf
        self._now = now
        self._facts: dict[str, FactRow] = {}

    def add(self, triple: Triple, place: str) -> AddedTriple:
        relation = relation_name(triple.predicate)
        if not relation:
            raise InvalidInput(
                f"{place}.predicate: has no letter or digit", field=f"{place}.predicate"
            )
        subject = self.entities.resolve(triple.subject, f"{place}.subject")
        target = self.entities.resolve(triple.object, f"{place}.object")
        # The object may have named the subject.
        subject = self.entities.changed.get(subject.uuid, subject)
        known = self._same(triple, relation, subject, target)
        row = self._told(known or self._make(triple, relation, subject, target), triple)
        self._facts[row.uuid] = row
        return AddedTriple(
            id=row.uuid,
            created=known is None,
            subject=TripleEnd(id=subject.uuid, name=subject.name),
            predicate=row.name,
            object=TripleEnd(id=target.uuid, name=target.name),
            superseded=self._supersede(row, triple) if triple.supersede else [],
            invalidated=row.withdrawn_at is not None,
        )

    def write(self) -> None:
        for entity in self.entities.changed.values():
            self._shelf.entities.put(entity)
        for fact in self._facts.values():
            self._shelf.facts.put(fact)

    def _related(self, subject: str, relation: str) -> list[FactRow]:
        rows = {row.uuid: row for row in self._shelf.facts.rows()} | self._facts
        return [row for row in rows.values() if (row.source_uuid, row.name) == (subject, relation)]

    def _same(
        self, triple: Triple, relation: str, subject: EntityRow, target: EntityRow
    ) -> FactRow | None:
        """Return the known fact that says the same, as far as the triple tells times."""
        related = self._related(subject.uuid, relation)
        rows = [row for row in related if row.target_uuid == target.uuid]
        start_ms = to_ms(to_iso(triple.valid_at) if triple.valid_at else None)
        if triple.valid_at or triple.invalid_at:
            return next((row for row in rows if to_ms(row.valid_at) == start_ms), None)
        view = View(to_ms(self._now))
        holding = (row for row in rows if not fact_ending(row).hides(view))
        return next(holding, None) or next((row for row in rows if row.withdrawn_at), None)

    def _make(
        self, triple: Triple, relation: str, subject: EntityRow, target: EntityRow
    ) -> FactRow:
        words = f"{subject.name} {relation.replace('_', ' ').lower()} {target.name}"
        return FactRow(
            uuid=str(uuid.uuid4()),
            name=relation,
            fact=words,
            source_uuid=subject.uuid,
            target_uuid=target.uuid,
            group_id=self._shelf.group,
            created_at=self._now,
            valid_at=to_iso(triple.valid_at) if triple.valid_at else None,
            invalid_at=None,
            expired_at=None,
            reference_time=None,
            episodes=(),
            attributes={},
            seq=0,
        )

    def _told(self, row: FactRow, triple: Triple) -> FactRow:
        """Return a fact with what a triple says of it."""
        told: dict[str, Any] = {
            "fact": clean_text(triple.fact or "", MAX_FACT_CHARS) or None,
            "invalid_at": to_iso(triple.invalid_at) if triple.invalid_at else None,
            "source": triple.source,
            "offset": triple.offset,
            "confidence": triple.confidence,
        }
        return replace(row, **{key: value for key, value in told.items() if value is not None})

    def _supersede(self, new: FactRow, triple: Triple) -> list[str]:
        """End the facts of the subject and relation that began before; those after end the new."""
        start = to_iso(triple.valid_at) if triple.valid_at else self._now
        start_ms, ended, later = to_ms(start), [], []
        for old in self._related(new.source_uuid, new.name):
            if old.uuid == new.uuid or new.uuid in old.undone:
                continue
            if old.valid_at and to_ms(old.valid_at) > start_ms:
                later.append(old)
            elif fact_ending(old).ms > start_ms:
                self._end(old, start, new.uuid)
                ended.append(old.uuid)
        first = min(later, key=lambda row: to_ms(row.valid_at), default=None)
        if first and first.valid_at and fact_ending(new).ms > to_ms(first.valid_at):
            self._end(new, first.valid_at, first.uuid)
        return ended

    def _end(self, old: FactRow, at: str, by: str) -> None:
        self._facts[old.uuid] = replace(
            old,
            invalid_at=at,
            expired_at=self._now,
            superseded_by=by,
            superseded_reason=REASON,
            superseded_at=self._now,
            superseded_invalid_at=(
                old.superseded_invalid_at if old.superseded_by else old.invalid_at
            ),
        )


def _ends(shelf: Shelf, term: str | None) -> set[str] | None:
    if term is None:
        return None
    return {row.uuid for row in known_entities(cast("GroupCache", shelf), term)}


def _start(rows: list[FactRow], after: str | None) -> int:
    if after is None:
        return 0
    uuids = [row.uuid for row in rows]
    if after not in uuids:
        raise InvalidInput("after: is not the `next` of a page", field="after")
    return uuids.index(after) + 1


def _stored(shelf: Shelf, row: FactRow, view: View) -> StoredTriple:
    ending = shelf.ending(row, view)
    ends = {each.uuid: each.name for each in shelf.entities.rows()}
    return StoredTriple(
        id=row.uuid,
        subject=TripleEnd(id=row.source_uuid, name=ends.get(row.source_uuid, "")),
        predicate=row.name,
        object=TripleEnd(id=row.target_uuid, name=ends.get(row.target_uuid, "")),
        fact=row.fact,
        valid_at=row.valid_at,
        invalid_at=ending.at,
        invalidated=ending.hides(view),
        reason=ending.reason,
        created_at=row.created_at,
        source=row.source,
        offset=row.offset,
        confidence=row.confidence,
    )
