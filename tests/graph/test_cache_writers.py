"""The group cache beside many writers: whatever it says that it has read, it holds."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest
from groups_of_tests import ANN, BOB
from memories_of_tests import WHEN, remember

from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.statement import EpisodeRows, episode_statement

WRITERS = 8
WRITES = 40
SEQS = {
    "passages": "MATCH (n:Passage) RETURN n.uuid, n.seq",
    "facts": "MATCH ()-[n:RELATES_TO]->() RETURN n.uuid, n.seq",
    "entities": "MATCH (n:Entity) RETURN n.uuid, n.seq",
}


async def write_episode(graph, group, uuid, passages, dice):
    """Write an episode about two of twenty entities, some of which others rewrite all the time."""
    ends = [f"{group}-n{number}" for number in dice.sample(range(20), 2)]
    common = {"group_id": group, "created_at": WHEN}
    rows = EpisodeRows(
        episodes=[common | {"source": "message", "entity_edges": [uuid]}],
        entities=[
            common | {"uuid": end, "name": end, "labels": ["Entity"], "summary": uuid}
            for end in ends
        ],
        facts=[
            common
            | {"uuid": f"f{uuid}", "name": "KNOWS", "fact": f"fact of {uuid}", "episodes": [uuid]}
            | {"source_node_uuid": ends[0], "target_node_uuid": ends[1]}
        ],
    )
    draft = EpisodeDraft(
        uuid=uuid,
        name="n",
        body="b",
        reference_time=WHEN + timedelta(seconds=dice.randrange(10_000)),
        source_description="d",
        passages=tuple(passages),
    )
    query, params = episode_statement(draft, rows, epoch=1, fingerprint="", labels=())
    await graph.write(group, query, params)


async def keep_writing(graph, group, writer, acknowledged):
    """Write turns, and of each second turn an episode; say what was answered."""
    dice = random.Random(writer)
    for number in range(WRITES):
        name = f"w{writer}-{number}"
        uuids = await remember(graph, group, f"words of {name}", session=name)
        acknowledged["passages"].update(uuids)
        if number % 2:
            await write_episode(graph, group, name, uuids, dice)
            acknowledged["facts"].add(f"f{name}")


def check(cache, known, found):
    """Compare what the cache holds with what the graph held just after it was read."""
    for kind, answered in known.items():
        held = {row.uuid: row.seq for row in rows_of(cache, kind)}
        assert answered <= held.keys(), f"{kind} that were answered before the reading"
        late = {uuid: seq for uuid, seq in found[kind] if seq <= cache.seq}
        assert late.items() <= held.items(), f"{kind} up to {cache.seq}"


def rows_of(cache, kind):
    table = getattr(cache, kind)
    return [table.row(number) for number in range(len(table))]


@pytest.mark.parametrize("small", [False, True])
async def test_no_row_is_missed_under_eight_writers(graph, monkeypatch, small):
    """At every pull the cache has each row up to its number, and each that was answered before."""
    if small:  # many windows, each of them open to what is written meanwhile
        monkeypatch.setattr("gralkord.graph.reading.FIRST_STEP", 2)
        monkeypatch.setattr("gralkord.graph.reading.MAX_GROWTH", 1)
    for group in (ANN, BOB):
        await graph.ensure_group(group)
    answered = {"passages": set(), "facts": set(), "entities": set()}
    pool, pulls = CachePool(graph, 2**30), 0
    others = asyncio.create_task(keep_writing(graph, BOB, 99, {kind: set() for kind in SEQS}))
    writing = asyncio.gather(
        *(keep_writing(graph, ANN, number, answered) for number in range(WRITERS))
    )
    done = False
    while not done:
        done = writing.done()
        known = {kind: set(uuids) for kind, uuids in answered.items()}
        cache = await pool.fresh(ANN, timeout_ms=5_000)
        found = {kind: await graph.read(ANN, query) for kind, query in SEQS.items()}
        check(cache, known, found)
        pulls += 1
    await writing
    await others
    cache = await pool.fresh(ANN)
    for kind, query in SEQS.items():
        whole = dict(await graph.read(ANN, query))
        assert {row.uuid: row.seq for row in rows_of(cache, kind)} == whole
    assert len(cache.passages) == WRITERS * WRITES
    assert all("w99" not in row.text for row in rows_of(cache, "passages"))
    assert pulls > 1
    await pool.close()
