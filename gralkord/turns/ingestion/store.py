"""The process ``store``: a transcript becomes an episode with its entities and facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from gralkord.graph.drafts import EpisodeDraft
from gralkord.mailbox.items import FollowUp
from gralkord.turns.work import Work

log = structlog.get_logger(__name__)


async def store(work: Work) -> Sequence[FollowUp]:
    """Have the transcript understood, and write what follows from it.

    Raises:
        LeaseLost: Another process holds the group.
        GralkorError: The model's or the graph's failure; nothing was written.
    """
    await write_episode(work, work.draft)
    return ()


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
