"""One spelling for each name in an episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gralkord.graph.sanitise import fold_name

if TYPE_CHECKING:
    from gralkord.graph.rows import EntityRow

_ENDS: Final = ("source_entity_name", "target_entity_name")


class Spellings:
    """One spelling for each name in an episode: the known entity's, or else the first that came.

    Graphiti tells names apart by their lower-case form alone.

    Args:
        known: Returns the entities that are known by a name.
    """

    def __init__(self, known: Callable[[str], Sequence[EntityRow]]) -> None:
        self._known = known
        self._chosen: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the spelling of *name* in this episode."""
        key = fold_name(name)
        if key not in self._chosen:
            rows = self._known(name)
            oldest = min(rows, key=lambda row: (row.created_at or "", row.uuid), default=None)
            self._chosen[key] = oldest.name if oldest else name
        return self._chosen[key]

    def settle(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Return an answer with the spelling of every name in it settled."""
        fit = dict(answer)
        if "extracted_entities" in fit:
            fit["extracted_entities"] = [
                item | {"name": self.of(item["name"])} for item in fit["extracted_entities"]
            ]
        if "edges" in fit:
            fit["edges"] = [
                item | {end: self.of(item[end]) for end in _ENDS if end in item}
                for item in fit["edges"]
            ]
        return fit
