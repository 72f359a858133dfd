"""Sources of an operator's memories: which there are, and what stands in each."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gralkord.errors import NotFound
from gralkord.graph.rows import to_ms
from gralkord.memories.described import iso_of
from gralkord.models.sources import SourceContent, SourceEntry, SourcePage, SourceSummary

if TYPE_CHECKING:
    from gralkord.graph.rows import FactRow, PassageRow
    from gralkord.graph.validity import View
    from gralkord.memories.lookup import Held, Lookup
    from gralkord.models.sources import SourceQuery, SourcesQuery


@dataclass(slots=True)
class _Tally:
    passages: int = 0
    invalidated: int = 0
    first: tuple[int, str] = (2**63, "")
    last: tuple[int, str] = (-(2**63), "")
    facts: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)

    def add(self, row: PassageRow, *, invalidated: bool) -> None:
        self.passages += 1
        self.invalidated += invalidated
        self._reach(row.event_ms, row.event_time)

    def support(self, row: FactRow) -> None:
        (self.notes if row.note_kind else self.facts).add(row.uuid)

    def name(self, row: FactRow) -> None:
        """Count a note that names the source."""
        self.notes.add(row.uuid)
        since = row.valid_at or row.created_at
        if since is not None:
            self._reach(to_ms(since), since)

    def _reach(self, ms: int, moment: str) -> None:
        place = (ms, moment)
        self.first, self.last = min(self.first, place), max(self.last, place)


@dataclass(frozen=True, slots=True)
class Sources:
    """Implements `gralkord.rpc.sources.Sources`."""

    lookup: Lookup

    async def page(self, tenant: str, query: SourcesQuery) -> SourcePage:
        """Return the sources of an operator, by name."""
        held = await self.lookup.held(tenant, query.operator)
        tallies = await asyncio.to_thread(_tallies, held, self.lookup.view())
        names = sorted(name for name in tallies if query.after is None or name > query.after)
        shown = names[: query.limit]
        return SourcePage(
            sources=[
                SourceSummary(
                    source=name,
                    passages=tallies[name].passages,
                    invalidated=tallies[name].invalidated,
                    facts=len(tallies[name].facts),
                    notes=len(tallies[name].notes),
                    first=tallies[name].first[1],
                    last=tallies[name].last[1],
                )
                for name in shown
            ],
            next=shown[-1] if len(names) > len(shown) else None,
        )

    async def content(self, tenant: str, source: str, query: SourceQuery) -> SourceContent:
        """Return what stands in a source, without the words.

        Raises:
            NotFound: The operator has nothing of it.
        """
        held = await self.lookup.held(tenant, query.operator)
        view = self.lookup.view()
        entries = await asyncio.to_thread(_entries, held, source, query.offset, view)
        named = await asyncio.to_thread(_named, held, source, query.offset)
        if not entries and not named:
            raise NotFound(f"the operator has nothing of the source {source!r}", field="source")
        ids = [entry.id for entry in entries]
        start = ids.index(query.after) + 1 if query.after in ids else 0
        shown = entries[start : start + query.limit]
        more = start + len(shown) < len(entries)
        return SourceContent(
            source=source,
            entries=shown,
            notes=named if start == 0 else [],
            next=shown[-1].id if more else None,
        )


def _tallies(groups: Sequence[Held], view: View) -> dict[str, _Tally]:
    tallies: dict[str, _Tally] = {}
    for held in groups:
        episodes: dict[str, set[str]] = {}
        for row in held.cache.passages.rows():
            if row.source is None:
                continue
            hidden = held.cache.ending(row, view).hides(view)
            tallies.setdefault(row.source, _Tally()).add(row, invalidated=hidden)
            if row.episode is not None:
                episodes.setdefault(row.episode, set()).add(row.source)
        for uuid, sources in episodes.items():
            for fact in held.cache.facts.of_episode(uuid):
                for source in sources:
                    tallies[source].support(fact)
        for note in held.cache.facts.rows():
            if note.note_kind and note.source is not None:
                tallies.setdefault(note.source, _Tally()).name(note)
    return tallies


def _named(groups: Sequence[Held], source: str, offset: str | None) -> list[str]:
    return [row.uuid for held in groups for row in held.told_of_source(source, offset)]


def _entries(
    groups: Sequence[Held], source: str, offset: str | None, view: View
) -> list[SourceEntry]:
    found: list[tuple[tuple[str, int, int, str], SourceEntry]] = []
    for held in groups:
        for row in held.of_source(source, offset):
            ending = held.cache.ending(row, view)
            facts = held.cache.facts.of_episode(row.episode) if row.episode else []
            entry = SourceEntry(
                id=row.uuid,
                lens=held.lens,
                offset=row.offset,
                checksum=hashlib.blake2b(row.text.encode(), digest_size=32).hexdigest(),
                session=row.session,
                turn_id=row.turn_id,
                part=row.part,
                event_time=row.event_time,
                created_at=iso_of(row.created_ms),
                invalidated=ending.hides(view),
                reason=ending.reason,
                facts=[fact.uuid for fact in facts],
            )
            found.append(((row.session, row.ordinal, row.part, row.uuid), entry))
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]
