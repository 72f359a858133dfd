"""Holds on models: one pace for all workers, and one probe at a time while a model is out."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from gralkord.clock import SystemClock
from gralkord.errors import BackendUnavailable, ConfigError, ModelOutage
from gralkord.mailbox.holds import Asked, ModelHolds
from gralkord.mailbox.items import Item
from gralkord.providers.limiter import LocalLimiter, Planned, Turn
from gralkord.turns.holds import SharedLimiter

GROUP, OTHER = "op__default__ann__default", "op__default__bob__default"
LARGE, SMALL = Asked("large", "l"), Asked("small", "s")


@pytest.fixture
def holds(queue, keys):
    """The holds, as workers and daemons share them."""
    return ModelHolds(queue, keys)


@pytest.fixture(params=["shared", "local"])
def limiter(request, holds):
    """The limiter of many processes, and that of one."""
    return SharedLimiter(holds, SystemClock()) if request.param == "shared" else LocalLimiter()


async def put(mailbox, *names, group=GROUP, kind="understand"):
    return await mailbox.deliver(
        ("understand", group, Item(name, {"kind": kind, "turns": [name]})) for name in names
    )


async def take(mailbox, group=GROUP):
    return await mailbox.acquire("understand", group, most=1)


async def pass_time(queue):
    """Let the time come at which the next item may try."""
    await queue.hset("gk:model:outage", "until", 0)


def call(name="c", endpoint="large", **more):
    """A call that is to be made."""
    return Planned(name, endpoint, **more)


async def refused(limiter, retry_after, turn=None):
    """Note a refusal of the call whose turn that is."""
    await limiter.limited(call(), turn or await limiter.ask(call()), retry_after, None)


async def test_without_a_hold_a_turn_is_now_and_leaves_no_key(holds, queue):
    """Asking costs one script and nothing is kept."""
    place = await holds.ask(LARGE)
    assert (place.wait, place.kind, place.held, place.out) == (0, "turn", False, "")
    assert await queue.keys("gk:model:*") == []


async def test_a_refusal_holds_all_who_ask(limiter):
    """Until the provider's time has come nobody's turn is; then one comes after another."""
    await refused(limiter, 5.0)
    turns = [await limiter.ask(call(f"c{number}")) for number in range(4)]
    assert all(2.5 < turn.wait <= 5.4 for turn in turns)
    gaps = [after.start - before.start for before, after in pairwise(turns)]
    assert all(99 <= gap <= 101 for gap in gaps)
    assert (await limiter.ask(call(endpoint="small"))).wait == 0


async def test_a_reserved_turn_holds_unless_all_are_put_off(limiter):
    """Who has waited for a turn has it, but not if another call was refused meanwhile."""
    await refused(limiter, 0.1)
    mine = await limiter.ask(call())
    await asyncio.sleep(mine.wait + 0.01)
    assert (await limiter.ask(call(), mine.start)).wait == 0
    await refused(limiter, 5.0, mine)
    assert (await limiter.ask(call(), mine.start)).wait > 4


async def test_calls_refused_together_count_once(limiter):
    """The gap doubles with each refusal of a call made under it, not with each call under way."""
    turn = await limiter.ask(call())
    for _ in range(8):
        await refused(limiter, None, turn)
    first, second = await limiter.ask(call("a")), await limiter.ask(call("b"))
    assert first.wait <= 0.1
    assert 80 <= second.start - first.start <= 120
    await refused(limiter, None, second)
    first, second = await limiter.ask(call("a")), await limiter.ask(call("b"))
    assert 180 <= second.start - first.start <= 220


async def test_a_turn_too_far_off_is_not_reserved(limiter):
    """Who cannot wait so long takes no place away from those who come later."""
    await refused(limiter, 100.0)
    turns = [await limiter.ask(call(f"c{number}")) for number in range(3)]
    assert all(turn.far and 99 < turn.wait <= 100 for turn in turns)


async def test_a_pace_nobody_asks_for_is_forgotten(holds, queue):
    """The key of a hold lives ten minutes longer than the hold."""
    await holds.limited(LARGE, 0, 20.0)
    assert 610_000 < await queue.pttl("gk:model:pace:large") <= 620_000


async def test_while_the_queue_is_down_a_process_keeps_its_own_pace():
    """A queue that does not answer fails no model call, and a rate limit is honoured all the same."""

    class Down:
        def __getattr__(self, name):
            async def fail(*args, **more):
                raise BackendUnavailable

            return fail

    limiter = SharedLimiter(Down(), SystemClock())
    await refused(limiter, 5.0)
    turn = await limiter.ask(call())
    assert turn.wait > 4
    assert (await limiter.ask(call(), turn.start)).wait <= turn.wait
    await limiter.failed(call(), turn, ModelOutage())
    await limiter.keep(call())
    await limiter.withdrawn(call(), turn, sent=False)
    await limiter.answered(call(), turn, 5, None)


async def test_an_outage_closes_the_understand_lane(holds, mailbox):
    """While a model is out no item is given and nobody is rung for; the index lane goes on."""
    await holds.failed(LARGE, "model_outage", "it answers 503")
    await put(mailbox, "a")
    await mailbox.deliver([("index", GROUP, Item("t", {"kind": "turn"}))])
    assert await take(mailbox) is None
    swept = await mailbox.sweep("understand")
    assert swept.groups == ()
    assert 0 < swept.due_in_ms <= 1_000
    assert await mailbox.acquire("index", GROUP, most=1)


async def test_barriers_need_no_model(holds, mailbox):
    """A flush that waits only for what stands before it is answered while a model is out."""
    await holds.failed(LARGE, "model_outage", "it answers 503")
    await put(mailbox, "b", kind="barrier")
    assert await take(mailbox)
    await pass_time(holds._client)
    await put(mailbox, "b", kind="barrier", group=OTHER)
    assert await take(mailbox, OTHER)
    await put(mailbox, "a", group="third")
    assert await take(mailbox, "third"), "a barrier is no probe"


async def test_one_item_at_a_time_tries_whether_a_model_is_back(holds, mailbox, queue):
    """After its time one group is rung for and one item given, whatever number wait."""
    await holds.failed(LARGE, "model_outage", "it answers 503")
    for group in (GROUP, OTHER):
        await put(mailbox, "a", group=group)
        await queue.delete(f"gk:bell:understand:{group}")
    await pass_time(queue)
    swept = await mailbox.sweep("understand")
    assert len(swept.groups) == 1
    assert [bool(await take(mailbox, group)) for group in (GROUP, OTHER)] == [True, False]


async def test_waits_between_tries_grow(holds, queue):
    """Each failed probe doubles the wait up to 30 s; calls that fail beside it count nothing."""
    assert await holds.failed(LARGE, "model_outage", "503") == 1
    assert await holds.failed(LARGE, "model_outage", "503") == 0
    waits = []
    for tries in range(2, 9):
        await pass_time(queue)
        assert await holds.failed(LARGE, "model_outage", "503") == tries
        outage = await holds.outage()
        waits.append(round((outage.until - outage.since).total_seconds() - outage.lasted))
    assert waits == [2, 4, 8, 16, 30, 30, 30]


async def test_a_probe_that_fails_counts_though_its_time_is_not_over(holds, mailbox, queue):
    """A probe that ends sooner than the time it was given makes room for the next."""
    await holds.failed(LARGE, "model_outage", "503")
    await put(mailbox, "a")
    await pass_time(queue)
    assert await take(mailbox)
    assert await holds.failed(LARGE, "model_outage", "503") == 2
    assert float(await queue.hget("gk:model:outage", "until")) > 0


async def test_the_first_answer_ends_an_outage(holds, mailbox):
    """As soon as the model answers, or only asks for fewer requests, all items are given again."""
    for back in (holds.answered(LARGE), holds.limited(LARGE, 0, 0.1)):
        await holds.failed(LARGE, "model_outage", "503")
        assert (await holds.outage()).reason == "model_outage"
        await back
        assert await holds.outage() is None
    await put(mailbox, "a")
    assert await take(mailbox)


async def test_an_answer_of_another_model_ends_no_outage(holds):
    """A small model that answers says nothing of the large one, unless that is not in use any more."""
    await holds.failed(LARGE, "model_outage", "503")
    assert not await holds.answered(SMALL, others={"large"})
    assert not await holds.answered(SMALL, lane=False), "an embedder says nothing of it at all"
    assert await holds.outage()
    assert await holds.answered(SMALL)
    assert await holds.outage() is None


async def test_the_state_says_what_is_wrong(holds, queue):
    """`status` shows a limit, an outage and a refused key, with since when and until when."""
    assert (await holds.state(["large"])).to_dict() == {
        "state": "ok", "since": None, "until": None, "reason": None,
    }  # fmt: skip
    await holds.limited(LARGE, 0, 20)
    limited = await holds.state(["small", "large"])
    assert limited.state == "rate_limited"
    assert 19 < (limited.until - limited.since).total_seconds() <= 20
    assert (await holds.state(["small"])).state == "ok"
    limiter = SharedLimiter(holds, SystemClock())
    await limiter.failed(call(), Turn(), ModelOutage("it answers 503"))
    out = (await holds.state(["large"])).to_dict()
    assert (out["state"], out["reason"]) == ("outage", "it answers 503")
    await pass_time(queue)
    await limiter.failed(call(), Turn(), ConfigError("the key is refused"))
    refused = await holds.state(["large"])
    assert (refused.state, refused.reason) == ("misconfigured", "the key is refused")
    assert (refused.until - refused.since).total_seconds() > 29


@pytest.mark.parametrize(
    ("reason", "told"), [("model_outage", True), ("model_misconfigured", True), (None, False)]
)
async def test_a_flush_does_not_wait_for_a_model_that_is_out(
    flushes, holds, keys, queue, reason, told
):
    """What is indexed is answered with the reason of an outage that has lasted; without one it waits."""
    await queue.hset(keys.flush("default", "f"), mapping={"routed": 1, "index": 1, "turns": 1})
    if reason:
        await holds.failed(LARGE, reason, "no")
        await queue.hincrby("gk:model:outage", "since", -3_000)
    result = await flushes.wait("default", "f", "understood", 0.3)
    assert result.state == "indexed"
    assert not result.complete
    assert result.reason == (reason if told else "timeout")


async def test_a_flush_waits_for_a_model_that_is_only_restarting(flushes, holds, keys, queue):
    """An outage of less than three seconds is no answer, and none at all until `indexed`."""
    await queue.hset(keys.flush("default", "f"), mapping={"routed": 1, "index": 1, "turns": 1})
    await holds.failed(LARGE, "model_outage", "no")
    assert (await flushes.wait("default", "f", "understood", 0.2)).reason == "timeout"
    assert (await flushes.wait("default", "f", "indexed", 0.2)).complete
