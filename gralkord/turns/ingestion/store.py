"""The process ``store``: a transcript becomes an episode with its entities, facts and learnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from gralkord.graph.drafts import EpisodeDraft
from gralkord.groups import parse_group
from gralkord.mailbox.items import FollowUp
from gralkord.turns.behaviours import Behaviour, behaviours_of
from gralkord.turns.drafting import transcript
from gralkord.turns.ingestion.distil import DistilledTurn, Wanted, distil
from gralkord.turns.ingestion.learnings import learning, one_line
from gralkord.turns.work import Work

log = structlog.get_logger(__name__)

SUMMARY_CHARS: Final = 600
# What small models write where there is nothing to write.
_NOTHING: Final = frozenset({"", "null", "none", "n/a"})


async def store(work: Work) -> Sequence[FollowUp]:
    """Have the transcript understood, and write what follows from it.

    Raises:
        LeaseLost: Another process holds the group.
        GralkorError: The model's or the graph's failure; nothing was written.
    """
    await write_episode(work, await distilled(work))
    return ()


async def distilled(work: Work) -> EpisodeDraft:
    """Return the episode with a line for what the agent did in each turn, and with its learnings.

    Where there is nothing to sum up and nothing to learn from, no model is asked.

    Raises:
        GralkorError: The model's failure, but for an answer that does not fit.
    """
    # In documents and records nobody does anything.
    turns = _wanted(work) if work.draft.source == "message" else []
    if not turns or work.parts.model is None:
        return work.draft
    said = await distil(turns, work.parts.model, parse_group(work.lease.group))
    lines = _lines(turns, said)
    notes = [
        note
        for turn in turns
        if (told := said.get(turn.told.turn_id)) and told.learning
        if (note := learning(work.lease.group, work.draft.uuid, turn.told, told.learning))
    ]
    told_of = {turn.told.turn_id: lines if turn.behaviour else said for turn in turns}
    dropped = sum(turn not in answers for turn, answers in told_of.items())
    say = log.warning if dropped else log.info
    say(
        "distilled",
        group=work.lease.group,
        item=work.item.id,
        turns=len(turns),
        lines=len(lines),
        learnings=len(notes),
        dropped=dropped,
    )
    return replace(
        work.draft,
        body=transcript(work.passages, lines) if lines else work.draft.body,
        notes=(*work.draft.notes, *notes),
    )


def _wanted(work: Work) -> list[Wanted]:
    """Return the turns that a model is asked about."""
    sums_up, learns = work.lens.distil, work.lens.learn
    found = [
        Wanted(turn, turn.acted and sums_up, _teaches(turn, learns))
        for turn in behaviours_of(work.passages)
    ]
    return [each for each in found if each.behaviour or each.learning]


def _teaches(turn: Behaviour, learns: str) -> bool:
    if learns == "every":
        return bool(turn.lines)
    return learns == "behaviour" and (turn.acted or turn.outcome is not None)


def _lines(turns: Sequence[Wanted], said: Mapping[str, DistilledTurn]) -> dict[str, str]:
    """Return the line of each turn that has one, by the turn's id."""
    found: dict[str, str] = {}
    for turn in turns:
        told = said.get(turn.told.turn_id)
        text = one_line(told.behaviour or "", SUMMARY_CHARS) if told else ""
        if text.casefold() not in _NOTHING:
            found[turn.told.turn_id] = f"{turn.told.agent}: (behaviour: {text})"
    return found


async def write_episode(work: Work, draft: EpisodeDraft) -> None:
    """Write an episode, and say so in the log.

    Raises:
        GralkorError: As `store`.
    """
    if draft.extract and not draft.body.strip():
        draft = replace(draft, extract=False)
    result = await work.parts.episodes.add(work.lease.group, work.lease.epoch, draft)
    log.info(
        "understood",
        group=work.lease.group,
        item=work.item.id,
        episode=result.uuid,
        created=result.created,
        entities=result.entities,
        facts=result.facts,
        notes=len(draft.notes),
    )
