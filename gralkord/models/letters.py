"""Work that was given up: the wire models of dead letters."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field, model_validator

from gralkord.models.base import Identifier, Wire

MAX_LETTERS: Final = 1_000

DeadLane = Literal["intake", "index", "understand"]
Order = Literal["newest", "oldest"]


class DeadLetter(Wire):
    """Work that was given up."""

    id: str
    lane: DeadLane
    group: str = Field(description="The group; of an intake entry its tenant, escaped.")
    operator: str | None = None
    lens: str | None = None
    session: str | None = None
    turns: list[str] = Field(default_factory=list, description="Ids of the turns in it.")
    item: str = Field(description="Id of the item, or of the entry in the intake stream.")
    reason: str = Field(description="Code of the error.")
    detail: str
    attempts: int | None = None
    at: str = Field(description="When it was given up, ISO 8601.")
    body: dict[str, Any] | None = Field(
        None, description="The work itself, with the words of memories; only when shown alone."
    )
    raw: str | None = Field(
        None, description="An intake entry as it was written; only when shown alone."
    )
    answer: str | None = Field(
        None,
        description="What a model wrote that could not be used; only when shown alone.",
    )


class DeadFilter(Wire):
    """Which dead letters."""

    reason: Identifier | None = Field(None, description="Code of the error.")
    lane: DeadLane | None = Field(None, description="Where it was given up.")
    operator: Identifier | None = Field(None, description="Whose work it was.")


class DeadQuery(DeadFilter):
    """A page of the list of dead letters."""

    order: Order = Field("newest", description="Which come first.")
    limit: int = Field(100, ge=1, le=MAX_LETTERS, description="Most letters of a page.")
    after: str | None = Field(None, description="`next` of the page before.")


class DeadPage(Wire):
    """A page of dead letters."""

    letters: list[DeadLetter]
    next: str | None = Field(None, description="Where the next page begins; nothing: no more.")


class DeadSelection(DeadFilter):
    """The dead letters that something is to be done with: these ids, or all that fit."""

    ids: list[str] = Field(default_factory=list, max_length=MAX_LETTERS)
    all: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> DeadSelection:
        if bool(self.ids) == self.all:
            raise ValueError("ids: give either ids, or all")
        if self.ids and (self.reason or self.lane or self.operator):
            raise ValueError("ids: a filter goes with all, not with ids")
        return self


class DeadResult(Wire):
    """What was done with dead letters."""

    done: int
    left: dict[str, str] = Field(
        default_factory=dict,
        description="Ids with which nothing was done: `not_found`, or `unreadable`.",
    )
