"""Communities of a group: found in memory, written by a worker, stopped, and erased."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from types import SimpleNamespace

import anyio
import pytest
from fakes import FakeEmbedder
from notes_of_tests import ANN, BOB, draft, note, write

from gralkord.clock import SystemClock
from gralkord.config import Price
from gralkord.errors import BudgetSpent, LeaseLost, MalformedOutput, NoModel, NotFound, Transient
from gralkord.graph import schema
from gralkord.graph.cache import CachePool
from gralkord.graph.communities import CommunityStore
from gralkord.graph.erasure import GroupEraser, Named
from gralkord.graph.triples import TripleWriter
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.items import Item
from gralkord.memories.communities import Communities
from gralkord.memories.indices import Indices
from gralkord.models.admin import CommunitiesQuery, CommunitiesRequest, StopCommunities
from gralkord.models.erasure import EraseScope
from gralkord.models.results import Result
from gralkord.models.triples import Triple
from gralkord.turns.communities import write_communities

WORK = [("Ann", "works at", "Acme"), ("Joe", "works at", "Acme"), ("Ann", "knows", "Joe")]
HOME = [("Tom", "lives in", "Rome"), ("Eve", "lives in", "Rome"), ("Tom", "married", "Eve")]


class Lane:
    """Asks as the queue does, and does the work at once, as whoever holds the lease."""

    def __init__(self, store):
        self.execute = write_communities(store)
        self.asked = []
        self.before = None

    async def ask(self, _tenant, group, kind, body, _timeout):
        """Do a request."""
        self.asked.append(body)
        if self.before is not None:
            await self.before()
        lease = SimpleNamespace(group=group, epoch=5)
        answer = await self.execute(lease, Item("1", {"kind": kind, **body}))
        return Result(id="1-1", complete=True, answer=dict(answer))


class Model:
    """Sums up by the first fact; fails as it is told."""

    name = "model"

    def __init__(self):
        self.calls = 0
        self.failure = None
        self.before = None

    async def complete(self, messages, schema, **_):
        """Answer."""
        self.calls += 1
        if self.before is not None:
            await self.before()
        if self.failure is not None:
            raise self.failure
        return {"name": f"name {self.calls}", "summary": messages[-1].content[-40:]}


class System:
    """The operation over a graph."""

    def __init__(self, graph):
        self.graph = graph
        self.caches = CachePool(graph, 1 << 22)
        self.store = CommunityStore(graph)
        self.lane = Lane(self.store)
        self.model = Model()
        self.service = self.made()

    def made(self, **parts):
        """Return the service with other parts."""
        given = {"model": self.model, "price": Price(input=1.0, output=2.0)} | parts
        lenses = LensRegistry({})
        return Communities(self.lane, self.caches, self.store, lenses, SystemClock(), **given)

    async def tell(self, triples, group=ANN):
        """Add facts."""
        writer = TripleWriter(self.graph, self.caches, FakeEmbedder(), SystemClock())
        given = [Triple(subject=s, predicate=p, object=o) for s, p, o in triples]
        await writer.add(group, 1, given)

    async def build(self, service=None, **wanted):
        """Build to the end; return all lines."""
        request = CommunitiesRequest(operator="ann", **wanted)
        return [line async for line in (service or self.service).build("default", request)]

    async def shown(self, operator="ann"):
        """Return the names of members of each community."""
        page = await self.service.page("default", CommunitiesQuery(operator=operator))
        return [each.entities for each in page.communities]


@pytest.fixture
async def system(graph):
    """A system that knows two circles of one operator."""
    system = System(graph)
    await system.tell([*WORK, *HOME])
    yield system
    await system.caches.close()


async def test_those_of_one_operator_are_found_and_shown(system):
    """Notes are in none, and another operator's memory is not touched."""
    await system.tell([("Bob", "likes", "tea")], BOB)
    await write(system.graph, draft("one", note("Ann likes tea")))
    lines = await system.build()
    assert [line.done for line in lines] == [False, False, True]
    last = lines[-1]
    counts = (last.entities, last.facts, last.found, last.communities, last.members, last.written)
    assert counts == (6, 6, 2, 2, 6, 2)
    assert (last.calls, last.usd) == (0, 0.0)
    assert sorted(await system.shown()) == [["Acme", "Ann", "Joe"], ["Eve", "Rome", "Tom"]]
    assert await system.shown("bob") == []
    assert await system.graph.read(BOB, "MATCH (c:Community) RETURN count(c)") == [[0]]


async def test_a_dry_run_counts_and_estimates_and_changes_nothing(system):
    """It says how many calls, tokens and dollars summaries would take."""
    (line,) = await system.build(summaries=True, dry_run=True, max_communities=1)
    assert (line.found, line.communities, line.calls, line.done) == (2, 1, 1, True)
    assert line.tokens > 100
    assert line.usd == pytest.approx(line.tokens / 1e6, rel=1)
    assert (system.model.calls, system.lane.asked) == (0, [])
    (line,) = await system.build(system.made(price=None), summaries=True, dry_run=True)
    assert line.usd is None


async def test_the_model_names_and_sums_up_where_its_answer_is_fit(system):
    """A malformed answer costs that one summary, and is counted."""
    lines = await system.build(summaries=True)
    assert (lines[-1].summed_up, system.model.calls) == (2, 2)
    page = await system.service.page("default", CommunitiesQuery(operator="ann"))
    assert {each.name for each in page.communities} == {"name 1", "name 2"}
    assert all(each.summary for each in page.communities)
    system.model.failure = MalformedOutput("no")
    lines = await system.build(summaries=True)
    assert (lines[-1].summed_up, lines[-1].unreadable) == (0, 2)
    page = await system.service.page("default", CommunitiesQuery(operator="ann"))
    assert [each.summary for each in page.communities] == ["", ""]


async def test_new_ones_take_the_place_of_old_ones_at_once(system):
    """Until the last write readers see the old ones, whole, and after it nothing of them is left."""
    await system.build(max_communities=1)
    before = await system.shown()
    seen = []

    async def look():
        seen.append(await system.shown())

    system.lane.before = look
    await system.build()
    assert seen == [before, before]
    assert len(await system.shown()) == 2
    assert await system.graph.read(ANN, "MATCH (c:Community) RETURN count(c)") == [[2]]


@pytest.mark.parametrize("moment", ["model", "lane"])
async def test_a_build_that_is_stopped_changes_nothing(system, moment):
    """Whether models are asked or communities are written; nothing of it is left."""
    await system.build(max_communities=1)
    before = await system.shown()
    wanted = StopCommunities(operator="ann")
    assert not (await system.service.stop("default", wanted)).stopped

    async def stop():
        await system.service.stop("default", wanted)

    getattr(system, moment).before = stop
    lines = await system.build(summaries=moment == "model")
    assert (lines[-1].done, lines[-1].stopped) == (True, True)
    assert await system.shown() == before
    assert await system.graph.read(ANN, "MATCH (c:Community) RETURN count(c)") == [[1]]


async def test_who_stops_reading_stops_it(system):
    """What was written by then is swept away."""
    request = CommunitiesRequest(operator="ann")
    lines = system.service.build("default", request)
    async for line in lines:
        if line.written:
            break
    await lines.aclose()
    building, _ = await system.store.building(ANN)
    assert building is None
    assert await system.graph.read(ANN, "MATCH (c:Community) RETURN count(c)") == [[0]]


async def test_who_goes_away_stops_it(system):
    """A server cancels each of its awaits then, those of its end as well."""
    swept = asyncio.Event()
    execute = system.lane.execute

    async def sweep(lease, item):
        answer = await execute(lease, item)
        if (await system.store.building(ANN))[0] is None:
            swept.set()
        return answer

    system.lane.execute = sweep
    request = CommunitiesRequest(operator="ann")
    with anyio.CancelScope() as scope:
        async with aclosing(system.service.build("default", request)) as lines:
            async for line in lines:
                if line.written:
                    scope.cancel()
                    await anyio.sleep_forever()
    await asyncio.wait_for(swept.wait(), 5)
    assert await system.graph.read(ANN, "MATCH (c:Community) RETURN count(c)") == [[0]]


async def test_an_erasure_under_way_ends_a_build(system):
    """What a model has made of erased words is written nowhere."""

    async def erase():
        system.model.before = None
        eraser = GroupEraser(system.graph)
        rows = await system.graph.read(ANN, "MATCH ()-[f:RELATES_TO]->() RETURN f.uuid LIMIT 1")
        doomed = await eraser.find(ANN, Named(EraseScope(operator="ann", ids=[rows[0][0]])))
        await eraser.take(ANN, 3, doomed)

    system.model.before = erase
    with pytest.raises(Transient, match="erased"):
        await system.build(summaries=True)
    assert await system.shown() == []
    assert await system.graph.read(ANN, "MATCH (c:Community) RETURN count(c)") == [[0]]


async def test_an_erasure_takes_the_communities_of_what_goes(system):
    """The others stay."""
    await system.build(summaries=True)
    eraser = GroupEraser(system.graph)
    query = "MATCH ()-[f:RELATES_TO]->({name: 'Rome'}) RETURN f.uuid LIMIT 1"
    [[uuid]] = await system.graph.read(ANN, query)
    doomed = await eraser.find(ANN, Named(EraseScope(operator="ann", ids=[uuid])))
    assert doomed.counts()["communities"] == 1
    await eraser.take(ANN, 9, doomed)
    assert await system.shown() == [["Acme", "Ann", "Joe"]]
    assert (await eraser.counts(ANN))["communities"] == 1


async def test_a_late_holder_of_the_lease_writes_nothing(system):
    """The fence is that of other writes."""
    await system.graph.write(ANN, "MATCH (m:Meta) SET m.fence_understand = 9")
    with pytest.raises(LeaseLost):
        await system.build()
    assert await system.graph.read(ANN, "MATCH (c:Community) RETURN count(c)") == [[0]]


async def test_what_cannot_be_built_is_refused(system):
    """An operator without memory, summaries without a model, a budget that is spent."""
    service = system.service
    with pytest.raises(NotFound):
        await anext(service.build("default", CommunitiesRequest(operator="bob")))
    with pytest.raises(NoModel):
        await system.build(system.made(model=None), summaries=True)

    async def spent(_):
        raise BudgetSpent("spent")

    with pytest.raises(BudgetSpent):
        await system.build(system.made(permit=spent), summaries=True)
    assert system.model.calls == 0
    assert await system.build(system.made(model=None))


async def test_a_community_of_many_is_written_in_parts(system):
    """No write is longer than others can wait for."""
    crowd = [(f"member {number}", "knows", "Ann") for number in range(100)]
    await system.tell(crowd)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gralkord.memories.communities.MEMBERS_A_WRITE", 30)
        lines = await system.build(max_communities=1)
    writes = [
        sum(len(row["members"]) for row in body.get("rows", ())) for body in system.lane.asked
    ]
    assert lines[-1].members == sum(writes) > 100
    assert max(writes) <= 30
    page = await system.service.page("default", CommunitiesQuery(operator="ann"))
    assert page.communities[0].members == lines[-1].members


async def test_missing_indices_are_made_in_all_groups_of_the_tenant(system):
    """Those that are there are left alone, and it tells how many there are."""
    await system.tell([("Bob", "likes", "tea")], BOB)
    await system.graph.write(ANN, "DROP INDEX ON :Episodic(valid_ms)")
    found = [group async for group in Indices(system.graph).build("default")]
    whole = len(schema.NODE_INDICES) + len(schema.EDGE_INDICES)
    assert [(group.operator, group.indices, group.created) for group in found] == [
        ("ann", whole, 1),
        ("bob", whole, 0),
    ]
    assert [group async for group in Indices(system.graph).build("other")] == []
