"""Searching one lens for a process of the user's own, as recall does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from gralkord.errors import BackendUnavailable
from gralkord.groups import Group
from gralkord.lenses.process import Found
from gralkord.models import RecallRequest
from gralkord.models.recall import MAX_RESULTS
from gralkord.recall.recall import GRAPH, Recaller
from gralkord.wire import read_model

# So many passages may be of the turns at work, which are left out.
SPARE: Final = 40


@dataclass(frozen=True, slots=True)
class OneLens:
    """Searches the group of one lens, and no other."""

    recaller: Recaller

    async def search(
        self, group: Group, operator: str, query: str, max_results: int, but: Collection[str] = ()
    ) -> Sequence[Found]:
        """Return what the group holds that helps with *query*, best first.

        Args:
            group: The group.
            operator: Who asks.
            query: What for.
            max_results: At most so many.
            but: Turns whose words are left out: those that are at work.

        Raises:
            InvalidInput: The query has no words, or too many.
            BackendUnavailable: The graph does not answer: who knew nothing would add it again.
        """
        asked = {"operator": operator, "query": query, "max_results": max_results}
        request = read_model(RecallRequest, asked)
        if but:
            more = min(max_results + SPARE, MAX_RESULTS)
            request = request.model_copy(update={"max_results": more})
        answer = await self.recaller.recall(group.tenant, request, [group])
        if GRAPH in answer.degraded:
            raise BackendUnavailable("the lens cannot be searched: the graph does not answer")
        others = [each for each in answer.results if each.turn_id not in but]
        return tuple(
            Found(each.kind, each.id, each.text, each.score) for each in others[:max_results]
        )
