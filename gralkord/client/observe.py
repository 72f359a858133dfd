"""Observing: what was said, for both clients."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from gralkord.client.calls import GRACE_SECONDS, Call, milliseconds, reader
from gralkord.models import Message
from gralkord.models.observe import ObserveRequest, ObserveResult
from gralkord.wire import read_model

if TYPE_CHECKING:
    from datetime import datetime

Answer = TypeVar("Answer")


def observe(operator: str, messages: Any, *, timeout: float, **fields: Any) -> Call[ObserveResult]:
    """Return the call that observes. It names the observation, so that repeats are one.

    Raises:
        InvalidInput: It is not acceptable.
    """
    raw = {name: value for name, value in fields.items() if value is not None}
    raw |= {
        "operator": operator,
        "messages": _messages(messages),
        "id": raw.get("id", uuid.uuid4().hex),
        "timeout_ms": milliseconds(timeout),
    }
    if isinstance(raw.get("metadata"), Mapping):
        raw["metadata"] = dict(raw["metadata"])
    request = read_model(ObserveRequest, raw)
    body = request.model_dump_json(exclude_none=True).encode()
    seconds = timeout + GRACE_SECONDS
    return Call("POST", "/v1/observe", reader(ObserveResult), body, timeout=seconds)


def _messages(messages: Any) -> Any:
    """Return messages as JSON values; the model refuses what is none."""
    if isinstance(messages, str | Message | Mapping):
        messages = [messages]
    if isinstance(messages, bytes) or not hasattr(messages, "__iter__"):
        return messages
    return [
        one.model_dump(exclude_none=True) if isinstance(one, Message) else one for one in messages
    ]


class AsyncObserving:
    """The part of the asynchronous client that observes."""

    async def observe(
        self,
        operator: str,
        messages: str | Message | Mapping[str, Any] | Iterable[str | Message | Mapping[str, Any]],
        *,
        user: str | None = None,
        agent: str | None = None,
        id: str | None = None,  # noqa: A002 - as the field is called
        lens: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        offset: str | None = None,
        event_time: datetime | str | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - the daemon keeps it
    ) -> ObserveResult:
        """Make memories of what was said, and return what was decided about each.

        The words themselves are not kept. System text and recalled memory in them is left out.

        Args:
            operator: Whose memory.
            messages: A text of the user's; or texts, and messages with ``role``, ``content`` and
                ``speaker``.
            user: Name of who speaks as ``user``; default: the operator.
            agent: Name of who speaks as ``assistant``.
            id: Your id of this observation, which is made once. Default: a new one.
            lens: The lens whose memory they go to; default: the agent's, or ``default``.
            metadata: What you say about it; kept with each memory.
            source: What it was taken from.
            offset: Where in the source it stands.
            event_time: When it was said; UTC if without a zone. Default: now.
            timeout: Seconds to wait until it is decided; it will be in any case.

        Raises:
            NoModel: The daemon has no language model.
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(
            observe(
                operator,
                messages,
                timeout=timeout,
                user=user,
                agent=agent,
                id=id,
                lens=lens,
                metadata=metadata,
                source=source,
                offset=offset,
                event_time=event_time,
            )
        )

    async def observe_later(
        self,
        operator: str,
        messages: str | Message | Mapping[str, Any] | Iterable[str | Message | Mapping[str, Any]],
        **more: Any,
    ) -> ObserveResult:
        """Have memories made of what was said, and do not wait; ask `result` with its ``id``.

        Args:
            operator: Whose memory.
            messages: As `observe` takes them.
            more: The other arguments of `observe`, without a timeout.

        Raises:
            NoModel: The daemon has no language model.
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self.observe(operator, messages, timeout=0.0, **more)

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Observing:
    """The part of the synchronous client that observes."""

    def observe(
        self,
        operator: str,
        messages: str | Message | Mapping[str, Any] | Iterable[str | Message | Mapping[str, Any]],
        *,
        user: str | None = None,
        agent: str | None = None,
        id: str | None = None,  # noqa: A002 - as the field is called
        lens: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        offset: str | None = None,
        event_time: datetime | str | None = None,
        timeout: float = 30.0,
    ) -> ObserveResult:
        """Make memories of what was said, and return what was decided about each.

        The words themselves are not kept. System text and recalled memory in them is left out.

        Args:
            operator: Whose memory.
            messages: A text of the user's; or texts, and messages with ``role``, ``content`` and
                ``speaker``.
            user: Name of who speaks as ``user``; default: the operator.
            agent: Name of who speaks as ``assistant``.
            id: Your id of this observation, which is made once. Default: a new one.
            lens: The lens whose memory they go to; default: the agent's, or ``default``.
            metadata: What you say about it; kept with each memory.
            source: What it was taken from.
            offset: Where in the source it stands.
            event_time: When it was said; UTC if without a zone. Default: now.
            timeout: Seconds to wait until it is decided; it will be in any case.

        Raises:
            NoModel: The daemon has no language model.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            observe(
                operator,
                messages,
                timeout=timeout,
                user=user,
                agent=agent,
                id=id,
                lens=lens,
                metadata=metadata,
                source=source,
                offset=offset,
                event_time=event_time,
            )
        )

    def observe_later(
        self,
        operator: str,
        messages: str | Message | Mapping[str, Any] | Iterable[str | Message | Mapping[str, Any]],
        **more: Any,
    ) -> ObserveResult:
        """Have memories made of what was said, and do not wait; ask `result` with its ``id``.

        Args:
            operator: Whose memory.
            messages: As `observe` takes them.
            more: The other arguments of `observe`, without a timeout.

        Raises:
            NoModel: The daemon has no language model.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self.observe(operator, messages, timeout=0.0, **more)

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
