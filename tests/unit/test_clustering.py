"""What belongs together, by the facts between things."""

from __future__ import annotations

import random

from gralkord.graph.clustering import clusters


def clique(*ends):
    """Return a fact for each pair of ends."""
    return [(one, other) for one in ends for other in ends if one < other]


def test_what_has_most_facts_with_each_other_belongs_together():
    """Two circles with one fact between them are two, and a loner is none."""
    pairs = [*clique("a", "b", "c", "d"), *clique("v", "w", "x", "y"), ("d", "v"), ("l", "l")]
    assert clusters(pairs) == [["a", "b", "c", "d"], ["v", "w", "x", "y"]]


def test_the_order_of_the_facts_does_not_matter():
    """So two builds over the same memory find the same."""
    dice = random.Random(3)
    pairs = [(f"n{dice.randrange(60)}", f"n{dice.randrange(60)}") for _ in range(120)]
    found = clusters(pairs)
    dice.shuffle(pairs)
    assert clusters(pairs) == found
    members = [end for some in found for end in some]
    assert len(members) == len(set(members))


def test_it_ends_where_labels_would_change_for_ever():
    """The rounds are counted, and two that know only each other are one community."""
    ring = [(str(number), str((number + 1) % 9)) for number in range(9)]
    assert sum(map(len, clusters(ring, rounds=1))) <= 9
    assert clusters([("a", "b")]) == [["a", "b"]]
    assert clusters([]) == []
