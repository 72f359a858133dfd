"""Requests: writes from outside the lanes, done in the understand lane of a group and answered.

A request is an item like others, so it is done once, in its turn, by whoever holds the group. Its
flush record tells when; its answer is kept for seven days, for callers that did not wait.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import orjson
from redis.asyncio import Redis

from gralkord.clock import Clock
from gralkord.errors import InternalError, NotFound, QueueFull, rebuild_error
from gralkord.groups import escape
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Ring
from gralkord.mailbox.scripts import Scripts
from gralkord.models.jobs import check_entry_id
from gralkord.models.results import Result

_SUFFIX: Final = ".q"
_RETRY_SECONDS: Final = 5.0


class Requests:
    """Puts requests into mailboxes and waits for their answers."""

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        clock: Clock,
        flushes: Flushes,
        ring: Callable[[Sequence[Ring]], Awaitable[None]],
        *,
        backlog_limit: int,
    ) -> None:
        """Prepare the scripts; nothing is sent yet.

        Args:
            client: The queue Redis.
            keys: Its names.
            clock: The time.
            flushes: Wakes who waits.
            ring: Rings doorbells.
            backlog_limit: Refuse a request while so many items wait for its group.
        """
        self._client = client
        self._keys = keys
        self._clock = clock
        self._flushes = flushes
        self._ring = ring
        self._limit = backlog_limit
        self._scripts = Scripts(client, keys.prefix)

    async def ask(
        self,
        tenant: str,
        group: str,
        kind: str,
        body: Mapping[str, Any],
        timeout: float,  # noqa: ASYNC109
        *,
        asks_model: bool = False,
        key: str | None = None,
    ) -> Result:
        """Have a piece of work done in the understand lane of *group*, and wait for its answer.

        Args:
            tenant: Who asks.
            group: Where the work is to be done.
            kind: Which executor does it, see `gralkord.turns.work.UnderstandParts`.
            body: What the executor is given; JSON.
            timeout: Seconds to wait; without an answer by then the work is still to be done.
            asks_model: Whether it needs the language model: then it waits while that is out.
            key: The caller's name for the work. For seven days the same name of the same group is
                the same request, and only its answer is waited for.

        Raises:
            QueueFull: Nothing new is taken for now.
            GralkorError: The executor's refusal, or the queue does not answer.
        """
        request = self._name(group, kind, key)
        name = f"{escape(tenant)}:{request}"
        asks = {"asks_model": True} if asks_model else {}
        raw = orjson.dumps({"kind": kind, "request": name, **asks, **body})
        said, what = await self._scripts.call("request", name, group, _SUFFIX, raw, self._limit)
        if said != b"ok":
            raise self._full(said.decode(), what)
        if what:
            await self._ring([("understand", group)])
        await self._flushes.wait(tenant, request, "understood", timeout, asks_model=asks_model)
        return await self.result(tenant, request)

    def _name(self, group: str, kind: str, key: str | None) -> str:
        if key is None:
            return f"{int(self._clock.now().timestamp() * 1000)}-{secrets.randbits(48)}"
        words = f"{group}\x00{kind}\x00{key}".encode()
        digest = hashlib.blake2b(words, digest_size=14).digest()
        # No earlier than any clock tells, so that it is no other request's.
        return f"{int.from_bytes(digest[:6]) | 1 << 47}-{int.from_bytes(digest[6:])}"

    async def result(self, tenant: str, request: str) -> Result:
        """Return what became of a request that was made earlier.

        Raises:
            InvalidInput: *request* is no id.
            NotFound: There is no such request, or it is older than seven days.
            GralkorError: The executor's refusal, or the queue does not answer.
        """
        check_entry_id(request)
        with queue_errors():
            pipe = self._client.pipeline(transaction=True)
            pipe.get(self._keys.result(tenant, request))
            pipe.hgetall(self._keys.flush(tenant, request))
            raw, record = await pipe.execute()
        if raw is not None:
            content = orjson.loads(raw)
            if "error" in content:
                raise rebuild_error(content["error"]) or InternalError("an answer is unreadable")
            return Result(id=request, complete=True, answer=content["answer"])
        if record.get(b"kind") != b"request":
            raise NotFound(
                f"no request has the id {request!r}",
                field="id",
                hint="answers are kept for 7 days",
            )
        if record.get(b"understand") == b"1":
            why = record.get(b"died_of", b"unexpected").decode()
            raise InternalError(
                f"the request was given up after several attempts: {why}",
                hint="see: gralkord dead list",
            )
        return Result(id=request, complete=False)

    def _full(self, why: str, what: Any) -> QueueFull:
        if why == "closed":
            return QueueFull(
                f"nothing new is taken: {what.decode()}", limit="memory", retry_after=_RETRY_SECONDS
            )
        return QueueFull(
            f"{what} items wait for this group already",
            limit=self._limit,
            retry_after=_RETRY_SECONDS,
        )
