"""Vectors that follow: rows that were written without theirs get it, in the background.

So a turn is recallable by its words at once, however slow its embedder is, and an embedder that is
down holds up nothing. What is still to do is marked in the graph itself, see
`gralkord.graph.filling`: after a crash it is found there.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gralkord.errors import BackendUnavailable, GralkorError
from gralkord.graph.filling import Filling

log = structlog.get_logger(__name__)

# Groups that are filled at once; each batch of one is a call to the embedder.
AT_ONCE: Final = 8
MOST_GROUPS: Final = 10_000
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 30.0
# How often all groups are looked at for marks that nobody follows, and how long somebody who does
# has time to show it.
LOOK_SECONDS: Final = 300.0
SHOWS_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class FollowState:
    """How the following goes.

    Attributes:
        state: ``ok``, or the code of the failure that is waited after.
        groups: How many groups wait.
        reason: What the failure said.
    """

    state: str = "ok"
    groups: int = 0
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as status shows it."""
        shown = {"state": self.state, "groups_waiting": self.groups}
        return shown | ({"reason": self.reason} if self.reason else {})


class VectorFollower:
    """Gives marked rows their vectors, group by group, for one event loop."""

    def __init__(self, filling: Filling) -> None:
        self._filling = filling
        self._due: OrderedDict[str, None] = OrderedDict()
        self._busy: set[str] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self._failure: GralkorError | None = None
        self._pause = FIRST_PAUSE
        self._open = True

    @property
    def state(self) -> FollowState:
        """How it goes."""
        groups = len(self._due.keys() | self._busy)
        if self._failure is None:
            return FollowState(groups=groups)
        return FollowState(self._failure.code, groups, self._failure.message)

    def ring(self, group: str) -> None:
        """Say that rows of a group may wait for vectors."""
        # A mark that is not followed now is found by the next look.
        if not self._open or self._filling.embedders.present is None:
            return
        if group in self._due or len(self._due) >= MOST_GROUPS:
            return
        self._due[group] = None
        if len(self._workers) < AT_ONCE and len(self._due) > len(self._workers) - len(self._busy):
            worker = asyncio.create_task(self._work(), name="vectors")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def watch(self) -> None:
        """Look for groups with marks that nobody follows, again and again."""
        while True:
            await self._look()
            await asyncio.sleep(LOOK_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311

    async def close(self) -> None:
        """Stop; what is not done stays marked."""
        self._open = False
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _look(self) -> None:
        if self._filling.embedders.present is None:
            return
        first = {
            group: seen
            for group in await self._filling.graph.groups()
            if group not in self._busy and (seen := await self._filling.waiting(group)) is not None
        }
        if not first:
            return
        await asyncio.sleep(SHOWS_SECONDS * random.uniform(0.5, 1.0))  # noqa: S311
        for group, seen in first.items():
            if await self._filling.waiting(group) == seen:
                self.ring(group)

    async def _work(self) -> None:
        while self._due:
            group = next((each for each in self._due if each not in self._busy), None)
            if group is None:
                return  # whoever is busy with it goes on
            del self._due[group]
            self._busy.add(group)
            try:
                await self._fill(group)
            finally:
                self._busy.discard(group)

    async def _fill(self, group: str) -> None:
        """Fill a group; after a failure it is due again, and nothing is tried for a while."""
        try:
            while await self._filling.step(group) == "more":
                self._recovered()
        except BackendUnavailable as error:
            log.warning("vectors_wait", group=group, reason=error.message)
            self._due[group] = None
            await asyncio.sleep(FIRST_PAUSE)
        except GralkorError as error:
            if self._failure is None or self._failure.code != error.code:
                log.warning("vectors_wait", code=error.code, reason=error.message)
            self._failure = error
            self._due[group] = None
            wait = max(self._pause, min(error.retry_after or 0.0, LONGEST_PAUSE))
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            await asyncio.sleep(wait * random.uniform(0.8, 1.2))  # noqa: S311

    def _recovered(self) -> None:
        if self._failure is not None:
            log.info("vectors_go_on", after=self._failure.code)
        self._failure, self._pause = None, FIRST_PAUSE
