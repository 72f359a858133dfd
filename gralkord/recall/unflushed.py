"""The turns of a session that are not flushed yet: a conversation that is still going on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from gralkord.graph.cache import GroupCache
from gralkord.graph.rows import PassageRow


class Sessions(Protocol):
    """Knows what has become of the turns of sessions."""

    async def unflushed(self, tenant: str, session: str) -> list[str]:
        """Return the ids of a session's turns that are not flushed yet, oldest first.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unflushed:
    """Some turns of a session.

    Attributes:
        session: The session.
        turns: Their ids.
    """

    session: str
    turns: frozenset[str]

    def numbers(self, cache: GroupCache) -> list[int]:
        """Return the numbers of their rows in a group, in their order; its lock is held."""
        return cache.passages.of_turns(self.session, self.turns)

    def said(self, caches: Iterable[GroupCache]) -> list[PassageRow]:
        """Return what was said in them, each once however many groups have it, oldest first."""
        found: dict[tuple[str, int, int], PassageRow] = {}
        for cache in caches:
            with cache.lock:
                rows = [cache.passages.row(number) for number in self.numbers(cache)]
            for row in rows:
                found.setdefault((row.turn_id, row.ordinal, row.part), row)
        return sorted(found.values(), key=lambda row: (row.ordinal, row.part))
