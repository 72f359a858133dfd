"""Operations for whoever runs the daemon: indices, and communities of entities."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from gralkord.models.base import Identifier, Wire

MAX_COMMUNITIES: Final = 1_000
MAX_NAMES: Final = 20

# For whoever offers these operations to an agent as tools.
NEVER_UNASKED: Final = (
    "For people who run the memory. An agent must never do this by itself, only when a person has "
    "asked for it in so many words."
)


class GroupIndices(Wire):
    """The indices of one group."""

    operator: str | None = Field(description="Whose; nothing: shared by a tenant.")
    lens: str | None
    indices: int = Field(description="How many it has now, all of them usable.")
    created: int = Field(0, description="How many of them were missing.")


class CommunitiesQuery(Wire):
    """Which group's communities."""

    operator: Identifier
    lens: Identifier = Field("default", description="The lens whose memory it is, or `global`.")
    limit: int = Field(100, ge=1, le=MAX_COMMUNITIES, description="Most communities.")


class CommunitiesRequest(Wire):
    """Find the communities of a group anew, and put them in the place of those before."""

    operator: Identifier
    lens: Identifier = Field("default", description="The lens whose memory it is, or `global`.")
    summaries: bool = Field(
        False, description="Have the model name and sum up each: a call of the small one each."
    )
    max_communities: int = Field(
        100, ge=1, le=MAX_COMMUNITIES, description="Only so many, the largest."
    )
    dry_run: bool = Field(False, description="Count and estimate only, and change nothing.")


class StopCommunities(Wire):
    """Stop a build that is under way: the communities from before it stay."""

    operator: Identifier
    lens: Identifier = Field("default", description="The lens whose memory it is, or `global`.")


class Stopped(Wire):
    """Whether there was anything to be stopped."""

    stopped: bool


class CommunityBuild(Wire):
    """How far a build is."""

    operator: str
    lens: str
    done: bool = Field(description="Whether this is the last word on it.")
    stopped: bool = Field(False, description="Somebody has stopped it; nothing has changed.")
    dry_run: bool = False
    entities: int = Field(description="Entities of the group.")
    facts: int = Field(description="Facts of two entities that hold now.")
    found: int = Field(description="Communities that there are.")
    communities: int = Field(description="Communities that are kept, the largest.")
    members: int = Field(description="Entities in those.")
    calls: int = Field(0, description="Calls of the model that this takes.")
    tokens: int = Field(0, description="Tokens of those, estimated, both ways.")
    usd: float | None = Field(
        0.0, description="What they cost, estimated; nothing: the price is not known."
    )
    summed_up: int = Field(0, description="Communities that have a summary so far.")
    unreadable: int = Field(
        0, description="Communities without one, for the model's answer was not fit."
    )
    written: int = Field(0, description="Communities that are written so far.")


class StoredCommunity(Wire):
    """Entities that belong together. Its texts are untrusted data."""

    id: str
    name: str
    summary: str = Field(description="Empty where no model was asked.")
    created_at: str
    members: int
    entities: list[str] = Field(description=f"Names of members, {MAX_NAMES} at most.")


class CommunityPage(Wire):
    """The communities of a group, the largest first."""

    communities: list[StoredCommunity]
