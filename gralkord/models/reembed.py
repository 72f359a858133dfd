"""Moving memories to another embedder: wire models."""

from __future__ import annotations

from pydantic import Field

from gralkord.models.base import Identifier, Wire


class ReembedRequest(Wire):
    """Which groups are moved to the daemon's embedder."""

    operator: Identifier | None = Field(None, description="Whose memory; default: all of it.")
    dry_run: bool = Field(False, description="Count only, and change nothing.")


class GroupMove(Wire):
    """One group: how far it is, and at its end what was done."""

    operator: str | None = Field(description="Whose; nothing: shared by a tenant.")
    lens: str | None
    done: bool = Field(description="Whether this is the last word on this group.")
    moves: bool = Field(
        False,
        description="Whether its vectors were of another embedder; else only gaps are filled.",
    )
    before: str = Field("", description="Which embedder its vectors were from; empty: none.")
    embedder: str = Field("", description="Which embedder they are from now; empty: not known yet.")
    rows: int = Field(0, description="Passages, facts and entities that need a vector.")
    embedded: int = Field(0, description="How many have got one so far.")
    tokens: int = Field(0, description="How many tokens those rows are, estimated.")
    usd: float | None = Field(
        None, description="What they cost, estimated; nothing: the price is not known."
    )
