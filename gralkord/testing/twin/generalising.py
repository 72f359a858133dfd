"""Generalisations of the twin: those that were made elsewhere are kept and found by their words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gralkord.errors import NoModel
from gralkord.graph.analyzer import Analyzer
from gralkord.graph.drafts import note_uuid
from gralkord.graph.rows import FactRow
from gralkord.groups import Group
from gralkord.memories.shown import page, stored
from gralkord.models.generalisations import (
    Generalisation,
    GeneralisationPage,
    GeneralisationQuery,
    GeneralisationsRequest,
    GeneralisationsResult,
    GeneraliseRequest,
    GeneraliseResult,
)
from gralkord.models.results import Result
from gralkord.testing.twin.recalling import shown

if TYPE_CHECKING:
    from gralkord.testing.twin.shelf import Shelf
    from gralkord.testing.twin.shelves import Shelves


@dataclass(frozen=True, slots=True)
class Generalising:
    """The generalisations of one tenant."""

    shelves: Shelves
    tenant: str
    analyzer: Analyzer = field(default_factory=Analyzer)

    def generalise(self, request: GeneraliseRequest) -> GeneraliseResult:
        """Refuse: the twin asks no model."""
        del request
        raise NoModel(
            "no language model is configured, so nothing can be generalised",
            hint="the in-memory twin asks none; tell it with `add_generalisations`",
        )

    def add(self, request: GeneralisationsRequest) -> GeneralisationsResult:
        """Add generalisations that were made elsewhere.

        Raises:
            UnknownLens: No lens has that name.
        """
        shelf = self.shelves.shelf(self._group(request.operator, request.lens))
        added: list[dict[str, Any]] = []
        for one in request.generalisations:
            own = self._own(shelf, one.id)
            added.append({"id": own, "given": one.id, "created": own not in shelf.facts})
            if own not in shelf.facts:
                shelf.put(self._row(shelf, own, one))
        request_id = self.shelves.new_id()
        answer = {"generalisations": added}
        result = Result(id=request_id, complete=True, answer=answer)
        self.shelves.tenant(self.tenant).results[request_id] = result
        return GeneralisationsResult.model_validate({"id": request_id, "complete": True, **answer})

    def find(self, query: GeneralisationQuery) -> GeneralisationPage:
        """Return generalisations that hold now: those that share words with a query, or all.

        Raises:
            UnknownLens: No lens has that name.
            InvalidInput: The page does not begin at a place.
        """
        shelf = self.shelves.known(self._group(query.operator, query.lens))
        if shelf is None:
            return GeneralisationPage(generalisations=[])
        view = self.shelves.view()
        rows = [row for row in shelf.facts.rows() if row.note_kind == "generalisation"]
        rows = [row for row in rows if shown(shelf, row, view)]
        if query.query is None or not query.query.strip():
            return page(rows, query)
        asked = set(self.analyzer.terms(query.query))
        scored = [(len(asked & set(self.analyzer.terms(row.fact))), row) for row in rows]
        near = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        found = near[: query.max_results]
        return GeneralisationPage(
            generalisations=[stored(row, shared / len(asked)) for shared, row in found]
        )

    def _own(self, shelf: Shelf, given: str) -> str:
        return given if given in shelf.facts else note_uuid(shelf.group, "given", given)

    def _row(self, shelf: Shelf, own: str, one: Generalisation) -> FactRow:
        now = self.shelves.now_iso()
        lineage = [self._own(shelf, each) for each in one.generalises]
        return FactRow(
            uuid=own,
            name="GENERALISATION",
            fact=one.content.strip(),
            source_uuid=own,
            target_uuid=own,
            group_id=shelf.group,
            created_at=now,
            valid_at=now,
            invalid_at=None,
            expired_at=None,
            reference_time=now,
            episodes=(),
            attributes={"level": one.level, "generalises": lineage},
            seq=0,
            confidence=one.confidence,
            note_kind="generalisation",
        )

    def _group(self, operator: str, lens: str) -> Group:
        return self.shelves.lenses.memory(self.tenant, operator, lens)
