"""From one system to another: what the daemon exports is what another one imports and recalls."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping

import orjson
import pytest
from episodes_of_tests import fact, understand
from groups_of_tests import ANN, BOB
from memories_of_tests import AxisEmbedder, remember

from gralkord.client.import_export import ExportFile, RowImport
from gralkord.clock import SystemClock
from gralkord.config import Lens, RecallSettings
from gralkord.errors import InvalidInput, NotFound, TooMany
from gralkord.graph.cache import CachePool
from gralkord.graph.passages import PassageStore
from gralkord.graph.transfer import RowWriter
from gralkord.groups import Group
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.items import Item, Lease
from gralkord.memories.transfer import EXPORTS_AT_ONCE, Transfer
from gralkord.models import RecallRequest
from gralkord.models.results import Result
from gralkord.models.transfer import ExportQuery, ImportRows
from gralkord.recall.recall import Recaller
from gralkord.turns.rows import write_rows

QUESTIONS = (
    "boat",
    "Who likes tea?",
    "What did Ann say of the red boat?",
    "harbour",
    "tea or boat",
)
SHARED = Group("default").id
WORK = Group("default", "ann", "work").id


class DoneAtOnce:
    """Does each request with its executor, as the worker of its group does."""

    def __init__(self, graph):
        self.groups = []
        self._execute = write_rows(RowWriter(graph, AxisEmbedder()))

    async def ask(self, tenant, group, kind, body, timeout):  # noqa: ASYNC109
        """Do it now."""
        self.groups.append(group)
        item = Item("1.q", orjson.loads(orjson.dumps({"kind": kind, **body})))
        answer: Mapping = await self._execute(Lease("understand", group, 7, (item,)), item)
        return Result(id="1-1", complete=True, answer=dict(answer))


class HttpInBetween:
    """A client whose requests go as JSON and back."""

    def __init__(self, transfer):
        self._transfer = transfer

    async def import_rows(self, rows, **options):
        """Have them written."""
        raw = ImportRows(rows=list(rows), **options).model_dump_json(exclude_defaults=True)
        return await self._transfer.import_rows("default", ImportRows.model_validate_json(raw))


@pytest.fixture
def transfer(graph):
    """The part of the daemon that moves memories."""
    lenses = LensRegistry({"work": Lens()})
    return Transfer(graph, DoneAtOnce(graph), lenses, SystemClock())


async def exported(transfer, **query):
    """Return an export as bytes."""
    pieces = transfer.export("default", ExportQuery(**query))
    return b"".join([piece async for piece in pieces])


async def imported(transfer, content, as_operator=None):
    """Import bytes; return the report."""
    run = RowImport(HttpInBetween(transfer), as_operator)
    return await run.run(ExportFile(io.BytesIO(content)))


async def recalled(graph, operator, *lenses):
    """Return what is recalled for all questions: ids, texts, scores to five places, in order."""
    pool = CachePool(graph, 2**30)
    recaller = Recaller(pool, AxisEmbedder(), RecallSettings(), SystemClock())
    groups = [Group("default", operator, lens) for lens in ("default", *lenses)]
    found = []
    for question in QUESTIONS:
        request = RecallRequest(operator=operator, query=question, max_results=50)
        answer = await recaller.recall("default", request, groups)
        found.append(
            [(each.kind, each.id, each.text, round(each.score, 5)) for each in answer.results]
        )
    await pool.close()
    return found


def _words(found):
    """Return what was found without its ids, which decide between equals."""
    return sorted((-score, text) for _, _, text, score in found)


async def fill(graph):
    """Remember things of two operators, in three groups and the shared one."""
    said = [f"the boat {number} is red, and the harbour is full" for number in range(30)]
    uuids = await remember(graph, ANN, "I like tea", *said, spoken=True)
    facts = [
        fact("f1", "e1", "e2", "Ann likes tea"),
        fact("f2", "e1", "e2", "Ann liked green tea", expired_at="2024-06-01T00:00:00Z"),
    ]
    await understand(graph, ANN, passages=tuple(uuids[:9]), facts=facts)
    await remember(graph, WORK, "the boat is rented out", session="w", spoken=True)
    await remember(graph, BOB, "the boat is green", "tea is for Bob", session="b", spoken=True)
    await understand(graph, SHARED, origins=("o1",))


async def test_elsewhere_the_same_is_recalled(graph, transfer):
    """After an import into an empty system every question has the same answer, with its scores."""
    await fill(graph)
    before = [await recalled(graph, "ann", "work"), await recalled(graph, "bob")]
    assert all(len(found) > 2 for found in before[0][:3])
    assert {kind for kind, *_ in before[0][1]} == {"passage", "fact"}
    for vectors in (False, True):
        content = await exported(transfer, everything=True, vectors=vectors)
        groups = await graph.groups()
        for group in groups:
            await graph.drop_group(group)
        report = await imported(transfer, content)
        assert (report.failed, report.fault, report.lenses) == (0, None, [])
        assert await graph.groups() == groups
        assert [await recalled(graph, "ann", "work"), await recalled(graph, "bob")] == before
        again = await imported(transfer, content)
        assert (again.created, again.known) == (0, report.created)


async def test_an_operator_is_moved_alone(graph, transfer):
    """An export of one operator holds no word of another's, and may become somebody else's."""
    await fill(graph)
    content = await exported(transfer, operator="ann")
    assert b"for Bob" not in content
    bobs = await recalled(graph, "bob")
    report = await imported(transfer, content, as_operator="eve")
    assert report.failed == 0
    annes = await recalled(graph, "ann", "work")
    eves = await recalled(graph, "eve", "work")
    assert [_words(found) for found in eves] == [_words(found) for found in annes]
    assert await recalled(graph, "bob") == bobs
    eve = Group("default", "eve", "default").id
    assert await PassageStore(graph).counts(eve) == await PassageStore(graph).counts(ANN)
    with pytest.raises(NotFound):
        await exported(transfer, operator="nobody")


async def test_what_is_there_stays_and_what_is_missing_comes(graph, transfer):
    """An import into a filled group adds what it lacks; a waiting passage gets its episode."""
    await fill(graph)
    content = await exported(transfer, operator="ann")
    await graph.drop_group(ANN)
    await remember(graph, ANN, "I like tea", "the boat 0 is red, and the harbour is full")
    await remember(graph, ANN, "my own", session="own")
    report = await imported(transfer, content)
    assert report.known == 3  # one of them is work's
    assert await PassageStore(graph).counts(ANN) == (32, 23)
    assert b"my own" in await exported(transfer, operator="ann")


async def test_the_shared_group_is_nobodys(graph, transfer):
    """Imported for one operator, rows of the shared group are left out; two operators never mix."""
    await fill(graph)
    lines = (await exported(transfer, everything=True)).splitlines()
    rows = [orjson.loads(line) for line in lines[1:-1]]
    shared = [row for row in rows if row["operator"] is None]
    request = {"rows": shared, "tenant": "default", "as_operator": "eve"}
    result = await transfer.import_rows("default", ImportRows.model_validate(request))
    assert (result.created, result.skipped) == (0, len(shared))
    with pytest.raises(InvalidInput, match="must not be mixed"):
        await transfer.import_rows("default", ImportRows.model_validate(request | {"rows": rows}))


async def test_a_lens_that_is_not_configured_is_told(graph, transfer):
    """Its memories are written, and the answer says that nothing recalls them yet."""
    await remember(graph, Group("default", "ann", "garden").id, "roses")
    report = await imported(transfer, await exported(transfer, operator="ann"))
    assert report.lenses == ["garden"]


async def test_only_so_many_exports_at_once(graph, transfer):
    """One more is refused for now, and an export that is given up makes room."""
    await remember(graph, ANN, "tea")
    query = ExportQuery(operator="ann")
    running = [transfer.export("default", query) for _ in range(EXPORTS_AT_ONCE)]
    for one in running:
        await anext(one)
    with pytest.raises(TooMany):
        await anext(transfer.export("default", query))
    await asyncio.gather(*(one.aclose() for one in running))
    assert (await exported(transfer, operator="ann")).count(b"\n") == 3
