"""Which episode told each field of an entity, so that the field goes when the episode does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gralkord.graph.drafts import Kinds
    from gralkord.graph.rows import EntityRow

Row = dict[str, Any]


def told_in(
    rows: Iterable[Mapping[str, Any]],
    known: Callable[[Sequence[str]], Sequence[EntityRow]],
    kinds: Kinds,
    episode: str,
) -> dict[str, list[str]]:
    """Return for entities with fields what told each: ``name uuid-of-the-episode``.

    What was told before and is said again was told before.

    Args:
        rows: Entities as they are to be saved.
        known: Returns the entities that are known of some uuids.
        kinds: Tells which of their properties are fields.
        episode: The uuid of the episode that is saved.
    """
    fields = {name for kind in kinds.entity_types.values() for name in kind.model_fields}
    found: dict[str, list[str]] = {}
    for row in rows if fields else ():
        before = next(iter(known([row["uuid"]])), None)
        attributes = before.attributes if before else {}
        told = dict(sources(before.told_in if before else ()))
        told |= {
            name: episode
            for name in sorted(fields & row.keys())
            if row[name] is not None and row[name] != attributes.get(name)
        }
        if told:
            found[row["uuid"]] = [f"{name} {uuid}" for name, uuid in told.items()]
    return found


def sources(told: Iterable[str]) -> list[tuple[str, str]]:
    """Return the fields of an entity, each with the episode that told it."""
    pairs = (line.partition(" ") for line in told)
    return [(name, uuid) for name, _, uuid in pairs if name and uuid]


def without(told: Iterable[str], episodes: Collection[str]) -> Row | None:
    """Return what changes for an entity when episodes go, if anything does.

    Returns:
        ``drop``: a map that takes the fields away; ``told_in``: what is left, or none.
    """
    pairs = sources(told)
    gone = {name: None for name, uuid in pairs if uuid in episodes}
    if not gone:
        return None
    left = [f"{name} {uuid}" for name, uuid in pairs if uuid not in episodes]
    return {"drop": gone, "told_in": left or None}
