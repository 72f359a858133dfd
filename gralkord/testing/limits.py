"""Limits of a minute that the scripted model server keeps, and tells of in its headers."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gralkord.testing.faults import FaultPlan

MINUTE: Final = 60.0


class Meter:
    """Counts what one model is asked within any minute; what is over the limit counts as well."""

    def __init__(self) -> None:
        self._asked: deque[tuple[float, int]] = deque()

    def enter(self, plan: FaultPlan, tokens: int) -> float | None:
        """Count a request of so many *tokens*; return how many seconds to wait, if it is over."""
        now = time.monotonic()
        while self._asked and self._asked[0][0] <= now - MINUTE:
            self._asked.popleft()
        self._asked.append((now, tokens))
        calls, used = self._sums()
        over = (plan.requests_per_minute or calls) < calls or (
            plan.tokens_per_minute or used
        ) < used
        return max(self._asked[0][0] + MINUTE - now, 0.0) if over else None

    def headers(self, plan: FaultPlan, path: str) -> dict[str, str]:
        """Return what an answer says of the limits, as the provider of that *path* does."""
        calls, used = self._sums()
        limits = {
            "requests": (plan.requests_per_minute, calls),
            "tokens": (plan.tokens_per_minute, used),
        }
        told: dict[str, str] = {}
        for name, (limit, count) in limits.items():
            if limit is None:
                continue
            names = ("x-ratelimit-limit-" + name, "x-ratelimit-remaining-" + name)
            if path.endswith("/messages"):
                names = (
                    f"anthropic-ratelimit-{name}-limit",
                    f"anthropic-ratelimit-{name}-remaining",
                )
            told |= dict(zip(names, (str(limit), str(max(limit - count, 0))), strict=True))
        return told

    def _sums(self) -> tuple[int, int]:
        return len(self._asked), sum(tokens for _, tokens in self._asked)
