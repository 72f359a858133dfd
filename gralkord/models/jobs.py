"""What has become of a turn or a flush: the wire models of jobs."""

from __future__ import annotations

import re
from typing import Final, Literal

from pydantic import Field

from gralkord.errors import InvalidInput
from gralkord.models.base import Wire

_ID = re.compile(r"([0-9]{1,20})-([0-9]{1,20})")
_LARGEST: Final = 2**64

JobKind = Literal["turn", "flush"]
JobState = Literal["queued", "buffered", "indexed", "understood", "dead"]


class Stages(Wire):
    """When each stage was complete, ISO 8601; nothing where it is not, or was not noted."""

    received: str | None = None
    routed: str | None = None
    indexed: str | None = None
    understood: str | None = None


class JobError(Wire):
    """The failure that a job waits after, or died of."""

    code: str
    message: str
    at: str | None = None


class JobGroup(Wire):
    """How far a turn has come in one group that it goes to, and what is written of it there."""

    group: str
    lens: str
    state: Literal["buffered", "indexed", "understood", "dead"]
    passages: int = 0
    episode: str | None = None
    facts: int = Field(0, description="Facts of the whole episode, which may hold other turns too.")
    entities: int = 0
    notes: int = Field(0, description="Learnings, generalisations and memories made of it.")


class Job(Wire):
    """What has become of a turn or a flush, by the id of its receipt."""

    id: str
    kind: JobKind
    state: JobState = Field(description="The furthest stage that all its groups have reached.")
    reason: str | None = Field(
        None,
        description="Why it gets no further: `no_model`, `not_flushed` (its session's buffer "
        "holds it), `index_lens` (its lenses keep words only), `not_queued` (see backfill), "
        "`invalidated` (before it was understood), `dropped` (its dead letter), `dead_letters` (of "
        "a flush), or nothing.",
    )
    operator: str | None = None
    session: str | None = None
    turn_id: str | None = None
    stages: Stages
    position: int | None = Field(None, description="Entries or items in front of it.")
    position_at_least: int | None = Field(
        None, description="Instead of `position`, where more stand in front than are counted."
    )
    attempts: int = Field(0, description="Tries so far of the work that is next.")
    last_error: JobError | None = None
    groups: list[JobGroup] = Field(default_factory=list)
    dead: list[str] = Field(default_factory=list, description="Ids of its dead letters.")
    turns: int | None = Field(None, description="Of a flush: the turns that it handed over.")
    open: dict[str, int] | None = Field(
        None, description="Of a flush: the items it still waits for, by lane."
    )
    degraded: list[str] = Field(default_factory=list, description="What did not answer.")

    @property
    def final(self) -> bool:
        """Whether it stays as it is unless somebody does something."""
        if self.state == "indexed":
            return self.reason in {"index_lens", "no_model", "invalidated"}
        return self.state in {"understood", "dead"}


def check_entry_id(text: str, field: str = "id") -> str:
    """Return *text* unchanged if it can be the id of an entry in a stream.

    Raises:
        InvalidInput: It cannot.
    """
    found = _ID.fullmatch(text)
    if not found or any(int(number) >= _LARGEST for number in found.groups()):
        raise InvalidInput(
            f"{field}: {text[:64]!r} is no id; it looks like 1714555800123-0", field=field
        )
    return text
