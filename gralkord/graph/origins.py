"""Which lens the memories of a shared group came through: a property of their episodes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gralkord.graph.connection import GraphConnection
    from gralkord.graph.rows import FactRow

# Episodes that are remembered: what an episode came through never changes.
REMEMBERED: Final = 20_000

_LENSES: Final = (
    "UNWIND $uuids AS uuid MATCH (e:Episodic {uuid: uuid}) RETURN DISTINCT e.uuid, e.lens"
)


class Origins:
    """Tells the lenses of episodes, for one event loop.

    Args:
        graph: Where to read.
    """

    def __init__(self, graph: GraphConnection) -> None:
        self._graph = graph
        self._known: OrderedDict[tuple[str, str], str | None] = OrderedDict()

    async def of(self, group: str, facts: Iterable[FactRow]) -> Mapping[str, str]:
        """Return for facts and notes, by uuid, the lens that they came through first.

        What was told of no lens, such as a triple, has none.

        Args:
            group: The group id.
            facts: Rows of it.

        Raises:
            BackendUnavailable: The graph does not answer in time.
        """
        first = {row.uuid: row.episodes[0] for row in facts if row.episodes}
        lenses = await self._lenses(group, list(dict.fromkeys(first.values())))
        return {uuid: lens for uuid, episode in first.items() if (lens := lenses.get(episode))}

    async def _lenses(self, group: str, episodes: Sequence[str]) -> dict[str, str | None]:
        found = {
            uuid: self._known[group, uuid] for uuid in episodes if (group, uuid) in self._known
        }
        missing = [uuid for uuid in episodes if uuid not in found]
        if missing:
            params = {"uuids": missing}
            for uuid, lens in await self._graph.read(group, _LENSES, params, timeout_ms=200):
                found[uuid] = self._known[group, uuid] = lens
        for uuid in found:
            self._known.move_to_end((group, uuid))
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return found
