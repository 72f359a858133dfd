"""The process ``generalise``: of a transcript only what holds beyond it becomes an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gralkord.mailbox.items import FollowUp
from gralkord.turns.generalise.decide import notes_of
from gralkord.turns.generalise.engine import Generaliser
from gralkord.turns.ingestion.store import distilled, write_episode
from gralkord.turns.work import Work, no_model


async def generalise(work: Work) -> Sequence[FollowUp]:
    """Have what the transcript shows beyond itself understood, and kept as generalisations.

    They are the body of one episode, strongest first, so that their entities and facts are found
    with the lens's ontology and reconciled with what the lens knows. Where nothing survives the
    episode is empty: it tells that the turns were generalised.

    Raises:
        ConfigError: There is nobody to ask.
        LeaseLost: Another process holds the group.
        GralkorError: The model's or the graph's failure; nothing was written.
    """
    parts = work.parts
    if parts.model is None or parts.notes is None:
        raise no_model()
    draft = await distilled(work)
    generaliser = Generaliser(parts.model, parts.notes, parts.making.generalise.min_confidence)
    plan = await generaliser.plan(work.lease.group, [draft.body])
    notes, ends = notes_of(plan, work.lease.group, draft.uuid, draft.reference_time)
    made = replace(
        draft,
        body="\n".join(each.content for each in plan.made),
        source="text",
        source_description=f"generalisations of a {draft.source_description}",
        notes=(*draft.notes, *notes),
        ends=ends,
    )
    await write_episode(work, made)
    return ()
