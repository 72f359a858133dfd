"""Put turns and flushes onto the intake stream."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from redis.asyncio import Redis

from gralkord.clock import Clock
from gralkord.errors import GralkorError, SessionConflict
from gralkord.groups import escape
from gralkord.intake.plan import check_event_time
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.keys import Keys, session_name, turn_name
from gralkord.mailbox.scripts import Scripts
from gralkord.models import Capture, CaptureReceipt


class Producer:
    """Writes what agents said to the intake stream of their tenant.

    The answer to a capture means: it is stored, as durably as the queue is (`durability`).
    """

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        lenses: LensRegistry,
        clock: Clock,
        durability: str,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client, keys.prefix)
        self._lenses = lenses
        self._clock = clock
        self._durability = durability
        self._new_id = new_id

    async def capture(
        self, tenant: str, captures: Sequence[Capture]
    ) -> list[CaptureReceipt | GralkorError]:
        """Store turns, in order; return for each its receipt or why it was refused.

        A turn without an id gets one here, so that a command which is repeated because its answer
        was lost is still one turn.

        Raises:
            GralkorError: The queue took none of them.
        """
        captures = [
            capture if capture.turn_id else capture.model_copy(update={"turn_id": self._new_id()})
            for capture in captures
        ]
        answers: list[CaptureReceipt | GralkorError | None] = [
            self._refuse(tenant, capture) for capture in captures
        ]
        accepted = [at for at, refusal in enumerate(answers) if refusal is None]
        replies = await self._send(tenant, [captures[at] for at in accepted])
        for at, reply in zip(accepted, replies, strict=True):
            answers[at] = self._answer(captures[at], reply)
        return [answer for answer in answers if answer is not None]

    async def flush(self, tenant: str, session: str, operator: str | None) -> str:
        """Ask for a flush of what the session has captured so far; return the flush's id.

        Raises:
            SessionConflict: The session is bound to another operator than *operator*.
            GralkorError: The queue does not take it.
        """
        with queue_errors():
            bound: Any = await self._client.hget(self._keys.session(tenant, session), "operator")
            if operator is not None and bound is not None and bound.decode() != operator:
                raise SessionConflict(
                    f"session {session!r} is bound to operator {bound.decode()!r}, "
                    f"the request names {operator!r}",
                    field="operator",
                )
            entry_id: Any = await self._client.xadd(
                self._keys.intake(tenant),
                {"kind": "flush", "data": orjson.dumps({"session": session})},
            )
        return str(entry_id.decode())

    async def _send(self, tenant: str, captures: Sequence[Capture]) -> list[Any]:
        pipe = self._client.pipeline(transaction=False)
        for capture in captures:
            await self._scripts.call("capture", *self._arguments(tenant, capture), client=pipe)
        with queue_errors():
            return await pipe.execute(raise_on_error=True) if captures else []

    def _arguments(self, tenant: str, capture: Capture) -> list[str | bytes]:
        return [
            escape(tenant),
            session_name(tenant, capture.session),
            turn_name(tenant, capture.operator, capture.turn_id or ""),
            capture.operator,
            capture.agent,
            capture.session,
            capture.model_dump_json(exclude_none=True),
        ]

    def _refuse(self, tenant: str, capture: Capture) -> GralkorError | None:
        try:
            self._lenses.targets(tenant, capture.operator, capture.lenses)
            check_event_time(capture, self._clock.now())
        except GralkorError as error:
            return error
        return None

    def _answer(self, capture: Capture, reply: list[bytes]) -> CaptureReceipt | GralkorError:
        verdict, *rest = (part.decode() for part in reply)
        if verdict == "bound":
            operator, agent = rest
            return SessionConflict(
                f"session {capture.session!r} is bound to operator {operator!r} and agent "
                f"{agent!r}; the turn names operator {capture.operator!r} and agent "
                f"{capture.agent!r}",
                field="session",
                hint="use another session id, or the operator and agent that it began with",
            )
        return CaptureReceipt(
            receipt=rest[0],
            turn_id=capture.turn_id or "",
            duplicate=verdict == "seen",
            durability=self._durability,
        )
