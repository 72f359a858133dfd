"""Where the memories of one operator are: in the groups of all its lenses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gralkord.graph.rows import FactRow, PassageRow
from gralkord.graph.validity import View, view_at
from gralkord.groups import Group

if TYPE_CHECKING:
    from gralkord.clock import Clock
    from gralkord.graph.cache import CachePool, GroupCache
    from gralkord.lenses.registry import LensRegistry

READ_MS: Final = 1_000

Row = PassageRow | FactRow


@dataclass(frozen=True, slots=True)
class Held:
    """A group of an operator that has a graph.

    Attributes:
        group: The group.
        cache: What it holds, as it is now.
    """

    group: Group
    cache: GroupCache

    @property
    def lens(self) -> str:
        """Name of the lens that a reader knows it by."""
        return self.group.lens or self.group.scope

    def find(self, uuids: Sequence[str]) -> list[Row]:
        """Return the passages, facts and notes of these uuids."""
        with self.cache.lock:
            return [*self.cache.passages.by_uuid(uuids), *self.cache.facts.by_uuid(uuids)]

    def told_of_source(self, source: str, offset: str | None) -> list[FactRow]:
        """Return the notes that name a source, or one place in it, as theirs."""
        return [
            row
            for row in self.cache.facts.rows()
            if row.note_kind and row.source == source and offset in {None, row.offset}
        ]

    def of_source(self, source: str, offset: str | None) -> list[PassageRow]:
        """Return the passages of a source, or of one place in it."""
        return [
            row
            for row in self.cache.passages.rows()
            if row.source == source and offset in {None, row.offset}
        ]


@dataclass(frozen=True, slots=True)
class Lookup:
    """Finds the groups of operators."""

    caches: CachePool
    lenses: LensRegistry
    clock: Clock

    async def held(self, tenant: str, operator: str) -> list[Held]:
        """Return the groups that hold memories of an operator, with what they hold now.

        The memory that global lenses share is among them if there are such lenses.

        Raises:
            BackendUnavailable: The graph does not answer.
        """
        named = [self.lenses.lens(name) for name in self.lenses.names()]
        groups = list(dict.fromkeys(self.lenses.group(tenant, operator, lens) for lens in named))
        found = await asyncio.gather(
            *(self.caches.fresh(group.id, timeout_ms=READ_MS) for group in groups)
        )
        return [
            Held(group, cache)
            for group, cache in zip(groups, found, strict=True)
            if cache is not None
        ]

    def view(self) -> View:
        """Return the view of what holds now."""
        return view_at(self.clock.now())
