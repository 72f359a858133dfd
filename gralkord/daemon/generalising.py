"""The schedule on which what is new of each operator is generalised."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from gralkord.clock import Clock
from gralkord.daemon.duties import Duties
from gralkord.errors import BackendUnavailable, GralkorError
from gralkord.graph.fresh import FreshEpisodes
from gralkord.groups import DEFAULT_LENS, parse_group
from gralkord.mailbox.requests import Requests
from gralkord.turns.generalise.requests import KIND

log = structlog.get_logger(__name__)

LOOK_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class GeneraliseSchedule:
    """Queues work for the groups that have something new, once in so many hours.

    The hours are counted from 1970, so that all daemons have the same ones, and the work is named
    by them, so that it is queued once whichever daemon does it and however often one is started.

    Attributes:
        hours: How often.
        look_seconds: How often the clock is looked at.
    """

    fresh: FreshEpisodes
    requests: Requests
    duties: Duties
    clock: Clock
    hours: float
    look_seconds: float = LOOK_SECONDS

    async def watch(self) -> None:
        """Keep to the schedule while this process is the router, until cancelled.

        Raises:
            BackendUnavailable: The queue or the graph does not answer.
        """
        done: int | None = None
        while True:
            await asyncio.sleep(self.look_seconds)
            term = int(self.clock.now().timestamp() // (self.hours * 3600))
            if self.duties.is_router and term != done:
                await self.queue(term)
                done = term

    async def queue(self, term: int) -> int:
        """Queue the work of a term; return for how many groups.

        Raises:
            BackendUnavailable: The queue or the graph does not answer.
        """
        queued = 0
        for group in await self.fresh.graph.groups():
            if parse_group(group).lens != DEFAULT_LENS:
                continue
            since = await self.fresh.since(group)
            if await self.fresh.after(group, since, 1):
                queued += await self._ask(group, term)
        log.info("generalisation_queued", groups=queued)
        return queued

    async def _ask(self, group: str, term: int) -> bool:
        tenant, key = parse_group(group).tenant, f"every {self.hours:g} hours, {term}"
        try:
            await self.requests.ask(tenant, group, KIND, {}, 0, asks_model=True, key=key)
        except BackendUnavailable:
            raise
        except GralkorError as error:  # of one group: the others have their turn all the same
            log.warning("generalisation_left_out", group=group, code=error.code)
            return False
        return True
