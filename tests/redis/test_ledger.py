"""The ledger in the queue, and the budgets that hold the understand lane."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from gralkord.clock import SystemClock
from gralkord.config import Budget, Price
from gralkord.errors import BackendUnavailable, BudgetSpent
from gralkord.groups import Group
from gralkord.intake.producer import Limits, Producer
from gralkord.mailbox import ledger as ledger_module
from gralkord.mailbox.budgets import Budgets, Used
from gralkord.mailbox.durability import Durability
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.items import Item
from gralkord.mailbox.ledger import Account, Counts, SpendBook, day_number
from gralkord.mailbox.mailbox import Mailbox
from gralkord.models import Capture
from gralkord.providers.ledger import Call
from gralkord.turns import ledger as shared_module
from gralkord.turns.ledger import SharedLedger

ANN, BOB = (Group("default", name, "default") for name in ("ann", "bob"))
STRANGER = Group("other", "ann", "default")
DAY = date(2026, 5, 1)
ONE = Counts(1, 100, 40, 10, 250, 5_000, 0)


@pytest.fixture
def book(queue, keys):
    """The ledger."""
    return SpendBook(queue, keys)


def account(group=ANN, *, day=DAY, stage="extract", model="openai:gpt-5", role="llm"):
    return Account(group.tenant, group.operator, group.lens, role, model, stage, day)


async def rows(book, tenant="default", *, by_operator=True, since=DAY, until=DAY):
    days = book.days(tenant, since, until, by_operator=by_operator)
    return [row async for _, some in days for row in some or ()]


def call(group=ANN, tokens=100, **changes):
    return Call("llm", "openai:gpt-5", "extract", group, tokens, 0, 0, 0.25, **changes)


def today():
    return datetime.now(UTC).date()


def budgets(**settings):
    return Budgets(Budget.model_validate(settings))


@pytest.fixture
def make_ledger(book):
    """Make the ledger of a process."""

    def make(clock=None, **settings):
        return SharedLedger(book, budgets(**settings), clock or SystemClock())

    return make


async def put(mailbox, *names, group=ANN, kind="understand"):
    items = [Item(name, {"kind": kind, "turns": [name], "flushes": []}) for name in names]
    return await mailbox.deliver(("understand", group.id, item) for item in items)


async def take(mailbox, group=ANN):
    return await mailbox.acquire("understand", group.id, most=1)


async def pass_time(queue):
    """Let the time come at which the next item of each account may try."""
    key = f"gk:budget:{day_number(today())}"
    for name, note in (await queue.hgetall(key)).items():
        await queue.hset(key, name, b"1 " + note.split()[1])
    for group, _ in await queue.zrange("gk:ready:understand", 0, -1, withscores=True):
        await queue.zadd("gk:ready:understand", {group: 1})


async def test_calls_of_a_row_add_up(book):
    """Each call adds to its row, and the row says what it was for."""
    await book.add("me", 1, [(account(), ONE)])
    await book.add("me", 2, [(account(), ONE)])
    [row] = await rows(book)
    assert row.counts == Counts(2, 200, 80, 20, 500, 10_000, 0)
    assert (row.operator, row.role, row.model, row.stage, row.lens, row.day) == (
        ("ann", "llm", "openai:gpt-5", "extract", "default", DAY)
    )
    [row] = await rows(book, by_operator=False)
    assert (row.operator, row.counts.calls) == (None, 2)


async def test_a_delivery_counts_once(book):
    """Sent again because its answer was lost, it changes nothing and tells the same."""
    first = await book.add("me", 1, [(account(), ONE)])
    assert await book.add("me", 1, [(account(), ONE)]) == first
    await book.add("another", 1, [(account(), ONE)])
    [row] = await rows(book)
    assert row.counts.calls == 2


async def test_tenants_and_operators_are_apart(book):
    """What one has used is told of nobody else."""
    spent = await book.add(
        "me", 1, [(account(), ONE), (account(BOB), ONE), (account(STRANGER), ONE)]
    )
    assert [(one.tenant.tokens, one.operator.tokens) for one in spent] == [
        (110, 110),
        (220, 110),
        (110, 110),
    ]
    assert {row.operator for row in await rows(book)} == {"ann", "bob"}
    assert [row.counts.calls for row in await rows(book, "other")] == [1]
    assert await book.used("default", DAY, ["ann", "nobody"]) == [
        Used(10_000, 220),
        Used(5_000, 110),
        Used(),
    ]


async def test_what_all_share_is_of_no_operator(book):
    """Calls for the shared memory stand in rows without an operator, and have none's total."""
    await book.add("me", 1, [(account(Group("default")), ONE)])
    [row] = await rows(book)
    assert (row.operator, row.others) == (None, False)
    assert await book.used_by_all("default", DAY) == {}


async def test_any_name_comes_back_as_it_was(book):
    """Names of all alphabets, with blanks and marks of our own, are told apart and told right."""
    names = ["ann lee", "*", "-", "наталья", "a_2d"]
    made = [(account(Group("t x", name, "l:1"), stage="a b"), ONE) for name in names]
    await book.add("me", 1, made)
    found = await rows(book, "t x")
    assert {row.operator for row in found} == set(names)
    assert {(row.lens, row.stage, row.others) for row in found} == {("l:1", "a b", False)}
    assert set(await book.used_by_all("t x", DAY)) == set(names)


async def test_too_many_operators_are_counted_together(book, monkeypatch):
    """Beyond the limit a new operator's calls stand in a row of others; totals stay exact."""
    monkeypatch.setattr(ledger_module, "MOST_NAMED_ROWS", 2)
    for number, name in enumerate(("a", "b", "c", "d", "a"), 1):
        await book.add("me", number, [(account(Group("default", name, "default")), ONE)])
    found = {(row.operator, row.others): row.counts.calls for row in await rows(book)}
    assert found == {("a", False): 2, ("b", False): 1, (None, True): 2}
    assert (await book.used("default", DAY, ["d"]))[1].tokens == 110


async def test_old_days_by_operator_go_when_there_are_too_many_rows(book, monkeypatch):
    """The newest days keep their operators; older ones are known without them."""
    monkeypatch.setattr(ledger_module, "MOST_NAMED_KEPT", 2)
    for number in range(4):
        day = DAY + timedelta(days=number)
        await book.add("me", number + 1, [(account(day=day), ONE)])
    days = [
        (day, some is not None)
        async for day, some in book.days("default", DAY, DAY + timedelta(3), by_operator=True)
    ]
    assert [kept for _, kept in days] == [False, True, True, True]
    everything = await rows(book, by_operator=False, until=DAY + timedelta(3))
    assert sum(row.counts.calls for row in everything) == 4


async def test_days_are_kept_for_400_days_and_totals_for_two(book, queue):
    """No key of a day stays for ever."""
    await book.add("me", 1, [(account(), ONE)])
    day, ms = day_number(DAY), 24 * 3600 * 1000
    for name in ("spend", "spenders"):
        assert 399 * ms < await queue.pttl(f"gk:{name}:default:{day}") <= 400 * ms
    assert ms < await queue.pttl(f"gk:spent:default:{day}") <= 2 * ms
    assert 0 < await queue.pttl("gk:ledger:me") <= 3_600_000


async def test_an_erased_operator_is_counted_without_a_name(book, queue):
    """Its rows become rows of others, nobody else's change, and no key names it."""
    made = [(account(), ONE), (account(BOB), ONE), (account(STRANGER), ONE)]
    await book.add("me", 1, made)
    await book.add("me", 2, [(account(day=DAY + timedelta(1)), ONE)])
    assert await book.forget("default", "ann") == 2
    found = await rows(book, until=DAY + timedelta(1))
    assert {(row.operator, row.others) for row in found} == {("bob", False), (None, True)}
    assert sum(row.counts.calls for row in found) == 3
    assert set(await book.used_by_all("default", DAY)) == {"bob"}
    assert [row.operator for row in await rows(book, "other")] == ["ann"]
    assert await book.forget("default", None) == 1
    assert {row.operator for row in await rows(book)} == {None}


async def test_a_call_is_recorded_with_its_cost_of_that_time(make_ledger, book):
    """Cost is fixed when the call was made; a call without a price is counted as such."""
    ledger = make_ledger()
    price = Price(input=2.0, output=8.0, cached=0.5)
    await ledger.record(replace(call(price=price), cached_tokens=40, completion_tokens=10))
    await ledger.record(call())
    await ledger.record(call(Group("default")))
    await ledger.record(call(None))
    found = {
        (row.operator, row.lens): row.counts
        for row in await rows(book, since=today(), until=today())
    }
    assert found["ann", "default"] == Counts(
        2, 200, 40, 10, 500, (60 * 2000 + 40 * 500 + 10 * 8000), 1
    )
    assert set(found) == {("ann", "default"), (None, "global"), (None, "")}


class Broken:
    """A ledger that fails as often as it is told to, after or before it has counted."""

    def __init__(self, book, *, counted):
        self.book, self.counted, self.failing, self.calls = book, counted, True, 0

    async def add(self, *args):
        self.calls += 1
        if self.counted or not self.failing:
            answer = await self.book.add(*args)
        if self.failing:
            raise BackendUnavailable
        return answer


@pytest.mark.parametrize("counted", [False, True])
async def test_what_the_queue_did_not_take_is_told_later(book, counted):
    """No call fails while the queue is down; each is counted once when it is back."""
    broken = Broken(book, counted=counted)
    ledger = SharedLedger(broken, None, SystemClock())
    for _ in range(3):
        await ledger.record(call())
    assert broken.calls == 1  # it is not asked again and again
    broken.failing = False
    await ledger.close()
    [row] = await rows(book, since=today(), until=today())
    assert row.counts.calls == 3


async def test_it_is_told_later_without_another_call(book, monkeypatch):
    """The last call before a quiet hour is counted too, as soon as the queue is back."""
    monkeypatch.setattr(shared_module, "_PAUSE_SECONDS", 0.01)
    broken = Broken(book, counted=False)
    ledger = SharedLedger(broken, None, SystemClock())
    await ledger.record(call())
    broken.failing = False
    await asyncio.wait_for(ledger._later, 5)
    [row] = await rows(book, since=today(), until=today())
    assert row.counts.calls == 1
    await ledger.close()


async def test_whatever_fails_each_call_is_counted_once(book):
    """Calls at random, from two processes, with answers lost and callers cancelled in between."""
    draw = random.Random(5)

    class Shaky:
        async def add(self, *args):
            fate = draw.random()
            if fate < 0.2:
                raise BackendUnavailable
            answer = await book.add(*args)
            if fate < 0.4:
                raise BackendUnavailable
            if fate < 0.6:
                await asyncio.sleep(0.01)
            return answer

    ledgers = [SharedLedger(Shaky(), None, SystemClock()) for _ in range(2)]
    for number in range(80):
        ledger = ledgers[number % 2]
        ledger._silent_until = 0.0
        task = asyncio.create_task(ledger.record(call(tokens=number)))
        await asyncio.sleep(0)
        if draw.random() < 0.3:
            await asyncio.sleep(draw.random() * 0.005)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for ledger in ledgers:
        ledger._book = book
        await ledger.close()
    [row] = await rows(book, since=today(), until=today())
    assert (row.counts.calls, row.counts.prompt_tokens) == (80, sum(range(80)))


async def test_a_call_that_is_cancelled_while_it_is_told_is_counted_once(book):
    """What may have been told is told again under its number."""
    reached = asyncio.Event()

    class Slow:
        async def add(self, *args):
            await book.add(*args)
            if not reached.is_set():
                reached.set()
                await asyncio.Event().wait()

    ledger = SharedLedger(Slow(), None, SystemClock())
    task = asyncio.create_task(ledger.record(call()))
    await reached.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ledger._book = book
    await ledger.close()
    [row] = await rows(book, since=today(), until=today())
    assert row.counts.calls == 1


async def test_many_calls_at_once_are_counted_together(make_ledger, book):
    """Calls of one moment share a delivery, and none is lost."""
    ledger = make_ledger()
    await asyncio.gather(*(ledger.record(call()) for _ in range(50)))
    [row] = await rows(book, since=today(), until=today())
    assert row.counts.calls == 50
    assert ledger._number <= 3


async def test_an_episode_under_way_may_use_a_tenth_more(make_ledger, book):
    """Between the budget and its tenth a call is let pass, beyond it none."""
    ledger = make_ledger(operator={"tokens": 1_000})
    await ledger.permit(ANN)
    await ledger.record(call(tokens=1_050))
    await ledger.permit(ANN)
    await ledger.record(call(tokens=50))
    with pytest.raises(BudgetSpent) as refused:
        await ledger.permit(ANN)
    assert (refused.value.counted, refused.value.field) == (False, "budget.operator")
    await ledger.permit(BOB)
    await ledger.permit(STRANGER)
    await ledger.permit(None)


async def test_a_tenant_s_budget_is_of_all_its_operators(make_ledger):
    """It stops them all, and nobody of another tenant."""
    ledger = make_ledger(tenant={"usd": 0.001})
    await ledger.record(call(tokens=1_100, price=Price(input=1.0)))
    for group in (ANN, BOB, Group("default")):
        with pytest.raises(BudgetSpent):
            await ledger.permit(group)
    await ledger.permit(STRANGER)


async def test_single_budgets_go_before_those_of_all(make_ledger):
    """A budget of one operator or tenant stands instead of the general one."""
    ledger = make_ledger(
        operator={"tokens": 10},
        operators={"ann": {"tokens": 10_000}},
        tenants={"other": {"tokens": 5}},
    )
    for group in (ANN, BOB, STRANGER):
        await ledger.record(call(group))
    await ledger.permit(ANN)
    for group in (BOB, STRANGER):
        with pytest.raises(BudgetSpent):
            await ledger.permit(group)


async def test_a_new_day_has_a_new_budget(make_ledger):
    """What was spent yesterday stops nobody today."""

    class Clock(SystemClock):
        moment = datetime(2026, 5, 1, 23, 59, tzinfo=UTC)

        def now(self):
            return self.moment

    clock = Clock()
    ledger = make_ledger(clock, operator={"tokens": 10})
    await ledger.record(call())
    with pytest.raises(BudgetSpent):
        await ledger.permit(ANN)
    clock.moment += timedelta(minutes=1)
    await ledger.permit(ANN)


async def test_a_refusal_is_looked_up_first(make_ledger, book):
    """What this process remembers may be out of date: an erasure has taken the total away."""
    ledger = make_ledger(operator={"tokens": 10})
    await ledger.record(call())
    await book.forget("default", "ann")
    await ledger.permit(ANN)


def limited(queue, keys, **settings):
    return Mailbox(queue, keys, budgets=budgets(**settings))


async def test_a_spent_budget_holds_items_that_ask_a_model(queue, keys, make_ledger):
    """No new item is begun; it uses no attempt, and others go on."""
    mailbox = limited(queue, keys, operator={"tokens": 100})
    await make_ledger().record(call())
    await put(mailbox, "a")
    await put(mailbox, "b", group=BOB)
    await put(mailbox, "c", group=STRANGER)
    assert await take(mailbox) is None
    assert await take(mailbox, BOB)
    assert await take(mailbox, STRANGER)
    await pass_time(queue)
    lease = await take(limited(queue, keys))
    assert (lease.crashes, lease.failures) == (0, 0)


async def test_a_tenant_s_budget_holds_its_shared_memory_too(queue, keys, make_ledger):
    """All groups of the tenant wait, of whoever they are."""
    mailbox = limited(queue, keys, tenant={"tokens": 100})
    await make_ledger().record(call())
    for group in (ANN, BOB, Group("default"), STRANGER):
        await put(mailbox, "a", group=group)
    taken = [await take(mailbox, group) for group in (ANN, BOB, Group("default"), STRANGER)]
    assert [lease is not None for lease in taken] == [False, False, False, True]


async def test_a_budget_in_dollars_holds_as_well(queue, keys, make_ledger):
    """What calls cost is compared with the dollars of the budget."""
    mailbox = limited(queue, keys, operator={"usd": 0.0001})
    ledger = make_ledger()
    await put(mailbox, "a")
    await ledger.record(call(tokens=99, price=Price(input=1.0)))
    await mailbox.release(await take(mailbox))
    await ledger.record(call(tokens=1, price=Price(input=1.0)))
    assert await take(mailbox) is None


async def test_barriers_and_requests_need_no_budget(queue, keys, make_ledger):
    """What asks no model is done in any case."""
    mailbox = limited(queue, keys, operator={"tokens": 100})
    await make_ledger().record(call())
    await put(mailbox, "b", kind="barrier")
    assert await take(mailbox)


async def test_the_sweep_rings_for_nobody_whose_budget_is_spent(queue, keys, make_ledger):
    """Held groups are put off; when their time comes one of each account tries."""
    mailbox = limited(queue, keys, operator={"tokens": 100})
    await make_ledger().record(call())
    work = Group("default", "ann", "work")
    for group in (ANN, work, BOB):
        await put(mailbox, "a", group=group)
    assert await take(mailbox) is None
    await queue.delete(*[f"gk:bell:understand:{group.id}" for group in (ANN, work, BOB)])
    assert (await mailbox.sweep("understand")).groups == (BOB.id,)
    await pass_time(queue)
    await queue.delete(f"gk:bell:understand:{BOB.id}")
    swept = (await mailbox.sweep("understand")).groups
    assert len(set(swept) & {ANN.id, work.id}) == 1


async def test_a_raised_budget_lets_them_go_on(queue, keys, make_ledger):
    """The first try under the new budget frees the account."""
    await make_ledger().record(call())
    old, new = (limited(queue, keys, operator={"tokens": tokens}) for tokens in (100, 1_000))
    await put(old, "a")
    assert await take(old) is None
    await pass_time(queue)
    assert await take(new)
    assert await queue.hgetall(f"gk:budget:{day_number(today())}") == {}


async def test_what_was_spent_yesterday_holds_nothing(queue, keys, book):
    """At midnight UTC the account is free again."""
    mailbox = limited(queue, keys, operator={"tokens": 100})
    yesterday = today() - timedelta(days=1)
    await book.add("me", 1, [(account(day=yesterday), ONE)])
    await put(mailbox, "a")
    assert await take(mailbox)


def capture(turn_id):
    return Capture(
        session="s",
        operator="ann",
        agent="Ada",
        user="Ann",
        turn_id=turn_id,
        turn=[{"role": "user", "content": "hello"}],
    )


async def test_held_items_refuse_no_capture(queue, keys, lenses, make_ledger):
    """References that wait for a budget do not count, then or later; what comes after it does."""
    mailbox = limited(queue, keys, operator={"tokens": 100})
    producer = Producer(
        queue, keys, lenses, SystemClock(), Durability(queue, "always"), Limits(1_000, 5)
    )

    async def refused(turn_id):
        [answer] = await producer.capture("default", [capture(turn_id)])
        return getattr(answer, "code", None)

    await put(mailbox, "a")
    await make_ledger().record(call())
    assert await take(mailbox) is None
    await put(mailbox, *"bcdefgh")
    assert await refused("t1") is None
    await pass_time(queue)
    free = limited(queue, keys)
    lease = await take(free)
    await free.commit(lease, [lease.items[0].id])
    assert await refused("t2") is None
    await put(mailbox, *"ijklm")
    assert await refused("t3") == "queue_full"


async def test_items_held_by_an_outage_refuse_no_capture(queue, keys, lenses, mailbox):
    """The same holds while a model does not answer."""
    limits = Limits(1_000, 2)
    producer = Producer(queue, keys, lenses, SystemClock(), Durability(queue, "always"), limits)
    await put(mailbox, *"abc")
    [answer] = await producer.capture("default", [capture("t1")])
    assert answer.code == "queue_full"
    await queue.hset("gk:model:outage", mapping={"until": 0, "reason": "model_outage"})
    [answer] = await producer.capture("default", [capture("t2")])
    assert answer.receipt


async def test_a_flush_is_answered_while_the_budget_is_spent(
    queue, keys, producer, make_router, make_ledger, rings, book
):
    """Who waits for understanding is told why it will take longer, as soon as it is indexed."""
    mailbox = limited(queue, keys, operator={"tokens": 100})
    flushes = Flushes(queue, keys, SystemClock(), book)
    await make_ledger().record(call())
    await producer.capture("default", [capture("t1")])
    flush = await producer.flush("default", "s", None)
    await (await make_router()).route(rings)
    lease = await mailbox.acquire("index", ANN.id, most=9)
    await mailbox.commit(lease, [item.id for item in lease.items])
    waiting = asyncio.create_task(flushes.wait("default", flush, "understood", 20))
    assert await take(mailbox) is None
    result = await asyncio.wait_for(waiting, 5)
    assert (result.state, result.complete, result.reason) == ("indexed", False, "budget_spent")
    assert not await book.budget_held("other", flush)
