"""Episodes of a group: understood by Graphiti, written in one fenced query."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from gralkord.clock import Clock, SystemClock
from gralkord.errors import BackendUnavailable, ConfigError
from gralkord.graph import schema
from gralkord.graph.connection import GraphConnection
from gralkord.graph.drafts import EpisodeDraft, EpisodeResult
from gralkord.graph.embedding import LenientEmbedder
from gralkord.graph.notes import note_rows
from gralkord.providers.base import Embedder, LanguageModel
from gralkord.providers.embedders.choice import Embedders

if TYPE_CHECKING:
    from gralkord.graph.cache import CachePool, GroupCache
    from gralkord.graph.statement import EpisodeRows
    from gralkord.graph.understanding import PreviousEpisode

log = structlog.get_logger(__name__)

# What the model is shown of the episodes before this one, so that it knows who "she" is. Each
# prompt that reads the transcript repeats it.
PREVIOUS_EPISODES: Final = 2
PREVIOUS_CHARS: Final = 1_500
READ_MS: Final = 1_000

# The fence is raised before anything else: who held the lease before, and is only late, must not
# write an episode that is being understood again. What it wrote up to now is seen.
_BEGIN: Final = (
    "MATCH (m:Meta) WHERE m.fence_understand <= $epoch SET m.fence_understand = $epoch WITH m "
    "OPTIONAL MATCH (e:Episodic {uuid: $uuid}) WHERE e.done "
    "RETURN e.uuid, e.facts, e.entities, e.notes"
)
_ORIGINS: Final = (
    "MATCH (o:Origin)-[:PART_OF]->(e:Episodic) WHERE o.key IN $keys AND e.uuid <> $uuid "
    "AND ($lens = 'global' OR e.lens IN [$lens, 'global']) RETURN DISTINCT o.key"
)
# Looked through from the present back, so that thousands of older episodes cost nothing; ms.
PREVIOUS_WINDOWS: Final = (600_000, 86_400_000, 100 * 86_400_000, 2**53)
_PREVIOUS: Final = (
    "MATCH (e:Episodic) WHERE e.valid_ms > $after AND e.valid_ms <= $ms AND e.uuid <> $uuid "
    "AND e.content <> '' "
    "WITH e ORDER BY e.valid_ms DESC LIMIT $limit "
    "RETURN e.uuid, e.name, e.source_description, right(e.content, $chars), e.valid_at"
)


class EpisodeWriter:
    """Adds episodes to groups. Whoever calls holds the group's lease, so one at a time each."""

    def __init__(
        self,
        connection: GraphConnection,
        caches: CachePool,
        model: LanguageModel | None,
        embedders: Embedders | Embedder | None,
        clock: Clock | None = None,
    ) -> None:
        self._connection = connection
        self._caches = caches
        self._model = model
        self._embedders = Embedders.of(embedders)
        self._clock = clock or SystemClock()

    async def add(self, group: str, epoch: int, draft: EpisodeDraft) -> EpisodeResult:
        """Understand a transcript and write what follows from it: everything at once, or nothing.

        Args:
            group: The group id; its graph is made if need be.
            epoch: The lease's epoch.
            draft: What to understand, or only the notes to write. One that is in the graph already
                costs no model call.

        Raises:
            LeaseLost: Another process holds a later epoch; nothing was written.
            BackendUnavailable: The graph does not answer.
            ConfigError: It is to be understood, and no model is configured.
            GralkorError: The model's failure; nothing was written.
        """
        if draft.extract and self._model is None:
            raise ConfigError("no language model is configured", field="models.llm")
        if done := await self._begin(group, epoch, draft):
            return done
        known = await self._caches.fresh(group, timeout_ms=READ_MS)
        if known is None:
            raise self._vanished(group)
        fitting = self._embedders.fitting(known.space.embedder)
        embedder = LenientEmbedder(fitting) if fitting else None

        async def save(rows: EpisodeRows) -> None:
            if draft.notes or draft.ends:
                now = self._clock.now()
                rows.notes = await note_rows(draft, group, known, embedder, now)
            await self._save(group, epoch, draft, rows, embedder.fingerprint if embedder else "")

        if draft.extract:
            facts, entities = await self._understand(group, draft, known, embedder, save)
        else:
            facts = entities = 0
            await save(self._bare(group, draft))
        return EpisodeResult(
            draft.uuid, created=True, facts=facts, entities=entities, notes=len(draft.notes)
        )

    async def _understand(
        self,
        group: str,
        draft: EpisodeDraft,
        known: GroupCache,
        embedder: Embedder | None,
        save: Callable[[EpisodeRows], Awaitable[None]],
    ) -> tuple[int, int]:
        # Importing Graphiti takes more than a second: not in the way of others, and not at start.
        await asyncio.to_thread(importlib.import_module, "gralkord.graph.understanding")
        from gralkord.graph.understanding import understand  # noqa: PLC0415

        assert self._model is not None
        return await understand(
            group,
            draft,
            known=known,
            previous=await self._previous(group, draft),
            model=self._model,
            embedder=embedder,
            save=save,
        )

    def _bare(self, group: str, draft: EpisodeDraft) -> EpisodeRows:
        """Return the rows of an episode of which nothing but notes is known."""
        from gralkord.graph.statement import EpisodeRows  # noqa: PLC0415

        now = self._clock.now()
        episode = {"group_id": group, "source": draft.source, "entity_edges": [], "created_at": now}
        return EpisodeRows(episodes=[episode])

    async def origins(self, group: str, keys: Sequence[str], *, lens: str, but: str) -> set[str]:
        """Return which turns of other groups have been understood into *group* already.

        Args:
            group: The group id.
            keys: See `gralkord.graph.drafts.origin_key`.
            lens: Through which lens; ``global`` is what was told of none, and may be any.
            but: Uuid of an episode that does not count: the one they are to become part of.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        await self._connection.ensure_group(group)
        params = {"keys": list(keys), "uuid": but, "lens": lens}
        rows = await self._connection.read(group, _ORIGINS, params, timeout_ms=READ_MS)
        return {key for (key,) in rows}

    async def _begin(self, group: str, epoch: int, draft: EpisodeDraft) -> EpisodeResult | None:
        """Shut out earlier holders of the lease; return what the episode is if it is there."""
        await self._connection.ensure_group(group)
        params = {"epoch": epoch, "uuid": draft.uuid}
        rows = await self._connection.write(group, _BEGIN, params, resend=True)
        if not rows:
            raise await schema.refused(self._connection, group, epoch) or self._vanished(group)
        uuid, facts, entities, notes = rows[0]
        if uuid is None:
            return None
        return EpisodeResult(
            draft.uuid, created=False, facts=facts, entities=entities, notes=notes or 0
        )

    async def _previous(self, group: str, draft: EpisodeDraft) -> list[PreviousEpisode]:
        from gralkord.graph.understanding import PreviousEpisode  # noqa: PLC0415

        ms = int(draft.reference_time.timestamp() * 1000)
        params = {"uuid": draft.uuid, "ms": ms, "limit": PREVIOUS_EPISODES, "chars": PREVIOUS_CHARS}
        rows: list[list[Any]] = []
        for window in PREVIOUS_WINDOWS:
            params["after"] = ms - window
            rows = await self._connection.read(group, _PREVIOUS, params, timeout_ms=READ_MS)
            if len(rows) == PREVIOUS_EPISODES:
                break
        return [
            PreviousEpisode(uuid, name, source, content, datetime.fromisoformat(valid_at))
            for uuid, name, source, content, valid_at in reversed(rows)
        ]

    async def _save(
        self, group: str, epoch: int, draft: EpisodeDraft, rows: EpisodeRows, fingerprint: str
    ) -> None:
        from gralkord.graph.statement import episode_statement  # noqa: PLC0415

        query, params = episode_statement(
            draft,
            rows,
            epoch=epoch,
            fingerprint=fingerprint,
            labels=tuple(draft.kinds.entity_types),
            embeds=self._embedders.present is not None,
        )
        # Written again it would be the same, and losing it would waste every model call.
        if await self._connection.write(group, query, params, resend=True):
            return
        raise await schema.refused(self._connection, group, epoch) or self._vanished(group)

    def _vanished(self, group: str) -> BackendUnavailable:
        self._connection.forget_group(group)
        return BackendUnavailable(f"group {group} was dropped under way")
