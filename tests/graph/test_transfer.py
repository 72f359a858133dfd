"""Rows of an export, read out of a group and written into another one."""

from __future__ import annotations

import json

import pytest
from episodes_of_tests import understand
from fakes import FakeEmbedder
from groups_of_tests import ANN, BOB, only
from memories_of_tests import remember

from gralkord.errors import LeaseLost
from gralkord.graph.export import GroupExport, group_state
from gralkord.graph.passages import PassageStore, passage_uuid
from gralkord.graph.transfer import RowWriter
from gralkord.groups import Group
from gralkord.models.transfer import TransferRow
from gralkord.wire import read_model

SHARED = Group("default").id


async def exported(graph, group, *, vectors=True):
    """Return the rows of a group, after a way over JSON."""
    state = await group_state(graph, group)
    reading = GroupExport(graph, group, state.seq, vectors)
    owner = {"operator": "ann", "lens": "default"}
    rows = [json.loads(json.dumps(owner | row)) async for row in reading.rows()]
    return [read_model(TransferRow, row) for row in rows]


async def imported(graph, group, rows, *, origin=ANN, embedder=None, epoch=5, of="test:axes:4"):
    """Write rows into a group."""
    writer = RowWriter(graph, embedder)
    return await writer.write(group, epoch, rows, origin=origin, embedder=of)


def plain(rows):
    """Return rows as values that can be compared, whatever their order."""
    return sorted((row.model_dump() for row in rows), key=lambda row: (row["kind"], row["uuid"]))


async def test_what_is_written_elsewhere_is_the_same(graph):
    """A dropped group that is imported again has the same rows, counts, labels and vectors."""
    uuids = await remember(graph, ANN, "I like tea", "I wait")
    await understand(graph, ANN, passages=(uuids[0],), origins=("o1",))
    await graph.write(
        ANN,
        "MATCH (m:Meta) SET m.seq = m.seq + 1 WITH m MATCH (p:Passage {uuid: $uuid}) "
        "SET p.withdrawn_at = '2024-06-01T00:00:00Z', p.metadata = '{\"a\": 1}', "
        "p.form = 'document', p.description = 'a note', p.seq = m.seq",
        {"uuid": uuids[1]},
    )
    before = await exported(graph, ANN)
    await graph.drop_group(ANN)
    await remember(graph, BOB, "Bob's own")
    written = await imported(graph, ANN, before)
    assert written.created == len(before) == 8
    assert plain(await exported(graph, ANN)) == plain(before)
    assert await PassageStore(graph).counts(ANN) == (2, 1)
    assert await only(graph, ANN, "MATCH (n:Person) RETURN n.name") == "Ann"
    assert await only(graph, ANN, "MATCH (o:Origin)-[:PART_OF]->(e) RETURN o.key") == "o1"
    assert (
        await only(
            graph, ANN, "MATCH (p)-[:PART_OF]->(e:Episodic) WHERE p.text IS NOT NULL RETURN p.text"
        )
        == "I like tea"
    )
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.embedder") == "test:axes:4"
    assert await PassageStore(graph).counts(BOB) == (1, 1)


async def test_again_is_no_change(graph):
    """Rows that are there stay as they are, and are counted as known."""
    uuids = await remember(graph, ANN, "I like tea")
    await understand(graph, ANN, passages=tuple(uuids))
    rows = await exported(graph, ANN)
    await graph.write(ANN, "MATCH ()-[f:RELATES_TO]->() SET f.expired_at = '2024-07-01T00:00:00Z'")
    now = plain(await exported(graph, ANN))
    written = await imported(graph, ANN, rows)
    assert written.created == 0
    assert len(written.numbers) == len(rows)
    assert plain(await exported(graph, ANN)) == now
    assert await PassageStore(graph).counts(ANN) == (1, 0)


async def test_in_another_group_a_turn_has_the_uuid_of_that_group(graph):
    """Passages, links and replacements lead to what a capture there would have written."""
    uuids = await remember(graph, ANN, "I like tea", "I like coffee")
    await understand(graph, ANN, passages=(uuids[0],))
    await graph.write(
        ANN,
        "MATCH (p:Passage {uuid: $old}) SET p.replaced_by = $new",
        {"old": uuids[0], "new": uuids[1]},
    )
    await imported(graph, BOB, await exported(graph, ANN))
    first, second = (passage_uuid(BOB, f"s-{number}", 0, 0) for number in range(2))
    rows = await graph.read(
        BOB, "MATCH (p:Passage) RETURN p.uuid, p.replaced_by, p.episode ORDER BY p.ordinal"
    )
    assert rows == [[first, second, "ep1"], [second, None, None]]
    assert await only(graph, BOB, "MATCH ()-[f:RELATES_TO]->() RETURN f.group_id") == BOB
    assert await remember(graph, BOB, "I like tea") == []
    assert await PassageStore(graph).counts(ANN) == (2, 1)


async def test_missing_vectors_are_made(graph):
    """Without vectors in the file, those of our own embedder are made, of what they were of."""
    await remember(graph, ANN, "I like tea")
    await understand(graph, ANN)
    rows = await exported(graph, ANN, vectors=False)
    assert not any(row.vector for row in rows)
    embedder = FakeEmbedder()
    await imported(graph, BOB, rows, embedder=embedder)
    assert sorted(embedder.texts) == ["Ann", "Ann likes tea", "Ann: I like tea", "tea"]
    assert await only(graph, BOB, "MATCH (m:Meta) RETURN m.embedder") == embedder.fingerprint
    assert await only(graph, BOB, "MATCH (n) WHERE n.vector IS NOT NULL RETURN count(n)") == 3


async def test_vectors_of_two_embedders_never_mix(graph):
    """Vectors of the group's own space are taken, and made anew or left out where they are not."""
    await remember(graph, ANN, "I like tea")
    rows = await exported(graph, ANN)
    await imported(graph, BOB, rows, embedder=FakeEmbedder())
    vector = await only(graph, BOB, "MATCH (p:Passage) RETURN p.vector")
    assert vector != rows[0].vector
    await remember(graph, SHARED, "theirs", session="t")
    await imported(graph, SHARED, rows, embedder=FakeEmbedder(), origin=ANN)
    found = "MATCH (p:Passage {text: 'I like tea'}) RETURN p.vector"
    assert await only(graph, SHARED, found) == rows[0].vector
    work = Group("default", "ann", "work").id
    await remember(graph, work, "theirs", session="t")
    await imported(graph, work, rows, embedder=FakeEmbedder(), origin=ANN, of="foreign:x:4")
    count = "MATCH (p:Passage {unembedded: true}) WHERE p.vector IS NULL RETURN count(p)"
    assert await only(graph, work, count) == 1


async def test_what_refers_to_nothing_is_told(graph):
    """Links whose ends are missing are left out by number; all else is written."""
    uuids = await remember(graph, ANN, "I like tea")
    await understand(graph, ANN, passages=tuple(uuids))
    rows = await exported(graph, ANN)
    rest = [row for row in rows if row.uuid not in {"e2", "ep1"}]
    written = await imported(graph, BOB, rest)
    kinds = [row.kind for number, row in enumerate(rest) if number not in written.numbers]
    assert kinds == ["mention", "mention", "fact"]
    assert await PassageStore(graph).counts(BOB) == (1, 1)
    again = await imported(graph, BOB, rows)
    assert len(again.numbers) == len(rows)
    assert await PassageStore(graph).counts(BOB) == (1, 0)


async def test_a_late_holder_writes_nothing(graph):
    """Rows under an epoch that is over are refused."""
    await remember(graph, ANN, "I like tea")
    rows = await exported(graph, ANN)
    await imported(graph, BOB, [], epoch=5)
    await graph.write(BOB, "MATCH (m:Meta) SET m.fence_understand = 9")
    with pytest.raises(LeaseLost):
        await imported(graph, BOB, rows, epoch=8)
    assert await PassageStore(graph).counts(BOB) == (0, 0)


async def test_what_came_after_the_start_leaves_no_loose_end(graph):
    """A passage understood while a group is read is exported as waiting."""
    uuids = await remember(graph, ANN, *(f"I like tea {number}" for number in range(40)))
    state = await group_state(graph, ANN)
    rows, reading = [], GroupExport(graph, ANN, state.seq).rows()
    async for row in reading:
        rows.append(row)
        if len(rows) == 1:
            await understand(graph, ANN, passages=(uuids[39],))
            await remember(graph, ANN, "later", session="t")
    assert {row["kind"] for row in rows} == {"passage"}
    assert all(row["waiting"] for row in rows)
    assert {row["uuid"] for row in rows} >= set(uuids)
