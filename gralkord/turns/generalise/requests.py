"""What the understand lane does with requests to generalise, and with generalisations of others."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

from gralkord.agents.profiles import strip_memory
from gralkord.clock import Clock
from gralkord.config import Generalise
from gralkord.graph.cache import CachePool
from gralkord.graph.connection import GraphConnection
from gralkord.graph.drafts import EpisodeDraft, Note, note_uuid
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.fresh import FreshEpisodes, Heard
from gralkord.graph.notes import NoteFinder
from gralkord.graph.rows import FactRow
from gralkord.groups import DEFAULT_LENS, parse_group
from gralkord.mailbox.items import FollowUp, Item, Lease
from gralkord.models import parse_time
from gralkord.models.generalisations import Generalisation, GeneralisationsRequest
from gralkord.providers.base import LanguageModel
from gralkord.turns.generalise.decide import TITLE_CHARS, Counts, Known, Plan, notes_of
from gralkord.turns.generalise.engine import Generaliser
from gralkord.turns.work import Executor, no_model
from gralkord.wire import read_model

KIND: Final = "generalise"
IMPORT: Final = "generalisations"

# One write covers so much, and one request so many writes; the rest is for the next one.
BATCH_CHARS: Final = 48_000
BATCHES: Final = 8
READ_MS: Final = 1_000

_NAMESPACE: Final = uuid.UUID("5f3c1d9e-2b64-5a7f-8c11-7d0e4a9b6c52")
_RELATIONS: Final = {"broadens": "broadened", "narrows": "narrowed", "contradicts": "contradicted"}


@dataclass(frozen=True, slots=True)
class GeneraliseParts:
    """What these requests are done with.

    Attributes:
        generaliser: Asks the model; none where no model is configured.
        fresh: Reads the episodes that are new.
    """

    generaliser: Generaliser | None
    episodes: EpisodeWriter
    fresh: FreshEpisodes
    caches: CachePool
    clock: Clock

    @classmethod
    def of(
        cls,
        model: LanguageModel | None,
        notes: NoteFinder,
        episodes: EpisodeWriter,
        graph: GraphConnection,
        settings: Generalise,
        clock: Clock,
    ) -> GeneraliseParts:
        """Return the parts; see `gralkord.turns.work.UnderstandParts` for what they are."""
        generaliser = Generaliser(model, notes, settings.min_confidence) if model else None
        return cls(generaliser, episodes, FreshEpisodes(graph), notes.caches, clock)


def generalise_executors(parts: GeneraliseParts) -> Mapping[str, Executor]:
    """Return the executors of requests that are about generalisations."""
    return {KIND: generalise(parts), IMPORT: add_generalisations(parts)}


def generalise(parts: GeneraliseParts) -> Executor:
    """Return the executor of requests of the kind ``generalise``.

    Such a request has a ``transcript``, or names an ``episode``; else it is about what is new.
    """

    async def execute(lease: Lease, item: Item) -> Mapping[str, Any]:
        if parts.generaliser is None:
            raise no_model()
        run = _Run(parts, parts.generaliser, lease)
        body = item.body
        if body.get("transcript") is not None:
            moment = body.get("event_time")
            when = parse_time(moment) if moment else parts.clock.now()
            await run.transcript(str(body.get("request") or item.id), body["transcript"], when)
        elif body.get("episode") is not None:
            heard = await parts.fresh.one(lease.group, body["episode"])
            await run.heard([heard] if heard else [])
        else:
            await run.new()
        return run.answer()

    return execute


def generalisation_of(group: str, episode: str) -> FollowUp:
    """Return the work to generalise an episode of a group. No flush waits for it.

    Args:
        group: The group id.
        episode: The uuid; where it is gone by then, nothing is done.
    """
    body = {"kind": KIND, "asks_model": True, "episode": episode}
    return FollowUp("understand", group, Item(f"generalise-{episode}", body))


class _Run:
    """One request under way."""

    def __init__(self, parts: GeneraliseParts, generaliser: Generaliser, lease: Lease) -> None:
        self._parts = parts
        self._generaliser = generaliser
        self._lease = lease
        self._counts = Counts()
        self._made: list[dict[str, Any]] = []
        self._more = False

    def answer(self) -> dict[str, Any]:
        """Return what came of it."""
        return asdict(self._counts) | {"more": self._more, "generalisations": self._made}

    async def transcript(self, name: str, text: str, when: datetime) -> None:
        """Generalise a text; *name* tells the request."""
        draft = self._draft(name, when, "a transcript")
        if await self._parts.fresh.written(self._lease.group, draft.uuid):
            await self._recall(draft.uuid)
            return
        plan = await self._generaliser.plan(self._lease.group, [strip_memory(text)])
        if plan.made:
            await self._write(draft, plan)
        else:
            self._count(plan.counts)

    async def new(self) -> None:
        """Generalise the episodes that are new, oldest first."""
        group, fresh = self._lease.group, self._parts.fresh
        since = await fresh.since(group)
        for _ in range(BATCHES):
            batch = _batch(await fresh.after(group, since))
            if not batch:
                return
            await self.heard(batch)
            since = batch[-1].seq
            await fresh.mark(group, self._lease.epoch, since)
        self._more = bool(await fresh.after(group, since, 1))

    async def heard(self, episodes: Sequence[Heard]) -> None:
        """Generalise episodes, but for those of which that was done.

        That it was done is written also where nothing comes of it. What was taken from no turn of
        the group is left out: it could not be told that it was done, nor could it be erased with
        its words.
        """
        group = self._lease.group
        keys = [key for one in episodes for key in one.origins(group)]
        if not keys:
            return
        done = await self._parts.episodes.origins(group, keys, lens=DEFAULT_LENS, but="")
        fresh = [one for one in episodes if set(one.origins(group)) - done]
        if not fresh:
            return
        when = max(one.valid_at for one in fresh)
        draft = self._draft("\x00".join(sorted(one.uuid for one in fresh)), when, "conversations")
        origins = dict.fromkeys(key for one in fresh for key in one.origins(group))
        plan = await self._generaliser.plan(group, [one.content for one in fresh])
        told = [one.uuid for one in fresh]
        await self._write(replace(draft, origins=tuple(origins)), plan, told)

    async def _write(self, draft: EpisodeDraft, plan: Plan, taken_from: Sequence[str] = ()) -> None:
        group = self._lease.group
        notes, ends = notes_of(plan, group, draft.uuid, draft.reference_time, taken_from)
        draft = replace(draft, notes=notes, ends=ends)
        await self._parts.episodes.add(group, self._lease.epoch, draft)
        self._count(plan.counts)
        self._made += [
            {
                "id": note.uuid,
                "action": made.action,
                "content": made.content,
                "confidence": made.confidence,
                "level": made.level,
                "generalises": [made.known.uuid] if made.known else [],
            }
            for note, made in zip(notes, plan.made, strict=True)
        ]

    async def _recall(self, episode: str) -> None:
        """Return what was written when this was done before, and its end was lost."""
        for row in await _rows(self._parts.caches, self._lease.group):
            if episode not in row.episodes:
                continue
            known, action = Known.of(row), str(row.attributes.get("relation") or "save")
            self._count(Counts(hypotheses=1, kept=1, **{_RELATIONS.get(action, "saved"): 1}))
            self._made.append(
                {
                    "id": row.uuid,
                    "action": action,
                    "content": row.fact,
                    "confidence": row.confidence or 0.0,
                    "level": known.level,
                    "generalises": list(row.attributes.get("generalises") or ()),
                }
            )

    def _count(self, more: Counts) -> None:
        self._counts = self._counts.plus(**asdict(more))

    def _draft(self, name: str, when: datetime, source: str) -> EpisodeDraft:
        return EpisodeDraft(
            uuid=_episode_uuid(self._lease.group, name),
            name="generalisations",
            body="",
            reference_time=when,
            source_description=f"generalisations of {source}",
            lens=DEFAULT_LENS,
            extract=False,
        )


def add_generalisations(parts: GeneraliseParts) -> Executor:
    """Return the executor of requests of the kind ``generalisations``: those made elsewhere."""

    async def execute(lease: Lease, item: Item) -> Mapping[str, Any]:
        raw = {"operator": "-", "generalisations": item.body["generalisations"]}
        given = read_model(GeneralisationsRequest, raw).generalisations
        known = {row.uuid for row in await _rows(parts.caches, lease.group)}
        ids = {one.id: _own_id(lease.group, one.id, known) for one in given}
        fresh = {ids[one.id]: one for one in given if ids[one.id] not in known}
        if fresh:
            moment = item.body.get("event_time")
            when = parse_time(moment) if moment else parts.clock.now()
            draft = EpisodeDraft(
                uuid=_episode_uuid(lease.group, "\x00".join(["import", *sorted(fresh)])),
                name="generalisations",
                body="",
                reference_time=when,
                source_description="generalisations that were made elsewhere",
                lens=parse_group(lease.group).lens or "global",
                extract=False,
                notes=tuple(
                    _note(one, own, lease.group, known, when) for own, one in fresh.items()
                ),
            )
            await parts.episodes.add(lease.group, lease.epoch, draft)
        # What stands in it twice was created once.
        return {
            "generalisations": [
                {"id": own, "given": one.id, "created": fresh.pop(own, None) is not None}
                for one, own in ((one, ids[one.id]) for one in given)
            ]
        }

    return execute


def _own_id(group: str, given: str, known: set[str]) -> str:
    """Return the id that a generalisation has in a group; what comes back to it has its own."""
    return given if given in known else note_uuid(group, "given", given)


def _note(one: Generalisation, own: str, group: str, known: set[str], when: datetime) -> Note:
    lineage = [_own_id(group, each, known) for each in one.generalises]
    content = one.content.strip()
    return Note(
        uuid=own,
        kind="generalisation",
        title=content[:TITLE_CHARS],
        text=content,
        since=when,
        confidence=one.confidence,
        attributes={"level": one.level, "generalises": lineage or None},
    )


async def _rows(caches: CachePool, group: str) -> list[FactRow]:
    """Return all generalisations of a group, also those that do not hold any more."""
    cache = await caches.fresh(group, timeout_ms=READ_MS)
    if cache is None:
        return []
    with cache.lock:
        return [row for row in cache.facts.rows() if row.note_kind == "generalisation"]


def _episode_uuid(group: str, name: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{group}\x00{name}"))


def _batch(found: Sequence[Heard]) -> list[Heard]:
    batch: list[Heard] = []
    size = 0
    for one in found:
        if batch and size + len(one.content) > BATCH_CHARS:
            break
        batch.append(one)
        size += len(one.content)
    return batch
