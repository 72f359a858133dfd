"""Receipts: how far a turn or a flush has come, as the queue tells it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from gralkord.clock import SystemClock
from gralkord.daemon import jobs as jobs_module
from gralkord.daemon.jobs import Jobs
from gralkord.errors import BackendUnavailable, InvalidInput, NotFound, TooMany
from gralkord.groups import Group
from gralkord.mailbox.dead import DeadLetters
from gralkord.mailbox.scripts import Scripts
from gralkord.models import Capture
from gralkord.models.letters import DeadFilter

ANN = Group("default", "ann", "default").id
SHARED = Group("default").id
MADE = "2026-05-01T09:30:00Z"


class FakeGraph:
    """Holds the rows that are asked for of each group, or does not answer."""

    def __init__(self):
        self.rows = {}
        self.down = False

    async def read(self, group, query, params, *, timeout_ms):
        """Return what was put there."""
        if self.down:
            raise BackendUnavailable
        return self.rows.get(group, [])

    def index(self, group=ANN, ms=1777627800000, *, withdrawn=False):
        """Let the group have one passage of the turn."""
        self.rows[group] = [["p1", ms, True, withdrawn, None, None, None, None, None]]

    def understand(self, group=ANN):
        """Let an episode hold it."""
        self.rows[group] = [["p1", 1777627800000, None, False, "e1", 3, 2, 0, MADE]]


class LateClock(SystemClock):
    """A clock whose wall time can be moved."""

    ahead = None

    def now(self):
        """Return the time."""
        return self.ahead or super().now()


@pytest.fixture
def graph():
    """A graph of a few rows."""
    return FakeGraph()


@pytest.fixture
def clock():
    """A clock."""
    return LateClock()


@pytest.fixture
def make_jobs(queue, keys, graph, clock):
    """Make the jobs of a daemon with or without a model."""
    return lambda *, model=True: Jobs(Scripts(queue, keys.prefix), graph, clock, model=model)


@pytest.fixture
def jobs(make_jobs):
    """The jobs of a daemon with a model."""
    return make_jobs()


def said(text="hello", **fields):
    base = {"session": "s", "operator": "ann", "agent": "Ada", "user": "Ann", "turn_id": "t/1"}
    turn = [{"role": "user", "content": text}]
    return Capture.model_validate(base | {"turn": turn} | fields)


async def capture(producer, tenant="default", **fields):
    [receipt] = await producer.capture(tenant, [said(**fields)])
    return receipt.receipt


async def route_all(router, rings, queue, tenant="default"):
    while await queue.xlen(f"gk:intake:{tenant}"):
        await router.route(rings)


async def do_all(mailbox, lane, group=ANN):
    while lease := await mailbox.acquire(lane, group, most=64):
        await mailbox.commit(lease, [item.id for item in lease.items])


async def bury(mailbox, lane, group=ANN):
    lease = await mailbox.acquire(lane, group, most=1)
    await mailbox.fail(
        lease, lease.items[0].id, verdict="bury", delay_ms=0, reason="poison", detail="it is bad"
    )


async def test_a_turn_goes_from_stage_to_stage(
    producer, make_router, mailbox, queue, rings, jobs, graph
):
    """Its state follows it from the stream to the episode, with what was written of it."""
    await capture(producer, turn_id="t0")
    receipt = await capture(producer)
    job = await jobs.read("default", receipt)
    assert (job.state, job.position, job.operator, job.turn_id) == ("queued", 1, "ann", "t/1")
    await route_all(await make_router(), rings, queue)
    job = await jobs.read("default", receipt)
    assert (job.state, job.position, job.stages.indexed) == ("buffered", 1, None)
    assert job.stages.received <= job.stages.routed
    graph.index()
    job = await jobs.read("default", receipt)
    assert (job.state, job.reason, job.position) == ("indexed", "not_flushed", None)
    assert job.stages.indexed == "2026-05-01T09:30:00Z"
    await do_all(mailbox, "index")
    await producer.flush("default", "s", None)
    await route_all(await make_router(), rings, queue)
    job = await jobs.read("default", receipt)
    assert (job.state, job.reason, job.position, job.final) == ("indexed", None, 0, False)
    graph.understand()
    await do_all(mailbox, "understand")
    job = await jobs.read("default", receipt)
    assert (job.state, job.final, job.stages.understood) == ("understood", True, MADE)
    [group] = job.groups
    assert (group.lens, group.passages, group.episode) == ("default", 1, "e1")
    assert (group.facts, group.entities) == (3, 2)


async def test_without_a_model_a_turn_is_final_once_indexed(
    producer, make_router, mailbox, queue, rings, make_jobs, graph
):
    """It stays indexed and says why, with a model as well: not queued, or invalidated meanwhile."""
    receipt = await capture(producer)
    await route_all(await make_router(understanding=False), rings, queue)
    await do_all(mailbox, "index")
    graph.index()
    job = await make_jobs(model=False).read("default", receipt)
    assert (job.state, job.reason, job.final) == ("indexed", "no_model", True)
    await queue.delete("gk:buffer:default:s")
    job = await make_jobs().read("default", receipt)
    assert (job.state, job.reason, job.final) == ("indexed", "not_queued", False)
    graph.index(withdrawn=True)
    job = await make_jobs().read("default", receipt)
    assert (job.state, job.reason, job.final) == ("indexed", "invalidated", True)


async def test_all_groups_count(producer, make_router, mailbox, queue, rings, jobs, graph):
    """A turn is as far as the last of the groups that it goes to."""
    receipt = await capture(producer, lenses=["default", "shared"])
    await route_all(await make_router(flush_turns=1), rings, queue)
    await do_all(mailbox, "index")
    await do_all(mailbox, "understand")
    graph.understand()
    job = await jobs.read("default", receipt)
    assert job.state == "indexed"
    assert {group.lens: group.state for group in job.groups} == {
        "default": "understood",
        "global": "indexed",
    }
    await do_all(mailbox, "understand", SHARED)
    graph.rows[SHARED] = [["o1", None, None, False, "e2", 1, 1, 0, MADE]]
    job = await jobs.read("default", receipt)
    assert job.state == "understood"
    assert [group.passages for group in job.groups] == [1, 0]


async def test_a_tenant_sees_its_own_jobs_only(producer, make_router, queue, rings, jobs):
    """Another tenant's receipt is not found, at no stage."""
    receipt = await capture(producer)
    await producer.flush("default", "s", None)
    for _ in range(2):
        with pytest.raises(NotFound):
            await jobs.read("other", receipt)
        await route_all(await make_router(), rings, queue)
    assert (await jobs.read("default", receipt)).state == "buffered"


async def test_what_blocks_a_job_is_told(producer, make_router, mailbox, queue, rings, jobs):
    """Tries and the last failure of the item that its mailbox works on are part of the answer."""
    receipt = await capture(producer)
    behind = await capture(producer, turn_id="t2")
    await route_all(await make_router(), rings, queue)
    lease = await mailbox.acquire("index", ANN, most=1)
    assert (await jobs.read("default", receipt)).attempts == 1
    await mailbox.fail(
        lease, receipt, verdict="count", delay_ms=9_000, reason="poison", detail="it is bad"
    )
    job = await jobs.read("default", receipt)
    assert (job.attempts, job.last_error.code, job.last_error.message) == (1, "poison", "it is bad")
    assert job.last_error.at.startswith(str(datetime.now(UTC).year))
    job = await jobs.read("default", behind)
    assert (job.attempts, job.position, job.last_error.code) == (0, 1, "poison")


async def test_an_outage_of_the_model_is_told(
    producer, make_router, mailbox, queue, rings, jobs, graph
):
    """While the understand lane is held the job says why it waits."""
    receipt = await capture(producer)
    await route_all(await make_router(flush_turns=1), rings, queue)
    await do_all(mailbox, "index")
    graph.index()
    held = {"since": "1777627800000", "until": "1777627900000", "reason": "model_outage"}
    await queue.hset("gk:model:outage", mapping=held | {"detail": "503"})
    job = await jobs.read("default", receipt)
    assert (job.state, job.reason, job.last_error.message) == ("indexed", "model_outage", "503")


async def test_a_dead_item_makes_the_job_dead(
    producer, make_router, mailbox, queue, keys, rings, jobs
):
    """It names the letter and the reason; after a retry the job goes on."""
    receipt = await capture(producer)
    await route_all(await make_router(), rings, queue)
    await bury(mailbox, "index")
    dead = DeadLetters(queue, keys, understanding=True)
    letters = await dead.select("default", DeadFilter())
    job = await jobs.read("default", receipt)
    assert (job.state, job.dead, job.last_error.code) == ("dead", letters, "poison")
    await dead.retry("default", letters)
    job = await jobs.read("default", receipt)
    assert (job.state, job.dead, job.last_error) == ("buffered", [], None)


async def test_a_refused_entry_is_dead_and_its_retry_is_found_by_the_same_receipt(
    make_router, queue, keys, rings, jobs
):
    """What could not be read says why; retried, its old receipt follows the new entry."""
    entry = (await queue.xadd("gk:intake:default", {"kind": "turn", "data": "{"})).decode()
    await route_all(await make_router(), rings, queue)
    job = await jobs.read("default", entry)
    assert (job.state, job.last_error.code, len(job.dead)) == ("dead", "malformed", 1)
    dead = DeadLetters(queue, keys, understanding=True)
    await dead.retry("default", job.dead)
    job = await jobs.read("default", entry)
    assert (job.id, job.state, job.position) == (entry, "queued", 0)
    await route_all(await make_router(), rings, queue)
    job = await jobs.read("default", entry)
    await dead.drop("default", job.dead)
    job = await jobs.read("default", entry)
    assert (job.state, job.reason, job.dead, job.last_error) == ("dead", "dropped", [], None)


@pytest.mark.parametrize("kind", ["turn", "flush"])
async def test_a_refused_entry_says_what_it_was(make_router, queue, rings, jobs, kind):
    """A dead job tells kind, operator, session and turn as far as the entry does."""
    data = '{"operator": "ann", "session": "s\\n", "turn_id": "t1", "odd": 1}'
    entry = (await queue.xadd("gk:intake:default", {"data": data, "kind": kind})).decode()
    await route_all(await make_router(), rings, queue)
    job = await jobs.read("default", entry)
    assert (job.state, job.kind) == ("dead", kind)
    assert (job.operator, job.session, job.turn_id) == ("ann", "s\n", "t1")


async def test_a_resends_receipt_leads_to_the_first(producer, make_router, queue, rings, jobs):
    """A turn that was written to the stream twice is one job with two receipts."""
    receipt = await capture(producer)
    data = said().model_dump_json(exclude_none=True)
    again = (await queue.xadd("gk:intake:default", {"kind": "turn", "data": data})).decode()
    await route_all(await make_router(), rings, queue)
    first, second = await jobs.read("default", receipt), await jobs.read("default", again)
    assert second == first.model_copy(update={"id": again})


async def test_a_flush_is_a_job_too(producer, make_router, mailbox, queue, rings, jobs):
    """It tells what it still waits for, by lane, until the last item is done."""
    await capture(producer)
    flush = await producer.flush("default", "s", None)
    job = await jobs.read("default", flush)
    assert (job.kind, job.state, job.position, job.session) == ("flush", "queued", 1, "s")
    await route_all(await make_router(), rings, queue)
    job = await jobs.read("default", flush)
    assert (job.state, job.turns, job.open) == ("buffered", 1, {"index": 1, "understand": 1})
    await do_all(mailbox, "index")
    job = await jobs.read("default", flush)
    assert (job.state, job.final) == ("indexed", False)
    assert job.stages.routed <= job.stages.indexed
    await do_all(mailbox, "understand")
    job = await jobs.read("default", flush)
    assert (job.state, job.open) == ("understood", {"index": 0, "understand": 0})
    assert job.stages.understood


async def test_a_flush_with_a_dead_item_is_dead(producer, make_router, mailbox, queue, rings, jobs):
    """A flush one of whose items was given up says so."""
    await capture(producer)
    flush = await producer.flush("default", "s", None)
    await route_all(await make_router(), rings, queue)
    await do_all(mailbox, "index")
    await bury(mailbox, "understand")
    job = await jobs.read("default", flush)
    assert (job.state, job.reason, job.final) == ("dead", "dead_letters", True)


async def test_while_the_graph_is_down_the_queue_answers(
    producer, make_router, mailbox, queue, rings, jobs, graph
):
    """The state is told from the queue alone, and says so."""
    receipt = await capture(producer)
    await route_all(await make_router(flush_turns=1), rings, queue)
    graph.down = True
    job = await jobs.read("default", receipt)
    assert (job.state, job.degraded) == ("buffered", ["graph"])
    await do_all(mailbox, "index")
    assert (await jobs.read("default", receipt)).state == "indexed"
    await do_all(mailbox, "understand")
    assert (await jobs.read("default", receipt)).state == "understood"


async def test_what_is_unknown_or_old_is_not_found(
    producer, make_router, queue, rings, jobs, clock
):
    """After seven days there is no job any more; what is no id is refused with an example."""
    receipt = await capture(producer)
    with pytest.raises(NotFound) as caught:
        await jobs.read("default", "1-1")
    assert "7 days" in caught.value.hint
    for wrong in ("", "1", "a-b", "1-1-1", "1-١", f"{2**64}-0", "9" * 400):
        with pytest.raises(InvalidInput, match="1714555800123-0"):
            await jobs.read("default", wrong)
    with pytest.raises(NotFound):
        await jobs.read("default", f"{2**64 - 1}-{2**64 - 1}")
    await route_all(await make_router(), rings, queue)
    ms = int(receipt.split("-")[0])
    clock.ahead = datetime.fromtimestamp(ms / 1000 + 7 * 86_400 + 1, UTC)
    with pytest.raises(NotFound):
        await jobs.read("default", receipt)
    # The record goes at most an hour later.
    assert 0 < await queue.pttl(f"gk:jobs:default:{ms // 3_600_000}") <= (7 * 24 + 1) * 3_600_000


async def test_far_positions_are_counted_up_to_a_limit(
    producer, make_router, queue, rings, jobs, graph, monkeypatch
):
    """Beyond it the answer says how many there are at least."""
    for number in range(6):
        last = await capture(producer, turn_id=f"t{number}")
    monkeypatch.setattr(jobs_module, "_MOST_COUNTED", 4)
    job = await jobs.read("default", last)
    assert (job.position, job.position_at_least) == (None, 4)
    await route_all(await make_router(), rings, queue)
    job = await jobs.read("default", last)
    assert (job.state, job.position, job.position_at_least) == ("buffered", None, 4)
    graph.understand()
    job = await jobs.read("default", last)
    assert (job.state, job.position_at_least, job.attempts) == ("understood", None, 0)


async def test_a_watch_tells_each_change_and_ends(
    producer, make_router, mailbox, queue, rings, jobs, graph
):
    """It begins at once, goes on through an outage, and ends when the job is done."""
    receipt = await capture(producer)
    states = []
    async with asyncio.timeout(10), aclosing(jobs.watch("default", receipt, 8)) as changes:
        async for job in changes:
            states.append((job.state, job.degraded))
            if states[-1] == ("queued", []):
                await route_all(await make_router(flush_turns=1), rings, queue)
            elif states[-1] == ("buffered", []):
                graph.down = True
            else:
                graph.down = False
                await do_all(mailbox, "index")
                await do_all(mailbox, "understand")
                graph.understand()
    assert states == [
        ("queued", []),
        ("buffered", []),
        ("buffered", ["graph"]),
        ("understood", []),
    ]


async def test_a_watch_ends_at_its_time_with_signs_of_life(producer, jobs, monkeypatch):
    """A job that does not change gives heartbeats until the time is over."""
    monkeypatch.setattr(jobs_module, "HEARTBEAT_SECONDS", 0.05)
    receipt = await capture(producer)
    seen = [job async for job in jobs.watch("default", receipt, 0.3)]
    assert seen[0].state == "queued"
    assert set(seen[1:]) == {None}


async def test_watches_are_limited_and_end_at_shutdown(producer, jobs, monkeypatch):
    """One too many is refused; one that was left makes room; closing ends all."""
    monkeypatch.setattr(jobs_module, "MOST_WATCHERS", 1)
    receipt = await capture(producer)
    async with aclosing(jobs.watch("default", receipt, 60)) as first:
        await anext(first)
        with pytest.raises(TooMany):
            await anext(jobs.watch("default", receipt, 60))
    async with aclosing(jobs.watch("default", receipt, 60)) as second:
        await anext(second)
        waiting = asyncio.ensure_future(anext(second, "ended"))
        jobs.close()
        assert await asyncio.wait_for(waiting, 5) == "ended"
