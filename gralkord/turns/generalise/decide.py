"""What becomes of hypotheses: pure functions over what the model has said and what is known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from gralkord.clock import to_iso
from gralkord.graph.drafts import Note, NoteEnd, note_uuid
from gralkord.graph.rows import FactRow, to_ms
from gralkord.graph.sanitise import clean_text, fold_name
from gralkord.models.generalisations import MAX_LEVEL, Action, level_of
from gralkord.turns.generalise.hypothesise import MAX_CONTENT_CHARS, Hypothesis

if TYPE_CHECKING:
    from gralkord.turns.generalise.evaluate import DecisionAnswer

# More of one conversation are none.
MAX_HYPOTHESES: Final = 20
TITLE_CHARS: Final = 80
REASON: Final = "contradicts"

_RELATED: Final[Mapping[str, str]] = {
    "broadens": "broadened",
    "narrows": "narrowed",
    "contradicts": "contradicted",
}


@dataclass(frozen=True, slots=True)
class Known:
    """A generalisation that is known.

    Attributes:
        uuid: Of its note.
        content: What it says.
        level: How many stand below it.
        confidence: How sure it is.
        since: Since when it holds, ISO 8601.
    """

    uuid: str
    content: str
    level: int = 0
    confidence: float | None = None
    since: str | None = None

    @classmethod
    def of(cls, row: FactRow) -> Known:
        """Return what a note says of itself."""
        level = level_of(row.attributes)
        return cls(row.uuid, row.fact, level, row.confidence, row.valid_at)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many hypotheses came to which end.

    Attributes:
        hypotheses: What the model has proposed.
        kept: Those sure enough, each once.
        skipped: Those of them that say what is known, or that are not sure enough any more.
        ignored: What could not be used, and what the model did not decide.
    """

    hypotheses: int = 0
    kept: int = 0
    saved: int = 0
    broadened: int = 0
    narrowed: int = 0
    contradicted: int = 0
    skipped: int = 0
    ignored: int = 0

    def plus(self, **more: int) -> Counts:
        """Return the same with some of them raised."""
        changed = {name: getattr(self, name) + count for name, count in more.items()}
        return replace(self, **cast("Any", changed))


@dataclass(frozen=True, slots=True)
class Made:
    """A generalisation that is to be written.

    Attributes:
        action: What it is to *known*.
        known: The one that it broadens, narrows or contradicts.
    """

    content: str
    confidence: float
    action: Action = "save"
    known: Known | None = None

    @property
    def level(self) -> int:
        """One above the one that it is related to."""
        return 0 if self.known is None else min(self.known.level + 1, MAX_LEVEL)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written, strongest first, and what came to nothing."""

    made: tuple[Made, ...] = ()
    counts: Counts = Counts()


def survivors(found: Iterable[Hypothesis], least: float) -> list[Hypothesis]:
    """Return the hypotheses that are sure enough, strongest first, each once; at most 20.

    Args:
        found: What was proposed.
        least: The least confidence.
    """
    strongest = sorted(found, key=lambda one: -one.confidence)
    once: dict[str, Hypothesis] = {}
    for one in strongest:
        if one.confidence >= least:
            once.setdefault(folded(one.content), one)
    return list(once.values())[:MAX_HYPOTHESES]


def save_all(kept: Sequence[Hypothesis]) -> Plan:
    """Return the plan for hypotheses that nothing known is near to."""
    made = tuple(Made(one.content, one.confidence) for one in kept)
    return Plan(made, Counts(saved=len(made)))


def settle(
    kept: Sequence[Hypothesis],
    known: Sequence[Known],
    decisions: Iterable[DecisionAnswer],
    least: float,
) -> Plan:
    """Return the plan that a model's decisions make.

    The first usable decision on a hypothesis counts. What names another hypothesis, another action,
    or a known one that was not shown is ignored; a hypothesis without a decision is not written.

    Args:
        kept: The hypotheses, strongest first, as they were shown.
        known: What was shown with them.
        decisions: What the model has said.
        least: The least confidence, also of what it has changed.
    """
    counts, settled = Counts(), dict[int, Made | None]()
    for one in decisions:
        if not 0 <= one.hypothesis < len(kept) or one.hypothesis in settled:
            counts = counts.plus(ignored=1)
            continue
        action = one.action.strip().lower()
        if action == "skip":
            settled[one.hypothesis] = None
        elif (made := _made(kept[one.hypothesis], one, action, known)) is None:
            counts = counts.plus(ignored=1)
        else:
            settled[one.hypothesis] = made if made.confidence >= least else None
    counts = counts.plus(
        skipped=sum(made is None for made in settled.values()), ignored=len(kept) - len(settled)
    )
    made_ones = [made for _, made in sorted(settled.items()) if made is not None]
    for made in made_ones:
        counts = counts.plus(**{_RELATED.get(made.action, "saved"): 1})
    return Plan(tuple(sorted(made_ones, key=lambda made: -made.confidence)), counts)


def _made(
    kept: Hypothesis, decision: DecisionAnswer, action: str, known: Sequence[Known]
) -> Made | None:
    content = clean_text(decision.content or "", MAX_CONTENT_CHARS) or kept.content
    sure = decision.confidence
    if sure is None or not math.isfinite(sure) or not 0 <= sure <= 1:
        sure = kept.confidence
    if action == "save":
        return Made(content, sure)
    place = decision.known
    if action not in _RELATED or place is None or not 0 <= place < len(known):
        return None
    return Made(content, sure, cast("Action", action), known[place])


def notes_of(
    plan: Plan,
    group: str,
    episode: str,
    when: datetime,
    taken_from: Sequence[str] = (),
) -> tuple[tuple[Note, ...], tuple[NoteEnd, ...]]:
    """Return the notes of a plan, and the known ones that they end, each once.

    Args:
        plan: What is to be written.
        group: The group id.
        episode: Uuid of the episode that they are written with.
        when: When what they are made of was said, UTC.
        taken_from: Uuids of the episodes that tell it, where it is not *episode* itself.
    """
    notes: list[Note] = []
    ends: dict[str, NoteEnd] = {}
    told = {"taken_from": list(taken_from)} if taken_from else {}
    for place, made in enumerate(plan.made):
        uuid = note_uuid(group, episode, "generalisation", str(place))
        lineage = {"generalises": [made.known.uuid], "relation": made.action} if made.known else {}
        notes.append(
            Note(
                uuid=uuid,
                kind="generalisation",
                title=made.content[:TITLE_CHARS],
                text=made.content,
                since=when,
                confidence=made.confidence,
                attributes={"level": made.level, **lineage, **told},
            )
        )
        if made.known and made.action == REASON:
            at = _not_before(when, made.known.since)
            ends.setdefault(made.known.uuid, NoteEnd(made.known.uuid, uuid, REASON, at))
    return tuple(notes), tuple(ends.values())


def _not_before(when: datetime, since: str | None) -> datetime:
    """Return *when*, or the start of what ends if it began later: of an older conversation."""
    if since is None or to_ms(since) <= to_ms(to_iso(when)):
        return when
    return datetime.fromisoformat(since)


def folded(content: str) -> str:
    """Return what all spellings of a statement have in common."""
    return fold_name(content).rstrip(".! ")
