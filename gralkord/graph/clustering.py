"""Which entities belong together: bounded label propagation over the facts between them.

Each entity takes the label that weighs most among those it has facts with, in an order that is
always the same, until nothing changes or the rounds are used up. So it ends, also where labels
would change to and fro for ever, and two runs over the same facts find the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

ROUNDS: Final = 20
SMALLEST: Final = 2


def clusters(pairs: Iterable[tuple[str, str]], *, rounds: int = ROUNDS) -> list[list[str]]:
    """Return the groups of ends that belong together, largest first; loners are left out.

    Args:
        pairs: The two ends of each fact; a pair may come several times, and counts as often.
        rounds: How often each end looks at its neighbours at most.
    """
    near = _neighbours(pairs)
    # Whoever has few neighbours chooses first: it has least to choose from.
    order = sorted(near, key=lambda end: (len(near[end]), end))
    labels = {end: end for end in order}
    for _ in range(rounds):
        changed = False
        for end in order:
            label = _heaviest(end, near, labels)
            changed |= label != labels[end]
            labels[end] = label
        if not changed:
            break
    found: dict[str, list[str]] = {}
    for end in sorted(near):
        found.setdefault(labels[end], []).append(end)
    large = [members for members in found.values() if len(members) >= SMALLEST]
    return sorted(large, key=lambda members: (-len(members), members[0]))


def _neighbours(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    near: dict[str, dict[str, int]] = {}
    for one, other in sorted(pairs):
        if one != other:
            for here, there in ((one, other), (other, one)):
                known = near.setdefault(here, {})
                known[there] = known.get(there, 0) + 1
    return near


def _heaviest(end: str, near: Mapping[str, Mapping[str, int]], labels: Mapping[str, str]) -> str:
    """Return the label that weighs most around *end*; its own where others are no heavier.

    Who knows everybody says little about whom one belongs to, and weighs less.
    """
    weights: dict[str, float] = {}
    for other, facts in near[end].items():
        label = labels[other]
        weights[label] = weights.get(label, 0.0) + facts / len(near[other]) ** 0.5
    most = max(weights.values())
    if weights.get(labels[end], 0.0) >= most:
        return labels[end]
    return min(label for label, weight in weights.items() if weight == most)
