"""What a limiter keeps of one endpoint; times are whole ms of one clock.

The scripts ``mailbox/lua/model_*.lua`` keep the same for all processes together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

# A minute, and a second for what the network adds to one call and not to the next.
WINDOW_SECONDS: Final = 61
# Nobody waits longer for a provider that refuses: the work itself is to wait ...
LONGEST_HOLD_MS: Final = 30_000
# ... nor for a limit that is known beforehand.
LONGEST_WAIT_MS: Final = 600_000
# So far ahead turns are given away at a pace that is to ease; who gets none asks again.
NEAR_MS: Final = 1_500
AGAIN_MS: Final = 1_000
# Who has waited for a turn and comes later than this gets another.
LATE_MS: Final = 1_000
PROBE_MS: Final = 10_000

_GAP_MS: Final = 100.0
_LONGEST_GAP_MS: Final = 1_000.0
_ALONE_GAP_MS: Final = 30_000.0
_GAP_OVER_MS: Final = 10.0
_QUIET_MS: Final = 1_000
_HALF_MS: Final = 600
_LONGEST_TRY_MS: Final = 30_000


@dataclass(slots=True)
class Pace:
    """How fast a provider is asked that has refused a call for its rate.

    The gap between calls doubles with each refusal. A second after the first answer it begins to
    shrink by half each 0.6 s, so that some seconds after a storm nobody waits any more. While there
    is no answer at all, it may grow to a tenth of the time for which that has been so.

    Attributes:
        gap: Between two calls, as of the last change, in ms.
        until: Nobody calls before.
        last: The last turn that was given away.
        limited: When a call was refused that counted.
        alone: Since when there were only refusals; 0: there was an answer.
        answered: When the first answer after the last refusal came; 0: none did.
    """

    gap: float = 0.0
    until: int = 0
    last: int = 0
    limited: int = -1
    alone: int = 0
    answered: int = 0

    def gap_at(self, now: int) -> float:
        """Return the gap that holds at *now*; 0: nobody has to wait."""
        quiet = now - max(self.answered, self.until) - _QUIET_MS if self.answered else 0
        gap = self.gap / 2 ** min(max(quiet, 0) / _HALF_MS, 60)
        return gap if gap >= _GAP_OVER_MS else 0.0

    def refuse(self, now: int, start: int, wait: int | None) -> None:
        """Note a refusal at *now* of the call whose turn began at *start*.

        Of many calls that are refused together the first counts. *wait* is what the provider asks
        for, in ms.
        """
        self.alone = self.alone or now
        if start > self.limited:
            most = max(_LONGEST_GAP_MS, min((now - self.alone) / 10, _ALONE_GAP_MS))
            self.gap = min(max(2 * self.gap_at(now), _GAP_MS), most)
            self.limited, self.answered = now, 0
        self.until = max(self.until, now + (int(self.gap) if wait is None else wait))

    def answer(self, now: int, start: int) -> None:
        """Note an answer to the call whose turn began at *start*."""
        if start < self.limited:
            return
        self.alone = 0
        self.answered = self.answered or now
        self.gap = min(self.gap, _LONGEST_GAP_MS)


@dataclass(slots=True)
class Window:
    """What was asked within the last minute, second by second, and what will be.

    Attributes:
        requests: Calls by the second in which their turn begins.
        tokens: The same for their tokens.
        last: The last turn that was given away.
        most_requests: Limit of a minute that the provider has announced; 0: none.
        most_tokens: The same for tokens.
    """

    requests: dict[int, int] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    last: int = 0
    most_requests: int = 0
    most_tokens: int = 0

    def place(self, after: int, tokens: int, limits: tuple[int, int], last: int) -> int:
        """Return when a call may begin, not before *after* and the turn that was given *last*.

        Half of a minute's limit may be used at once; the rest is spread, so that nothing stands
        still for most of a minute.

        Args:
            after: In ms.
            tokens: That it will use.
            limits: Calls and tokens a minute; 0: no limit.
            last: In ms.
        """
        calls, used = dict(self.requests), dict(self.tokens)
        start = _when_free(max(after, last), tokens, limits, calls, used)
        spread = 0.0
        if 1 < 2 * sum(calls.values()) >= limits[0] > 0:
            spread = 1000 * WINDOW_SECONDS / limits[0]
        if 0 < limits[1] < 2 * (sum(used.values()) + tokens) and calls:
            spread = max(spread, 1000 * WINDOW_SECONDS * tokens / limits[1])
        return _when_free(max(start, last + int(spread)), tokens, limits, calls, used)

    def count(self, start: int, requests: int, tokens: int) -> None:
        """Count a call whose turn begins at *start*; less than nothing corrects it."""
        second = start // 1000
        if requests > 0 or second in self.requests:
            self.requests[second] = max(0, self.requests.get(second, 0) + requests)
            self.tokens[second] = max(0, self.tokens.get(second, 0) + tokens)

    def forget(self, now: int) -> None:
        """Forget what was asked more than a minute ago."""
        for second in [each for each in self.requests if each + WINDOW_SECONDS <= now // 1000]:
            del self.requests[second]
            self.tokens.pop(second, None)

    def learn(
        self,
        now: int,
        requests: tuple[int | None, int | None],
        tokens: tuple[int | None, int | None],
    ) -> None:
        """Note limits that the provider tells, each with what is left of it.

        Where it has counted more than we have, somebody else uses the same key.
        """
        most, left = requests
        if most:
            self.most_requests = most
            unseen = most - left - sum(self.requests.values()) if left is not None else 0
            if unseen > 0:
                self.count(now, unseen, 0)
        most, left = tokens
        if most:
            self.most_tokens = most
            unseen = most - left - sum(self.tokens.values()) if left is not None else 0
            if unseen > 0:
                self.requests.setdefault(now // 1000, 0)
                self.count(now, 0, unseen)


def _when_free(
    start: int, tokens: int, limits: tuple[int, int], calls: dict[int, int], used: dict[int, int]
) -> int:
    """Return the first moment from *start* on at which a call fits; forget what is older then."""
    for second in sorted(calls):
        left = (second + WINDOW_SECONDS) * 1000
        asked, spent = sum(calls.values()), sum(used.values())
        full = 0 < limits[0] <= asked or (spent and 0 < limits[1] < spent + tokens)
        if left > start and not full:
            break
        start = max(start, left)
        del calls[second]
        used.pop(second, None)
    return start


@dataclass(slots=True)
class Breaker:
    """An endpoint that does not answer: one call at a time tries whether it is back.

    Attributes:
        tries: How many have failed.
        until: Nobody calls before.
        probe: Id of the call that tries.
    """

    tries: int = 0
    until: int = 0
    probe: str = ""

    def admits(self, now: int, call: str) -> bool:
        """Return whether *call* is the one that tries."""
        if self.probe != call:
            if self.until > now:
                return False
            self.probe, self.until = call, now + PROBE_MS
        return True

    def fail(self, now: int, call: str, least: int) -> None:
        """Note a failure; of many calls that fail together one counts, and then each probe."""
        if self.tries and self.probe != call and now < self.until:
            return
        self.tries += 1
        wait = min(500 * 2 ** min(self.tries, 10), _LONGEST_TRY_MS)
        self.until, self.probe = now + max(wait, least), ""
