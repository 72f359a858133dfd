"""The process ``consolidate``: memories instead of entities and facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import structlog

from gralkord.graph.passages import StoredPassage
from gralkord.mailbox.items import FollowUp
from gralkord.turns.consolidate.candidates import Line
from gralkord.turns.consolidate.reconcile import Consolidator
from gralkord.turns.consolidate.writing import Origin, changes_of
from gralkord.turns.ingestion.store import write_episode
from gralkord.turns.work import Work, no_model

log = structlog.get_logger(__name__)


async def consolidate(work: Work) -> Sequence[FollowUp]:
    """Extract candidates from the turns, reconcile them with what is known, and write the rest.

    The episode is written also where nothing is to be remembered, so that it is done.

    Raises:
        ConfigError: There is no model.
        LeaseLost: Another process holds the group.
        GralkorError: The model's or the graph's failure; nothing was written.
    """
    parts, group, draft = work.parts, work.lease.group, work.draft
    if parts.model is None or parts.notes is None:
        raise no_model()
    consolidator = Consolidator(parts.model, parts.notes, parts.making.consolidate)
    lines = lines_of(work.passages)
    outcome = await consolidator.consider(group, lines, draft.reference_time)
    origin = Origin(
        group,
        draft.uuid,
        draft.reference_time,
        _agreed([passage.source for passage in work.passages]),
        _agreed([passage.offset for passage in work.passages]),
        _agreed([passage.metadata for passage in work.passages]),
    )
    changes = changes_of(outcome.decisions, origin)
    done = replace(draft, extract=False, notes=changes.notes, ends=changes.ends)
    await write_episode(work, done)
    log.info(
        "consolidated",
        group=group,
        item=work.item.id,
        episode=draft.uuid,
        left_out=outcome.left_out,
        **changes.counts(),
    )
    return ()


def lines_of(passages: Sequence[StoredPassage]) -> list[Line]:
    """Return what was said and done, one line for each message."""
    lines: list[Line] = []
    for passage in passages:
        text = passage.text
        if passage.part and lines:
            text = lines.pop().text + text
        lines.append(Line(passage.speaker, passage.role, text))
    return lines


def _agreed(values: Sequence[str | None]) -> str | None:
    """Return what all turns say alike."""
    return values[0] if len(set(values)) == 1 else None
