"""Erasing: what is to go, and what has gone."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator

from gralkord.models.base import Identifier, Wire

MAX_ERASED_IDS: Final = 1_000

ScopeKind = Literal["ids", "source", "turn", "session", "operator", "lens", "tenant"]
ErasureState = Literal["running", "done", "interrupted"]

_NARROW: Final = ("ids", "source", "turn", "session", "lens")


class EraseScope(Wire):
    """What an erasure takes: all of an operator's memory, one part of it, or a whole tenant."""

    operator: Identifier | None = Field(None, description="Whose memory.")
    ids: list[Identifier] = Field(
        default_factory=list,
        max_length=MAX_ERASED_IDS,
        description="Only these passages, facts and notes, by their ids.",
    )
    source: Identifier | None = Field(None, description="Only what was taken from this source.")
    turn: Identifier | None = Field(None, description="Only this turn, by its `turn_id`.")
    session: Identifier | None = Field(None, description="Only what was said in this session.")
    lens: Identifier | None = Field(None, description="Only what was captured through this lens.")
    everything: bool = Field(
        False, description="Instead of an operator: all operators and what they share."
    )

    @model_validator(mode="after")
    def _one_scope(self) -> EraseScope:
        named = [name for name in _NARROW if getattr(self, name)]
        if self.everything and (self.operator is not None or named):
            raise ValueError("everything: takes no operator and no part of one")
        if not self.everything and self.operator is None:
            raise ValueError("operator: missing; a whole tenant needs `everything`")
        if len(named) > 1:
            raise ValueError(f"{named[1]}: give one of {', '.join(_NARROW)} at a time")
        return self

    @property
    def kind(self) -> ScopeKind:
        """What kind of scope it is."""
        if self.everything:
            return "tenant"
        if self.ids:
            return "ids"
        if self.source is not None:
            return "source"
        if self.turn is not None:
            return "turn"
        if self.session is not None:
            return "session"
        return "lens" if self.lens is not None else "operator"

    def covers(
        self,
        operator: str | None,
        *,
        session: str | None = None,
        turn: str | None = None,
        source: str | None = None,
    ) -> bool:
        """Whether all of a turn goes; a scope by ids or lens never takes one whole by itself.

        Args:
            operator: Whose turn it is.
            session: Its session.
            turn: Its id.
            source: What it was taken from.
        """
        kind = self.kind
        if kind == "tenant":
            return True
        if operator is None or operator != self.operator:
            return False
        if kind == "operator":
            return True
        said = {"session": session, "turn": turn, "source": source}.get(kind)
        return said is not None and said == getattr(self, kind, None)


class EraseRequest(EraseScope):
    """Erase memory for good, or count what would go."""

    dry_run: bool = Field(False, description="Change nothing, only count.")
    timeout_ms: int = Field(
        20_000, gt=0, le=600_000, description="Answer then at the latest; the work goes on."
    )

    @model_validator(mode="after")
    def _part_is_meant(self) -> EraseRequest:
        # An empty list is a search that found nothing, never the wish to lose everything.
        for name in _NARROW:
            if name in self.model_fields_set and not getattr(self, name):
                raise ValueError(
                    f"{name}: none given; leave it out to erase all memory of the operator"
                )
        return self

    def scope(self) -> EraseScope:
        """Return what is to go."""
        return EraseScope.model_validate(
            self.model_dump(exclude={"dry_run", "timeout_ms"}, exclude_unset=True)
        )


class Erasure(Wire):
    """An erasure: how far it is and what it has taken. It holds no words of a memory."""

    id: str
    scope: EraseScope
    dry_run: bool = False
    state: ErasureState = Field(
        description="`interrupted`: its process has ended; a daemon takes it up again by itself."
    )
    started_at: str = Field(description="ISO 8601.")
    finished_at: str | None = None
    counts: dict[str, dict[str, int]] = Field(
        default_factory=dict, description="What has gone, or would go, by store."
    )
    missing: list[str] = Field(
        default_factory=list, description="Ids that name nothing that the operator has."
    )
    not_confirmed: list[str] = Field(
        default_factory=list,
        description="What a server would not do: words may be left in its files or logs.",
    )
    last_error: str | None = Field(None, description="Why it was interrupted, for the last time.")


class ErasureList(Wire):
    """The erasures of a tenant, newest first."""

    erasures: list[Erasure]
