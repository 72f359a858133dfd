"""Limits of models: calls and tokens a minute, calls at once, and one probe of what does not answer."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys

import pytest

from gralkord.clock import SystemClock
from gralkord.errors import ConfigError, ModelOutage
from gralkord.mailbox.holds import Asked, ModelHolds
from gralkord.mailbox.items import Item
from gralkord.providers.announced import Announced
from gralkord.providers.endpoint import Limits
from gralkord.providers.limiter import LocalLimiter, Planned
from gralkord.providers.paces import Pace
from gralkord.turns.holds import SharedLimiter

MINUTE_MS = 60_000


@pytest.fixture
def holds(queue, keys):
    """The holds of a deployment."""
    return ModelHolds(queue, keys)


class Shared:
    """A limiter of many processes, and time that passes when told."""

    def __init__(self, queue, holds):
        self.queue = queue
        self.limiter = SharedLimiter(holds, SystemClock())

    async def later(self, seconds):
        """Let everything have happened so much earlier."""
        for kind in ("pace", "window", "breaker"):
            key = f"gk:model:{kind}:m"
            fields = {name.decode(): text.decode() for name, text in (await self.queue.hgetall(key)).items()}  # fmt: skip
            if not fields:
                continue
            await self.queue.delete(key)
            await self.queue.hset(key, mapping=dict(earlier(*pair, seconds) for pair in fields.items()))  # fmt: skip


def earlier(name, text, seconds):
    """Return a field of a hash as if it had been written earlier."""
    if re.fullmatch(r"[rt]\d+", name):
        return f"{name[0]}{int(name[1:]) - seconds}", text
    if name in {"until", "last", "limited", "answered", "alone", "since"}:
        return name, str(int(text) - 1000 * seconds)
    return name, text


class Local:
    """A limiter of one process, with a clock of its own."""

    def __init__(self):
        self.now = 1_000_000.0
        self.limiter = LocalLimiter(self)

    def monotonic(self):
        return self.now

    async def later(self, seconds):
        """Let time pass."""
        self.now += seconds


@pytest.fixture(params=["shared", "local"])
def world(request, queue, holds):
    """A limiter, and the time it goes by."""
    return Shared(queue, holds) if request.param == "shared" else Local()


def call(name, *, requests=None, tokens=None, at_once=None, used=0, lane=True):
    """A call that is to be made."""
    return Planned(str(name), "m", Limits(requests, tokens, at_once), used, lane)


async def starts(world, count, **limits):
    """Return the turns of so many calls that ask together, in ms after the first."""
    turns = [await world.limiter.ask(call(number, **limits)) for number in range(count)]
    assert not any(turn.far or turn.out for turn in turns)
    return [turn.start - turns[0].start for turn in turns]


def most_within(begun, length):
    """Return how many begin within any time of that *length*."""
    return max(sum(at <= each < at + length for each in begun) for at in begun)


async def test_no_minute_holds_more_calls_than_are_allowed(world):
    """Half of a minute's calls may go at once, the rest is spread, and no minute has too many."""
    begun = await starts(world, 40, requests=10)
    assert most_within(begun, MINUTE_MS) == 10
    assert most_within(begun, 5_000) == 5
    assert begun[-1] < 4 * MINUTE_MS, "nor are there fewer than need be"


async def test_no_minute_holds_more_tokens_than_are_allowed(world):
    """Tokens are reserved by estimate, so that no minute's calls use more than is allowed."""
    begun = await starts(world, 30, tokens=10_000, used=1_000)
    assert most_within(begun, MINUTE_MS) == 10
    assert begun[-1] < 3.2 * MINUTE_MS


async def test_a_call_of_more_tokens_than_a_minute_has_is_made_alone(world):
    """It waits until nothing else was asked within a minute, and not for ever."""
    limits = {"tokens": 1_000}
    assert (await world.limiter.ask(call("a", used=5_000, **limits))).wait == 0
    second = await world.limiter.ask(call("b", used=5_000, **limits))
    assert second.wait > 59
    assert not second.far


async def test_what_was_not_used_is_given_back(world):
    """An answer that took fewer tokens than were reserved makes room, one that took more takes it."""
    first = call("a", tokens=1_000, used=900)
    turn = await world.limiter.ask(first)
    await world.limiter.answered(first, turn, 100, None)
    assert (await world.limiter.ask(call("b", tokens=1_000, used=300))).wait == 0
    third = call("c", tokens=1_000, used=10)
    turn = await world.limiter.ask(third)
    await world.limiter.answered(third, turn, 800, None)
    assert (await world.limiter.ask(call("d", tokens=1_000, used=300))).wait > 30


async def test_limits_that_a_provider_announces_are_kept(world):
    """What the headers of an answer say is kept from then on, over settings that allow more."""
    first = call("a", requests=1_000)
    turn = await world.limiter.ask(first)
    await world.limiter.answered(first, turn, None, Announced(requests=10, requests_left=9))
    begun = await starts(world, 20, requests=1_000)
    assert most_within(begun, MINUTE_MS) <= 10


async def test_what_others_use_of_the_same_key_is_counted(world):
    """Where a provider says that less is left than we have used, that counts as used."""
    first = call("a", used=10)
    turn = await world.limiter.ask(first)
    said = Announced(requests=10, requests_left=2, tokens=1_000, tokens_left=900)
    await world.limiter.answered(first, turn, 10, said)
    begun = [(await world.limiter.ask(call(number, used=10))).wait for number in range(3)]
    assert begun[0] == 0
    assert begun[1] < 20
    assert begun[2] > 40


async def test_the_next_minute_is_a_new_one(world):
    """What was asked more than a minute ago counts no more."""
    await starts(world, 10, requests=10)
    assert (await world.limiter.ask(call("late", requests=10))).wait > 30
    await world.later(200)
    assert (await world.limiter.ask(call("new", requests=10))).wait == 0


async def test_a_turn_that_was_missed_is_given_anew(world):
    """A call that comes long after its turn is counted when it is made, and not twice."""
    missed = call("a", requests=4)
    turn = await world.limiter.ask(missed)
    await world.later(30)
    reserved = turn.start if isinstance(world, Local) else turn.start - 30_000
    assert (await world.limiter.ask(missed, reserved)).wait == 0
    others = [await world.limiter.ask(call(number, requests=4)) for number in range(3)]
    assert others[-1].wait < 60
    assert (await world.limiter.ask(call("fifth", requests=4))).wait > 45


@pytest.mark.parametrize("sent", [False, True])
async def test_what_was_not_sent_is_given_back(world, sent):
    """A call that is withdrawn before it was sent leaves its turn to others; a sent one is counted."""
    mine = call("a", requests=1)
    turn = await world.limiter.ask(mine)
    await world.limiter.withdrawn(mine, turn, sent=sent)
    assert ((await world.limiter.ask(call("b", requests=1))).wait > 59) == sent


async def test_so_many_calls_are_under_way_at_once(world):
    """Who comes later waits in the order of arrival, until one under way has ended."""
    calls = [call(number, at_once=2) for number in range(4)]
    turns = [await world.limiter.ask(each) for each in calls]
    assert [turn.wait > 0 for turn in turns] == [False, False, True, True]
    await world.limiter.answered(calls[0], turns[0], None, None)
    assert (await world.limiter.ask(calls[3])).wait > 0, "the third came first"
    assert (await world.limiter.ask(calls[2])).wait == 0
    await world.limiter.withdrawn(calls[1], turns[1], sent=True)
    assert (await world.limiter.ask(calls[3])).wait == 0


async def test_a_call_that_fails_or_is_refused_gives_its_place_back(world):
    """Whatever becomes of a call, the next one has its place."""
    for number, end in enumerate(("failed", "limited")):
        mine = call(f"a{number}", at_once=1, lane=False)
        turn = await world.limiter.ask(mine)
        if end == "failed":
            await world.limiter.failed(mine, turn, ConfigError())
        else:
            await world.limiter.limited(mine, turn, 0.0, None)
        assert (await world.limiter.ask(call(f"b{number}", at_once=1))).wait < 0.2
        await world.limiter.withdrawn(call(f"b{number}", at_once=1), turn, sent=False)


HOLDER = """
import asyncio, sys
from redis.asyncio import Redis
from gralkord.mailbox.holds import Asked, ModelHolds
from gralkord.mailbox.keys import Keys

async def main():
    holds = ModelHolds(Redis(unix_socket_path=sys.argv[1]), Keys(), place_ms=400)
    mine = Asked("m", "theirs", most_at_once=1)
    assert (await holds.ask(mine)).kind == "turn"
    print("held", flush=True)
    while True:
        await asyncio.sleep(0.1)
        await holds.keep(mine)

asyncio.run(main())
"""


async def test_a_killed_process_leaves_its_place_to_others(queue, keys, request):
    """A place that nobody renews is free soon after, one that is renewed is not."""
    holds = ModelHolds(queue, keys, place_ms=400)
    mine, theirs = Asked("m", "mine", most_at_once=1), Asked("m", "theirs", most_at_once=1)
    if request.node.callspec.params["queue"] == "fake":
        assert (await holds.ask(theirs)).kind == "turn"
    else:
        socket = str(request.getfixturevalue("queue_socket"))
        command = [sys.executable, "-c", HOLDER, socket]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: ASYNC220
            assert process.stdout.readline() == b"held\n"
            await asyncio.sleep(0.5)
            assert (await holds.ask(mine)).kind == "line"
            os.kill(process.pid, signal.SIGKILL)
    assert (await holds.ask(mine)).kind == "line"
    async with asyncio.timeout(2):
        while (await holds.ask(mine)).kind == "line":  # noqa: ASYNC110 - another process's
            await asyncio.sleep(0.05)


async def test_a_place_that_was_taken_away_is_taken_again(queue, keys):
    """A process that was frozen and goes on counts again: its call is still under way."""
    holds = ModelHolds(queue, keys, place_ms=50)
    frozen, other = Asked("m", "frozen", most_at_once=1), Asked("m", "other", most_at_once=1)
    await holds.ask(frozen)
    await asyncio.sleep(0.1)
    await holds.keep(frozen)
    assert (await holds.ask(other)).kind == "line"


async def test_what_does_not_answer_is_tried_by_one_call_at_a_time(world):
    """After an outage calls fail at once; after its time one tries, and what it finds holds for all."""
    first = call("a", lane=False)
    await world.limiter.failed(first, await world.limiter.ask(first), ModelOutage())
    out = await world.limiter.ask(call("b", lane=False))
    assert out.out
    assert 0 < out.wait <= 1
    await world.later(1)
    probe = await world.limiter.ask(call("c", lane=False))
    assert probe.probe
    assert not probe.out
    assert (await world.limiter.ask(call("c", lane=False))).probe, "it may ask again"
    assert (await world.limiter.ask(call("d", lane=False))).out
    await world.limiter.failed(call("c", lane=False), probe, ModelOutage())
    assert 1 < (await world.limiter.ask(call("e", lane=False))).wait <= 2
    await world.later(2)
    assert (await world.limiter.ask(call("f", lane=False))).probe
    await world.limiter.answered(call("f", lane=False), probe, None, None)
    turn = await world.limiter.ask(call("g", lane=False))
    assert not turn.out
    assert not turn.probe


async def test_a_probe_that_is_given_up_leaves_it_to_the_next(world):
    """A recall whose deadline passes while it tries does not keep others from trying."""
    first = call("a", lane=False)
    await world.limiter.failed(first, await world.limiter.ask(first), ModelOutage())
    await world.later(1)
    probe = await world.limiter.ask(call("b", lane=False))
    await world.limiter.withdrawn(call("b", lane=False), probe, sent=True)
    assert (await world.limiter.ask(call("c", lane=False))).probe


async def test_an_embedder_that_is_out_does_not_hold_the_lane(queue, holds, mailbox):
    """Work that needs it fails by itself; barriers, requests and other groups go on."""
    limiter, embed = SharedLimiter(holds, SystemClock()), call("e", lane=False)
    await limiter.failed(embed, await limiter.ask(embed), ModelOutage())
    assert await holds.outage() is None
    group = "op__default__ann__default"
    await mailbox.deliver(
        [("understand", group, Item("a", {"kind": "understand", "turns": ["a"]}))]
    )
    assert await mailbox.acquire("understand", group, most=1)


async def test_the_lanes_probe_reaches_the_model(queue, holds, mailbox):
    """Calls of the item that is given to try a model are not kept from it, those of others are."""
    llm = Asked("m", "a")
    for _ in range(4):
        await holds.failed(llm, "model_outage", "503")
        await queue.hset("gk:model:outage", "until", 0)
        await queue.hset("gk:model:breaker:m", "until", 0)
    await holds.failed(llm, "model_outage", "503")
    assert (await holds.ask(Asked("m", "b"))).kind == "out"
    await queue.hset("gk:model:outage", "until", 0)
    group = "op__default__ann__default"
    await mailbox.deliver(
        [("understand", group, Item("a", {"kind": "understand", "turns": ["a"]}))]
    )
    assert await mailbox.acquire("understand", group, most=1)
    assert (await holds.ask(Asked("m", "c"))).kind == "probe"
    assert (await holds.ask(Asked("m", "d"))).kind == "out"


async def test_after_a_storm_the_pace_is_soon_gone(world):
    """Ten seconds after the last refusal of many nobody waits any more."""
    for number in range(10):
        mine = call(number)
        await world.later(2)
        await world.limiter.limited(mine, await world.limiter.ask(mine), None, None)
    await world.later(1)
    turn = await world.limiter.ask(call("good"))
    assert turn.wait <= 1
    await world.limiter.answered(call("good"), turn, None, None)
    await world.later(2)
    waits = [(await world.limiter.ask(call(f"soon {number}"))).wait for number in range(4)]
    assert waits[-1] < 2
    await world.later(5)
    assert not any([(await world.limiter.ask(call(f"then {number}"))).held for number in range(4)])


def test_while_there_are_only_refusals_the_gap_grows_with_their_time():
    """A provider that refuses everything is asked once in a tenth of the time that has lasted."""
    pace, now = Pace(), 1_000
    while now < 400_000:
        pace.refuse(now, now, None)
        now = pace.until + 1
        assert pace.gap <= max(1_000, (now - 1_000) / 10)
    assert pace.gap == 30_000
    pace.answer(now, now)
    assert pace.gap == 1_000
    assert pace.gap_at(now + 6_000) == 0
