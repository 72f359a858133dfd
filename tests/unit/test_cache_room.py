"""How many groups stay in memory."""

from __future__ import annotations

import tracemalloc

from gralkord.graph.cache import CachePool
from gralkord.graph.group_cache import GROUP_BYTES

GROUPS = 10_000


class Graph:
    """Small groups: each has as many passages as asked, or only those whose number ends in 00."""

    def __init__(self, rows, *, sparse=False):
        self.rows = rows
        self.sparse = sparse
        self.reads = 0
        self.gone = set()

    async def run_id(self):
        """Return the name of the only run."""
        return "run"

    async def read(self, group, query, params=None, **_):
        """Answer as the graph does."""
        self.reads += 1
        if group in self.gone:
            return []
        if "(m:Meta)" in query:
            rows = 0 if self.sparse and "00__" not in group else self.rows
            return [[rows, 1, False, "", ""]]
        if "Passage" not in query:
            return []
        return [
            [
                *(f"{group}-{n}", f"words of {group}", "Ann", "user", "bot", "s", n, 0),
                *("2024-05-01T09:30:00Z", 1_714_555_800_000, f"t{n}", None, None, 1, "true"),
                *(None, None, n, "A" * 344, None, None, None, None, None, None, None),
            ]
            for n in range(params["after"] + 1, min(params["upto"], self.rows) + 1)
        ]


def group(number):
    """Return a group id."""
    return f"op__{('default', 'other')[number % 2]}__o{number}__default"


async def test_ten_thousand_groups_keep_to_the_limit():
    """The groups used last stay, the limit holds after each, and asking costs the same each time."""
    limit = 200 * GROUP_BYTES
    pool = CachePool(Graph(1, sparse=True), limit)
    for number in range(GROUPS):
        await pool.fresh(group(number))
        assert pool.nbytes <= limit
    kept = [number for number in range(GROUPS) if pool.known(group(number))]
    assert kept == list(range(GROUPS - len(kept), GROUPS))
    assert len(kept) > 50
    await pool.fresh(group(kept[0]))
    await pool.fresh(group(0))
    assert pool.known(group(kept[0]))
    assert not pool.known(group(kept[1]))
    await pool.close()
    assert pool.nbytes == 0


async def test_what_is_counted_is_what_is_taken():
    """The bytes that the pool counts are about those that its groups take, empty ones too."""
    for rows in (0, 3, 40):
        pool = CachePool(Graph(rows), 2**40)
        await pool.fresh(group(GROUPS))
        tracemalloc.start()
        before, counted = tracemalloc.get_traced_memory()[0], pool.nbytes
        for number in range(50):
            await pool.fresh(group(number))
        taken = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert 0.6 * taken <= pool.nbytes - counted <= 2 * taken
        await pool.close()


async def test_a_group_that_is_gone_is_not_counted():
    """A graph that was dropped, or forgotten because it was erased, takes no room."""
    graph = Graph(3)
    pool = CachePool(graph, 2**30)
    for number in range(3):
        await pool.fresh(group(number))
    graph.gone.add(group(0))
    assert await pool.fresh(group(0)) is None
    pool.forget(group(1))
    pool.forget(group(1))
    one = CachePool(Graph(3), 2**30)
    await one.fresh(group(2))
    assert pool.nbytes == one.nbytes
