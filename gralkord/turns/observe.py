"""What the understand lane does with a request to observe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from gralkord.errors import BackendUnavailable
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.memory_changes import MemoryNotes
from gralkord.graph.memory_notes import READ_MS, observation_uuid
from gralkord.mailbox.items import Item, Lease
from gralkord.turns.consolidate.candidates import Line
from gralkord.turns.consolidate.reconcile import Consolidator
from gralkord.turns.consolidate.writing import Changes, Origin, changes_of, told_before
from gralkord.turns.work import Episodes

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Observer:
    """Executes requests of the kind ``observe``: once each, whole or not at all."""

    consolidator: Consolidator
    episodes: Episodes
    notes: MemoryNotes
    caches: CachePool

    async def __call__(self, lease: Lease, item: Item) -> Mapping[str, Any]:
        """Decide what is to be remembered, write it, and return the decisions.

        Raises:
            LeaseLost: Another process holds the group.
            GralkorError: The model's or the graph's failure; nothing was written.
        """
        group, body = lease.group, item.body
        episode = observation_uuid(group, body["key"])
        if await self.notes.written(group, episode):
            return await self._told(group, episode)
        when = datetime.fromisoformat(body["when"])
        lines = [Line(*said) for said in body["lines"]]
        outcome = await self.consolidator.consider(group, lines, when)
        origin = Origin(
            group, episode, when, body.get("source"), body.get("offset"), body.get("metadata")
        )
        changes = changes_of(outcome.decisions, origin)
        done = await self.episodes.add(group, lease.epoch, _draft(body, origin, changes))
        log.info(
            "observed",
            group=group,
            item=item.id,
            episode=episode,
            created=done.created,
            left_out=outcome.left_out,
            **changes.counts(),
        )
        return {"decisions": changes.answers, "left_out": outcome.left_out, "repeated": False}

    async def _told(self, group: str, episode: str) -> Mapping[str, Any]:
        known = await self.caches.fresh(group, timeout_ms=READ_MS)
        if known is None:
            raise BackendUnavailable(f"group {group} was dropped under way")
        made = [row for row in known.facts.of_episode(episode) if row.note_kind]
        ended = [row for row in known.facts.rows() if row.superseded_episode == episode]
        return {"decisions": told_before(episode, made, ended), "left_out": 0, "repeated": True}


def _draft(body: Mapping[str, Any], origin: Origin, changes: Changes) -> EpisodeDraft:
    return EpisodeDraft(
        uuid=origin.episode,
        name="observation",
        body="",
        reference_time=origin.when,
        source_description=f"observation by {body['agent']}" if body["agent"] else "observation",
        lens=body["lens"],
        extract=False,
        source="text",
        notes=changes.notes,
        ends=changes.ends,
    )
