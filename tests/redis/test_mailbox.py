"""Mailboxes: order, leases, epochs, failures, dead letters."""

from __future__ import annotations

import asyncio

import pytest

from gralkord.errors import LeaseLost
from gralkord.mailbox.items import FollowUp, Item
from gralkord.mailbox.mailbox import MOST_CRASHES, MOST_FAILURES

GROUP, OTHER = "op__default__ann__default", "op__default__bob__default"


def items(*names):
    return [Item(name, {"kind": "turn", "n": name}) for name in names]


async def put(mailbox, *names, group=GROUP, lane="understand"):
    return await mailbox.deliver((lane, group, item) for item in items(*names))


async def take(mailbox, group=GROUP, lane="understand", **options):
    return await mailbox.acquire(lane, group, **({"most": 1} | options))


async def expire(queue, lane="understand", group=GROUP):
    await queue.zadd(f"gk:leased:{lane}", {group: 0})


def names(lease):
    return [item.id for item in lease.items]


async def dead(queue):
    return [
        {key.decode(): value.decode() for key, value in fields.items()}
        for _, fields in await queue.xrange("gk:dead")
    ]


async def test_items_come_out_in_the_order_they_went_in(mailbox):
    """Items come out in the order they went in."""
    await put(mailbox, "a", "b", "c")
    seen = []
    while lease := await take(mailbox):
        seen += names(lease)
        await mailbox.commit(lease, names(lease))
    assert seen == ["a", "b", "c"]


async def test_one_doorbell_is_in_the_air_per_group(mailbox):
    """A second item for a group that has been rung for rings no second time."""
    assert await put(mailbox, "a") == [("understand", GROUP)]
    assert await put(mailbox, "b") == []
    assert await put(mailbox, "c", group=OTHER) == [("understand", OTHER)]


async def test_a_group_has_one_holder_and_others_are_not_held_up(mailbox):
    """While a group is leased nobody else gets it, and other groups can be had."""
    await put(mailbox, "a")
    await put(mailbox, "b", group=OTHER)
    assert await take(mailbox)
    assert await take(mailbox) is None
    assert names(await take(mailbox, OTHER)) == ["b"]


async def test_lanes_of_a_group_are_independent(mailbox):
    """The index lane of a group can be worked on while its understand lane is leased."""
    await put(mailbox, "a")
    await put(mailbox, "b", lane="index")
    assert await take(mailbox)
    assert names(await take(mailbox, lane="index")) == ["b"]


async def test_epochs_grow_over_all_groups(mailbox):
    """Every lease has a greater epoch than all before it, whatever its group."""
    await put(mailbox, "a")
    await put(mailbox, "b", group=OTHER)
    first = await take(mailbox)
    second = await take(mailbox, OTHER)
    await mailbox.release(first)
    third = await take(mailbox)
    assert first.epoch < second.epoch < third.epoch


async def test_a_holder_whose_lease_was_swept_can_change_nothing(mailbox, queue):
    """Renew, more, commit, fail and release are refused once another holds the group."""
    await put(mailbox, "a", "b")
    old = await take(mailbox)
    await expire(queue)
    assert (await mailbox.sweep("understand")).freed == 1
    new = await take(mailbox)
    with pytest.raises(LeaseLost):
        await mailbox.renew(old)
    with pytest.raises(LeaseLost):
        await mailbox.more(old, 5)
    with pytest.raises(LeaseLost):
        await mailbox.commit(old, ["a"])
    with pytest.raises(LeaseLost):
        await mailbox.fail(old, "a", verdict="bury", delay_ms=0, reason="r", detail="d")
    with pytest.raises(LeaseLost):
        await mailbox.release(old)
    assert names(new) == ["a"]
    await mailbox.commit(new, ["a"])
    assert names(await take(mailbox)) == ["b"]


async def test_a_renewed_lease_is_not_swept(mailbox):
    """A lease that is renewed in time stays."""
    await put(mailbox, "a")
    lease = await take(mailbox, lease_ms=40)
    await mailbox.renew(lease, 60_000)
    await asyncio.sleep(0.06)
    assert (await mailbox.sweep("understand")).groups == ()
    await mailbox.commit(lease, ["a"])


async def test_the_sweep_rings_once_for_a_lost_doorbell(mailbox, queue):
    """A group that is due and was not rung for is rung for once."""
    await put(mailbox, "a")
    await queue.delete(f"gk:bell:understand:{GROUP}")
    assert (await mailbox.sweep("understand")).groups == (GROUP,)
    assert (await mailbox.sweep("understand")).groups == ()


async def test_a_crash_gives_the_same_items_to_the_next_holder(mailbox, queue):
    """What a dead holder had taken comes first, before what waits behind it."""
    await put(mailbox, "a", "b", "c", lane="index")
    assert names(await take(mailbox, lane="index", most=2)) == ["a", "b"]
    await expire(queue, "index")
    await mailbox.sweep("index")
    lease = await take(mailbox, lane="index", most=3)
    assert names(lease) == ["a", "b", "c"]
    assert lease.crashes == 1


async def test_an_item_that_ends_its_holder_each_time_is_dead_lettered(mailbox, queue):
    """After eight crashes the head is a dead letter and the next item has its turn."""
    await put(mailbox, "bad", "good")
    for _ in range(MOST_CRASHES):
        assert names(await take(mailbox)) == ["bad"]
        await expire(queue)
        await mailbox.sweep("understand")
    lease = await take(mailbox)
    assert names(lease) == ["good"]
    assert lease.crashes == 0
    [letter] = await dead(queue)
    assert letter["reason"] == "crashed"
    assert letter["item"].startswith("bad ")


async def test_after_two_crashes_items_are_given_one_by_one(mailbox, queue):
    """A slice that crashes twice is taken apart, so that the bad item shows itself."""
    await put(mailbox, "a", "b", lane="index")
    for _ in range(2):
        await take(mailbox, lane="index", most=64)
        await expire(queue, "index")
        await mailbox.sweep("index")
    lease = await take(mailbox, lane="index", most=64)
    assert names(lease) == ["a"]
    await mailbox.commit(lease, ["a"])
    assert names(await take(mailbox, lane="index", most=64)) == ["b"]


async def test_a_released_item_counts_no_crash(mailbox):
    """A process that gives its lease back leaves no mark on the item."""
    await put(mailbox, "a")
    for _ in range(MOST_CRASHES + 2):
        lease = await take(mailbox)
        assert lease.crashes == 0
        await mailbox.release(lease)


async def test_counted_failures_end_in_the_dead_letters(mailbox, queue):
    """The fourth counted failure buries the item with its reason; the next one goes on."""
    await put(mailbox, "bad", "good")
    for attempt in range(1, MOST_FAILURES + 1):
        lease = await take(mailbox)
        buried = await mailbox.fail(
            lease, "bad", verdict="count", delay_ms=0, reason="malformed_output", detail="why"
        )
        assert buried == (attempt == MOST_FAILURES)
    [letter] = await dead(queue)
    assert (letter["reason"], letter["detail"]) == ("malformed_output", "why")
    lease = await take(mailbox)
    assert (names(lease), lease.failures) == (["good"], 0)


async def test_waiting_uses_no_attempt(mailbox, queue):
    """An item that waits for a model or a server is never given up."""
    await put(mailbox, "a")
    for _ in range(MOST_FAILURES * 3):
        lease = await take(mailbox)
        await mailbox.fail(lease, "a", verdict="wait", delay_ms=0, reason="r", detail="d")
    assert await dead(queue) == []
    assert (await take(mailbox)).failures == 0


async def test_a_permanent_failure_is_dead_lettered_at_once(mailbox, queue):
    """The verdict bury needs no attempts."""
    await put(mailbox, "a")
    assert await mailbox.fail(
        await take(mailbox), "a", verdict="bury", delay_ms=0, reason="invalid_input", detail="d"
    )
    assert len(await dead(queue)) == 1
    assert await mailbox.idle("understand", GROUP)


async def test_a_failed_item_is_not_due_before_its_delay(mailbox):
    """Back-off is a due time, not a sleeping worker."""
    await put(mailbox, "a")
    lease = await take(mailbox)
    await mailbox.fail(lease, "a", verdict="count", delay_ms=60_000, reason="r", detail="d")
    assert await take(mailbox) is None
    assert (await mailbox.sweep("understand")).groups == ()


async def test_follow_ups_come_before_what_waits(mailbox):
    """What follows from an item is done before the items behind it, in its own order."""
    await put(mailbox, "a", "b")
    lease = await take(mailbox)
    follow = [FollowUp("understand", GROUP, item) for item in items("a1", "a2")]
    assert await mailbox.commit(lease, ["a"], follow)
    seen = []
    while lease := await take(mailbox):
        seen += names(lease)
        await mailbox.commit(lease, names(lease))
    assert seen == ["a1", "a2", "b"]


async def test_a_kept_lease_commits_slice_after_slice(mailbox):
    """A holder may take more and commit while it keeps the lease."""
    await put(mailbox, "a", "b", lane="index")
    lease = await take(mailbox, lane="index")
    assert [item.id for item in await mailbox.more(lease, 10)] == ["b"]
    await mailbox.commit(lease, ["a"], keep=True)
    await put(mailbox, "c", lane="index")
    assert [item.id for item in await mailbox.more(lease, 10)] == ["c"]
    await mailbox.commit(lease, ["b", "c"], keep=True)
    assert not await mailbox.commit(lease, [])
    assert await mailbox.idle("index", GROUP)


async def test_more_gives_what_a_dead_holder_had_taken_before_what_waits(mailbox, queue):
    """However much the last holder had taken, order holds over the slices of the next one."""
    await put(mailbox, "a", "b", "c", "d", lane="index")
    lease = await take(mailbox, lane="index", most=2)
    assert [item.id for item in await mailbox.more(lease, 1)] == ["c"]
    await expire(queue, "index")
    await mailbox.sweep("index")
    lease = await take(mailbox, lane="index", most=1)
    assert names(lease) == ["a"]
    assert [item.id for item in await mailbox.more(lease, 1)] == ["b"]
    await mailbox.commit(lease, ["a"], keep=True)
    assert [item.id for item in await mailbox.more(lease, 10)] == ["c", "d"]
    assert await mailbox.more(lease, 10) == ()


async def test_while_a_bad_item_is_looked_for_more_gives_nothing(mailbox):
    """After a counted failure nothing overtakes the head: more begins when it is done."""
    await put(mailbox, "a", "b", "c", lane="index")
    lease = await take(mailbox, lane="index", most=2)
    await mailbox.fail(lease, "a", verdict="count", delay_ms=0, reason="r", detail="d")
    lease = await take(mailbox, lane="index", most=64)
    assert names(lease) == ["a"]
    assert await mailbox.more(lease, 64) == ()
    await mailbox.commit(lease, ["a"], keep=True)
    assert [item.id for item in await mailbox.more(lease, 64)] == ["b", "c"]


@pytest.mark.parametrize("end", ["release", "fail", "bury"])
async def test_a_group_given_back_is_rung_for_at_once(mailbox, queue, end):
    """No doorbell counts as under way that nobody was told to ring: the next sweep rings."""
    await put(mailbox, "a", "b")
    lease = await take(mailbox)
    if end == "release":
        await mailbox.release(lease)
    else:
        verdict = "bury" if end == "bury" else "wait"
        await mailbox.fail(lease, "a", verdict=verdict, delay_ms=0, reason="r", detail="d")
    assert (await mailbox.sweep("understand")).groups == (GROUP,)


async def test_the_sweep_rings_no_more_than_can_be_heard(mailbox, queue):
    """With no worker to hear them, doorbells do not pile up sweep after sweep."""
    await put(mailbox, "a")
    await put(mailbox, "b", group=OTHER)
    await queue.rpush("gk:dramatiq:understand", "one", "two")
    for group in (GROUP, OTHER):
        await queue.delete(f"gk:bell:understand:{group}")
    assert (await mailbox.sweep("understand")).groups == ()
    await queue.lpop("gk:dramatiq:understand")
    assert len((await mailbox.sweep("understand")).groups) == 1


async def test_an_empty_mailbox_leaves_no_key_of_its_group(mailbox, queue):
    """When its work is done, nothing of a group is left in the queue."""
    await put(mailbox, "a")
    await mailbox.commit(await take(mailbox), ["a"])
    left = [key.decode() for key in await queue.keys("*") if GROUP.encode() in key]
    assert left == []


async def test_depths_count_what_is_not_done(mailbox):
    """The depth of a lane falls with each commit and each dead letter."""
    await put(mailbox, "a", "b", "c")
    assert (await mailbox.depths())["understand"] == 3
    await mailbox.commit(await take(mailbox), ["a"])
    lease = await take(mailbox)
    await mailbox.fail(lease, "b", verdict="bury", delay_ms=0, reason="r", detail="d")
    assert (await mailbox.depths())["understand"] == 1
