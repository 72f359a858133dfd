"""How far a receipt has come, from what the queue and the graph say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gralkord.clock import to_iso
from gralkord.graph.written import Written
from gralkord.groups import parse_group
from gralkord.mailbox.dead import entry_time
from gralkord.models.jobs import Job, JobError, JobGroup, JobKind, JobState, Stages

_ORDER: Final[tuple[JobState, ...]] = ("queued", "buffered", "indexed", "understood")

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Routed:
    """A turn that the router has placed.

    Attributes:
        homes: Groups that keep its passages.
        understood: Groups that it is to be understood in.
        places: What the queue says of it, by lane and group.
        buffered: Whether its session's buffer holds it.
    """

    operator: str
    session: str
    turn_id: str
    routed_ms: int
    homes: tuple[str, ...]
    understood: tuple[str, ...]
    places: Mapping[tuple[str, str], Record]
    buffered: bool

    @classmethod
    def read(cls, said: Record) -> Routed:
        """Return the turn in an answer of ``job.lua``, which writes an empty list as ``{}``."""
        operator, session, turn_id, routed_ms, homes, understood = said["turn"]
        places = {(place["lane"], place["group"]): place for place in said["places"]}
        return cls(
            operator,
            session,
            turn_id,
            int(routed_ms),
            tuple(homes),
            tuple(understood),
            places,
            bool(said["buffered"]),
        )

    def waits(self, lane: str, group: str) -> bool:
        """Whether an item of it is in that mailbox."""
        return "before" in self.places.get((lane, group), {})

    def understanding(self, group: str) -> bool:
        """Whether it is on its way to be understood in *group*."""
        return self.buffered or self.waits("understand", group)

    def letters(self, group: str) -> set[str]:
        """Return its dead letters in *group*."""
        lanes = ("index", "understand")
        found = (self.places.get((lane, group), {}).get("dead") for lane in lanes)
        return {letter for letter in found if letter}


def queued_job(entry_id: str, entry: Record) -> Job:
    """Return the job of an entry that waits in the intake stream."""
    return Job(
        id=entry_id,
        kind=_kind(entry),
        state="queued",
        operator=entry.get("operator"),
        session=entry.get("session"),
        turn_id=entry.get("turn_id"),
        stages=Stages(received=to_iso(entry_time(entry_id))),
        **_position(entry),
    )


def refused_job(entry_id: str, said: Record) -> Job:
    """Return the job of an entry that could not be routed."""
    letter = said.get("letter", {})
    return Job(
        id=entry_id,
        kind=_kind(letter),
        state="dead",
        reason=None if letter else "dropped",
        operator=letter.get("operator"),
        session=letter.get("session"),
        turn_id=letter.get("turn_id"),
        stages=Stages(received=to_iso(entry_time(entry_id))),
        last_error=_death(said),
        dead=[letter["id"]] if letter else [],
    )


def flush_job(entry_id: str, said: Record) -> Job:
    """Return the job of a flush that was routed."""
    record, open_ = said["flush"], said["flush"]["open"]
    indexed, understood = record.get("index") == "1", record.get("understand") == "1"
    reason, error = record.get("reason"), None
    state: JobState = "buffered"
    if int(record.get("dead", 0)):
        state, reason = "dead", "dead_letters"
    elif indexed:
        state = "understood" if understood and reason is None else "indexed"
    if state == "indexed" and reason is None:
        reason, error = _outage(said)
    return Job(
        id=entry_id,
        kind="flush",
        state=state,
        reason=reason,
        session=record.get("session"),
        stages=Stages(
            received=to_iso(entry_time(entry_id)),
            routed=_iso(record.get("routed_ms")),
            indexed=_iso(record.get("index_ms")) if indexed else None,
            understood=_iso(record.get("understand_ms")) if state == "understood" else None,
        ),
        last_error=error,
        turns=int(record["turns"]) if "turns" in record else None,
        open={"index": open_["index"], "understand": open_["understand"]},
    )


def turn_job(
    entry_id: str, said: Record, written: Mapping[str, Written] | None, *, model: bool
) -> Job:
    """Return the job of a turn that was routed.

    Args:
        entry_id: Its receipt.
        said: What ``job.lua`` answers.
        written: What each of its groups holds; nothing: the graph does not answer.
        model: Whether a language model is configured.
    """
    turn = Routed.read(said)
    names = list(dict.fromkeys((*turn.homes, *turn.understood)))
    groups = [_group(turn, name, written, model=model) for name in names]
    letters = set().union(*(turn.letters(name) for name in names))
    # A home that it is not understood in has done all when it is indexed.
    ends = [
        group.state
        for group in groups
        if group.group in turn.understood or group.state == "buffered"
    ]
    state: JobState = "dead" if letters else min(ends, key=_ORDER.index, default="indexed")
    blocked = _blocked(turn, state, [group.group for group in groups if group.state == state])
    reason, error = None, _failure(blocked)
    if state == "indexed":
        reason, held = _why_indexed(turn, said, written or {}, model=model)
        error = held or error
    return Job(
        id=entry_id,
        kind="turn",
        state=state,
        reason=reason,
        operator=turn.operator,
        session=turn.session,
        turn_id=turn.turn_id,
        stages=_stages(entry_id, turn, state, written or {}),
        attempts=int(blocked.get("tries", 0)),
        last_error=_death(said) if letters else error,
        groups=groups,
        dead=sorted(letters),
        degraded=[] if written is not None else ["graph"],
        **_position(blocked),
    )


def _blocked(turn: Routed, state: JobState, behind: Sequence[str]) -> Record:
    """Return the place in a mailbox that the job waits at, of the groups that are behind."""
    if state == "buffered":
        lane = "index"
    elif state == "indexed" and not turn.buffered:
        lane = "understand"
    else:
        return {}
    places = (turn.places.get((lane, group), {}) for group in behind)
    return next((place for place in places if "before" in place), {})


def _group(
    turn: Routed, name: str, written: Mapping[str, Written] | None, *, model: bool
) -> JobGroup:
    found = (written or {}).get(name, Written())
    group = parse_group(name)
    if turn.letters(name):
        state: JobState = "dead"
    elif not _indexed(turn, name, written):
        state = "buffered"
    elif name not in turn.understood:
        state = "indexed"
    elif written is None:  # what is neither queued nor dead is done, as far as the queue knows
        state = "understood" if model and not turn.understanding(name) else "indexed"
    else:
        # What a process has made of it may wait although it was handled.
        waits = turn.waits("understand", name)
        state = "understood" if found.understood and not waits else "indexed"
    return JobGroup(
        group=name,
        lens=group.lens or group.scope,
        state=state,
        passages=found.passages,
        episode=found.episode,
        facts=found.facts,
        entities=found.entities,
        notes=found.notes,
    )


def _indexed(turn: Routed, name: str, written: Mapping[str, Written] | None) -> bool:
    """Whether the words are recallable that this group is to understand."""
    homes = [name] if name in turn.homes else turn.homes[:1]
    if written is None:
        return not any(turn.waits("index", home) for home in homes)
    return all(written[home].passages for home in homes)


def _why_indexed(
    turn: Routed, said: Record, written: Mapping[str, Written], *, model: bool
) -> tuple[str | None, JobError | None]:
    if not turn.understood:
        return "index_lens", None
    if not model:
        return "no_model", None
    if turn.buffered:
        return "not_flushed", None
    if any(turn.waits("understand", group) for group in turn.understood):
        return _outage(said)
    if any(written[home].withdrawn for home in turn.homes if home in written):
        return "invalidated", None
    return "not_queued", None


def _stages(entry_id: str, turn: Routed, state: JobState, written: Mapping[str, Written]) -> Stages:
    indexed = [written[home].indexed_ms for home in turn.homes if home in written]
    understood = [written[name].understood_at for name in turn.understood if name in written]
    times = [moment for moment in understood if moment is not None]
    return Stages(
        received=to_iso(entry_time(entry_id)),
        routed=_iso(turn.routed_ms),
        indexed=_iso(max(ms for ms in indexed if ms)) if indexed and all(indexed) else None,
        understood=to_iso(max(times)) if times and state == "understood" else None,
    )


def _kind(entry: Record) -> JobKind:
    return "flush" if entry.get("kind") in {"flush", "ingest"} else "turn"


def _position(place: Record) -> dict[str, int | None]:
    if "before" not in place:
        return {}
    return {"position" if place["exact"] else "position_at_least": place["before"]}


def _failure(place: Record) -> JobError | None:
    if "reason" not in place:
        return None
    return JobError(
        code=place["reason"], message=place.get("detail", ""), at=_iso(place.get("failed_ms"))
    )


def _death(said: Record) -> JobError | None:
    letter = said.get("letter")
    if not letter:  # it was dropped
        return None
    at = to_iso(entry_time(letter["id"]))
    return JobError(code=letter["reason"], message=letter["detail"], at=at)


def _outage(said: Record) -> tuple[str | None, JobError | None]:
    held = said.get("outage")
    if not held:
        return None, None
    error = JobError(code=held["reason"], message=held["detail"], at=_iso(held["since"]))
    return held["reason"], error


def _iso(milliseconds: Any) -> str | None:
    if milliseconds is None:
        return None
    return to_iso(datetime.fromtimestamp(float(milliseconds) / 1000, UTC))
