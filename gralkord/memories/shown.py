"""Generalisations as they are shown; also by the in-memory twin, so nothing heavy is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from gralkord.errors import InvalidInput
from gralkord.graph.rows import FactRow
from gralkord.models.generalisations import (
    GeneralisationPage,
    GeneralisationQuery,
    StoredGeneralisation,
    level_of,
)


def page(rows: Sequence[FactRow], query: GeneralisationQuery) -> GeneralisationPage:
    """Return a page of generalisations, in the order in which they were written.

    Args:
        rows: All of them.
        query: Says where the page begins, and how long it is.

    Raises:
        InvalidInput: It does not begin at a place.
    """
    ordered = sorted(rows, key=_place)
    if query.after is not None:
        if "|" not in query.after:
            raise InvalidInput("after: is not the `next` of a page", field="after")
        created, _, uuid = query.after.partition("|")
        ordered = [row for row in ordered if _place(row) > (created, uuid)]
    shown = ordered[: query.max_results]
    more = len(ordered) > len(shown)
    return GeneralisationPage(
        generalisations=[stored(row) for row in shown],
        next="|".join(_place(shown[-1])) if more else None,
    )


def stored(row: FactRow, score: float | None = None) -> StoredGeneralisation:
    """Return a note as the generalisation that it is."""
    lineage = row.attributes.get("generalises")
    return StoredGeneralisation(
        id=row.uuid,
        content=row.fact,
        confidence=min(max(row.confidence or 0.0, 0.0), 1.0),
        level=level_of(row.attributes),
        generalises=[str(one) for one in lineage] if isinstance(lineage, list) else [],
        valid_at=row.valid_at,
        created_at=row.created_at,
        score=score,
    )


def _place(row: FactRow) -> tuple[str, str]:
    return row.created_at or "", row.uuid
