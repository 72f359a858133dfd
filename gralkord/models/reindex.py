"""The check of what is in memory against the graph: wire models."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gralkord.models.base import Identifier, Wire

Difference = Literal["missing", "extra", "older", "text", "vector", "unnumbered"]


class ReindexRequest(Wire):
    """Which groups, and what is to be done with them."""

    operator: Identifier | None = Field(None, description="Whose memory; default: all of it.")
    check: bool = Field(False, description="Compare only, and change nothing.")


class RowDifference(Wire):
    """A row of which memory and graph say different things."""

    kind: Literal["passage", "fact", "entity"]
    id: str = Field(
        description="Its id; empty for rows that have no number, so no reader sees them."
    )
    what: Difference


class GroupIndex(Wire):
    """What was found in one group."""

    operator: str | None = Field(description="Whose; nothing: shared by a tenant.")
    lens: str | None
    rows: int = Field(0, description="Passages, facts and entities that the graph has.")
    vectors: int = Field(0, description="How many of them have a vector.")
    embedder: str = Field("", description="Which embedder the vectors are from; empty: none.")
    dimension: int | None = Field(None, description="Numbers of a vector.")
    usable: bool = Field(
        True, description="Whether the daemon has that embedder, so that vectors are used."
    )
    different: int = Field(0, description="Rows that were not in memory as the graph has them.")
    differences: list[RowDifference] = Field(
        default_factory=list, description="The first of those."
    )
    left: int = Field(0, description="Rows that still differ after all was read anew.")
