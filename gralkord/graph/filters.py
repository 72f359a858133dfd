"""Graphiti's search filters as predicates over the cache's rows; `<` in the graph is unreliable."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gralkord.graph.library import ComparisonOperator, DateFilter, PropertyFilter, SearchFilters

if TYPE_CHECKING:
    from gralkord.graph.rows import EntityRow, FactRow

_COMPARE: Final[Mapping[ComparisonOperator, Callable[[Any, Any], bool]]] = {
    ComparisonOperator.equals: operator.eq,
    ComparisonOperator.not_equals: operator.ne,
    ComparisonOperator.greater_than: operator.gt,
    ComparisonOperator.less_than: operator.lt,
    ComparisonOperator.greater_than_equal: operator.ge,
    ComparisonOperator.less_than_equal: operator.le,
}


def moment(value: str | datetime | None) -> datetime | None:
    """Return the UTC time that a stored value names."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if value is None or value.tzinfo is None:
        return value and value.replace(tzinfo=UTC)
    return value.astimezone(UTC)


def accepts_fact(filters: SearchFilters, row: FactRow, labels: Mapping[str, Sequence[str]]) -> bool:
    """Whether *filters* let a fact through.

    Args:
        filters: What Graphiti asks for.
        row: The fact.
        labels: Labels of its two entities, by their uuids.
    """
    named = (
        (filters.edge_types, row.name),
        (filters.edge_uuids, row.uuid),
        (filters.edge_source_node_uuids, row.source_uuid),
        (filters.edge_target_node_uuids, row.target_uuid),
    )
    dated = (
        (filters.valid_at, row.valid_at),
        (filters.invalid_at, row.invalid_at),
        (filters.created_at, row.created_at),
        (filters.expired_at, row.expired_at),
    )
    return (
        all(allowed is None or value in allowed for allowed, value in named)
        and all(groups is None or _in_time(groups, moment(value)) for groups, value in dated)
        and all(
            _labelled(filters, labels.get(end, ())) for end in (row.source_uuid, row.target_uuid)
        )
        and _has_properties(filters.property_filters, row.attributes)
    )


def accepts_entity(filters: SearchFilters, row: EntityRow) -> bool:
    """Whether *filters* let an entity through."""
    return _labelled(filters, row.labels) and _has_properties(
        filters.property_filters, row.attributes
    )


def _labelled(filters: SearchFilters, labels: Sequence[str]) -> bool:
    return filters.node_labels is None or not set(filters.node_labels).isdisjoint(labels)


def _in_time(groups: Sequence[Sequence[DateFilter]], value: datetime | None) -> bool:
    """Whether all conditions of one of the groups hold."""
    return any(
        all(_compare(each.comparison_operator, value, moment(each.date)) for each in group)
        for group in groups
    )


def _has_properties(
    filters: Sequence[PropertyFilter] | None, attributes: Mapping[str, Any]
) -> bool:
    return all(
        _compare(each.comparison_operator, attributes.get(each.property_name), each.property_value)
        for each in filters or ()
    )


def _compare(how: ComparisonOperator, value: Any, limit: Any) -> bool:
    """Compare as Cypher does: with a value that is missing nothing is true."""
    if how is ComparisonOperator.is_null:
        return value is None
    if how is ComparisonOperator.is_not_null:
        return value is not None
    if value is None or limit is None:
        return False
    try:
        return _COMPARE[how](value, limit)
    except TypeError:
        return False
