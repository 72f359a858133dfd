"""The window of a limiter, whatever comes in whatever order."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from gralkord.providers.endpoint import Limits
from gralkord.providers.limiter import LocalLimiter, Planned

MINUTE_MS = 60_000
STEP = st.one_of(
    st.tuples(st.just("ask"), st.integers(1, 400)),
    st.tuples(st.just("wait"), st.integers(1, 40_000)),
    st.tuples(st.just("withdraw"), st.integers(0, 5)),
    st.tuples(st.just("settle"), st.integers(0, 5)),
)


class Time:
    """A clock that is told what it shows."""

    def __init__(self):
        self.ms = 5_000_000

    def monotonic(self):
        return self.ms / 1000


@settings(max_examples=60, deadline=None)
@given(
    requests=st.integers(1, 30),
    tokens=st.integers(400, 3_000),
    steps=st.lists(STEP, max_size=120),
)
def test_no_minute_holds_more_than_is_allowed(requests, tokens, steps):
    """Neither calls nor tokens of any minute are over, whoever waits, gives up or uses less."""
    time, made = Time(), {}
    limiter = LocalLimiter(time)

    async def play():
        for number, (step, size) in enumerate(steps):
            if step == "wait":
                time.ms += size
            elif step == "ask":
                call = Planned(str(number), "m", Limits(requests, tokens), size)
                turn = await limiter.ask(call)
                if not turn.far:
                    made[number] = (call, turn)
            elif made:
                which = list(made)[-1 - size % len(made)]
                call, turn = made[which]
                if step == "withdraw" and turn.start > time.ms:
                    await limiter.withdrawn(call, turn, sent=False)
                    del made[which]
                elif step == "settle" and turn.start <= time.ms:
                    await limiter.answered(call, turn, call.tokens, None)

    asyncio.run(play())
    begun = [(turn.start, call.tokens) for call, turn in made.values()]
    for at, _ in begun:
        minute = [used for start, used in begun if at <= start < at + MINUTE_MS]
        assert len(minute) <= requests
        assert sum(minute) <= tokens
