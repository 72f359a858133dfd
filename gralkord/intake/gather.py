"""Group commit: what many requests write at once goes to the queue in one command."""

from __future__ import annotations

import asyncio
import contextvars
import copy
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gralkord.errors import GralkorError

MOST_TURNS: Final = 128
MOST_BYTES: Final = 1024 * 1024
# While the queue syncs one batch to its disk, the next is on its way.
SENDERS: Final = 2
SETTLE_SECONDS: Final = 0.003

# From a request's arrival to its capture the event loop makes two rounds.
_ROUNDS: Final = 2


@dataclass(frozen=True, slots=True)
class Written:
    """One turn on its way to the queue.

    Attributes:
        head: What ``capture.lua`` has to know of it.
        data: The capture as JSON.
    """

    head: Sequence[Any]
    data: bytes


@dataclass(frozen=True, slots=True)
class _Request:
    turns: Sequence[Written]
    size: int
    answer: asyncio.Future[Sequence[Any]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            # Each needs one of its own: an error that is raised twice collects both places.
            self.answer.set_exception(copy.copy(error))


class Gatherer:
    """Sends turns in batches; what comes in while some are under way makes the next batch.

    The turns of one request stay together and in order. Requests that wait at the same time have no
    order among them.

    Args:
        send: Sends turns and returns one answer for each.
        most_turns: Turns in a batch.
        most_bytes: Bytes in a batch; one request may be more by itself.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Written]], Awaitable[Sequence[Any]]],
        *,
        most_turns: int = MOST_TURNS,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._send = send
        self._most_turns = most_turns
        self._most_bytes = most_bytes
        self._waiting: deque[_Request] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        self._gathering = False

    async def put(self, turns: Sequence[Written]) -> Sequence[Any]:
        """Return the answer to each of *turns*.

        Who is cancelled here takes nobody along: what it wrote may be sent or not.

        Raises:
            GralkorError: The batch of these turns could not be sent, or one before it.
        """
        request = _Request(turns, sum(len(turn.data) for turn in turns))
        self._waiting.append(request)
        busy = sum(not sender.done() for sender in self._senders)
        if not self._gathering and busy < SENDERS:
            self._gathering = True
            # In a context of its own: it works for other requests than the one that began it.
            sender = asyncio.get_running_loop().create_task(
                self._send_all(), name="gather", context=contextvars.Context()
            )
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return await request.answer

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                self._gathering = True
                await self._settle()
                batch = self._batch()
                self._gathering = False
                await self._answer(batch)
        finally:  # another sender may have taken everything before this one began
            self._gathering = False

    async def _answer(self, batch: list[_Request]) -> None:
        turns = [turn for request in batch for turn in request.turns]
        try:
            answers = iter(await self._send(turns) if turns else ())
            for request in batch:
                share = [next(answers) for _ in request.turns]
                if not request.answer.done():
                    request.answer.set_result(share)
        except Exception as error:
            # What waits would meet the same, one batch after the other.
            batch += self._waiting
            self._waiting.clear()
            for request in batch:
                request.fail(error)
            if not isinstance(error, GralkorError):
                raise

    async def _settle(self) -> None:
        """Return when the event loop has come to an end with what it was doing.

        While requests still come in, this process has no time to spare, and the larger the batches
        are the fewer there are; when none come in, it is over at once.
        """
        clock = asyncio.get_running_loop().time
        until, before = clock() + SETTLE_SECONDS, 0
        while before < len(self._waiting) < self._most_turns and clock() < until:
            before = len(self._waiting)
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)

    def _batch(self) -> list[_Request]:
        batch: list[_Request] = []
        turns = size = 0
        while self._waiting:
            request = self._waiting[0]
            if not request.answer.done():  # else nobody waits for it any more
                turns += len(request.turns)
                size += request.size
                if batch and (turns > self._most_turns or size > self._most_bytes):
                    break
                batch.append(request)
            self._waiting.popleft()
        return batch
