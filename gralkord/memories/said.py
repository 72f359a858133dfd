"""The turns that an erasure takes, as groups know them that keep only what was made of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gralkord.graph.drafts import origin_key

if TYPE_CHECKING:
    from gralkord.graph.doomed import DoomedPassage
    from gralkord.graph.finding import GroupFinder
    from gralkord.models.erasure import EraseScope


@dataclass(slots=True)
class Said:
    """The turns of a scope.

    Attributes:
        keys: Their origin keys.
        partly: Those of them of which something is left.
        near: For the turns of their sessions, by key, the home and a passage.
    """

    keys: set[str] = field(default_factory=set)
    partly: set[str] = field(default_factory=set)
    near: dict[str, tuple[str, DoomedPassage]] = field(default_factory=dict)


async def said_in(
    groups: GroupFinder,
    homes: Collection[str],
    turns: Mapping[str, Collection[str]],
    part: EraseScope | None,
) -> Said:
    """Return the turns of a scope; asked before any of their passages goes.

    Args:
        groups: Finds passages.
        homes: The groups that keep them.
        turns: The turns' ids, by home.
        part: The scope, where some of the homes' passages stay.

    Raises:
        BackendUnavailable: The graph does not answer.
    """
    said = Said()
    for home in homes:
        said.keys |= {origin_key(home, turn) for turn in turns[home]}
        if part is None:
            continue
        found = [one async for one in groups.passages(home, part)]
        gone = {one.uuid for one in found}
        for one in await groups.of_sessions(home, {one.session for one in found}):
            key = origin_key(home, one.turn_id)
            said.near[key] = (home, one)
            if one.uuid not in gone:
                said.partly.add(key)
    return said
