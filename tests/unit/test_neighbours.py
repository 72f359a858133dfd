from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gralkord.graph.neighbours import Neighbours


def links_by_hand(places):
    """Return the four links of each row, worked out the plain way."""
    before, after = {}, {}
    for session in {place[0] for place in places}:
        rows = sorted(
            (ordinal, part, row)
            for row, (other, ordinal, part) in enumerate(places)
            if other == session
        )
        for (*_, one), (*_, two) in pairwise(rows):
            before[two], after[one] = one, two
    before[-1] = after[-1] = -1
    rows = [*range(len(places)), -1]
    return [
        [before.get(row, -1) for row in rows],
        [after.get(row, -1) for row in rows],
        [before.get(before.get(row, -1), -1) for row in rows],
        [after.get(after.get(row, -1), -1) for row in rows],
    ]


PLACES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 6), st.integers(0, 2)), max_size=30
)


@given(PLACES)
@settings(max_examples=200, deadline=None)
def test_links_are_right_in_whatever_order_rows_come(places):
    """A row is linked to those beside it in its session, also when it comes late."""
    neighbours = Neighbours()
    for row, (session, ordinal, part) in enumerate(places):
        neighbours.place(row, session, ordinal, part)
        if row % 3 == 0:
            neighbours.order()
    order = neighbours.order()
    assert [link.tolist() for link in order.links] == links_by_hand(places)
    assert order.sessions == len({place[0] for place in places})


def test_sessions_are_never_linked():
    """The last turn of one session is not beside the first of the next."""
    neighbours = Neighbours()
    neighbours.place(0, "one", 0, 0)
    neighbours.place(1, "two", 0, 0)
    assert [link.tolist() for link in neighbours.order().links] == [[-1, -1, -1]] * 4


def test_nearby_adds_a_share_of_the_two_beside():
    """Each row gets its own number and half of those before and after it."""
    neighbours = Neighbours()
    for row in range(3):
        neighbours.place(row, "s", row, 0)
    values = np.asarray([1, 10, 100], dtype=np.float32)
    assert neighbours.order().nearby(values, 0.5).tolist() == [6, 60.5, 105]
