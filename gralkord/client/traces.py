"""Traces of agents: what a framework tells of a turn is captured as a turn, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from gralkord.agents import Shape, turn_of
from gralkord.agents.rules import DEFAULT_RULES
from gralkord.client import calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from gralkord.agents import Rules
    from gralkord.client.calls import Call
    from gralkord.models import CaptureReceipt

Answer = TypeVar("Answer")


def capture(
    trace: Iterable[Any], *, shape: Shape, failure: Any, rules: Rules, **fields: Any
) -> Call[CaptureReceipt] | None:
    """Return the call that captures a trace as one turn; none if there is nothing to capture.

    Raises:
        InvalidInput: It is no trace of that shape, or no capture.
        ConfigError: A profile failed.
    """
    turn = turn_of(trace, shape, failure=failure, rules=rules)
    return calls.capture(turn, **fields) if turn else None


class AsyncTraces:
    """The part of the asynchronous client that captures traces."""

    async def capture_trace(
        self,
        session: str,
        operator: str,
        agent: str,
        user: str,
        trace: Iterable[Any],
        shape: Shape = "events",
        *,
        failure: Any = None,
        rules: Rules = DEFAULT_RULES,
        lenses: Iterable[str] = (),
        turn_id: str | None = None,
        event_time: datetime | str | None = None,
        source: str | None = None,
        offset: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> CaptureReceipt | None:
        """Store one turn as an agent's framework tells it; see `gralkord.agents.turn_of`.

        System text is left out, and so is memory that was put into the conversation.

        Args:
            session: The session it belongs to; bound to operator and agent on first use.
            operator: Whose memory it becomes.
            agent: Name of the agent.
            user: Name of the one the agent talks to.
            trace: Events, or messages or items as the framework has them, of this turn alone.
            shape: What *trace* consists of.
            failure: Why the turn ended without an answer: an exception or a text.
            rules: What is stripped, and how much is kept.
            lenses: Lenses besides ``default``.
            turn_id: Id of the turn; the same id is the same turn. Default: a new one.
            event_time: When it happened; UTC if without a zone. Default: now.
            source: What it was taken from.
            offset: Where in the source it stands.
            metadata: What you say about it; ``outcome`` may be ``succeeded`` or ``failed``.

        Returns:
            None, where there is nothing to capture: nothing was sent then.

        Raises:
            GralkorError: It is not acceptable, or cannot be stored now.
        """
        call = capture(
            trace,
            shape=shape,
            failure=failure,
            rules=rules,
            lenses=lenses,
            event_time=event_time,
            session=session,
            operator=operator,
            agent=agent,
            user=user,
            turn_id=turn_id,
            source=source,
            offset=offset,
            metadata=metadata,
        )
        if call is None:
            return None
        return await self._send(call)

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Traces:
    """The part of the synchronous client that captures traces."""

    def capture_trace(
        self,
        session: str,
        operator: str,
        agent: str,
        user: str,
        trace: Iterable[Any],
        shape: Shape = "events",
        *,
        failure: Any = None,
        rules: Rules = DEFAULT_RULES,
        lenses: Iterable[str] = (),
        turn_id: str | None = None,
        event_time: datetime | str | None = None,
        source: str | None = None,
        offset: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> CaptureReceipt | None:
        """Store one turn as an agent's framework tells it; see `gralkord.agents.turn_of`.

        System text is left out, and so is memory that was put into the conversation.

        Args:
            session: The session it belongs to; bound to operator and agent on first use.
            operator: Whose memory it becomes.
            agent: Name of the agent.
            user: Name of the one the agent talks to.
            trace: Events, or messages or items as the framework has them, of this turn alone.
            shape: What *trace* consists of.
            failure: Why the turn ended without an answer: an exception or a text.
            rules: What is stripped, and how much is kept.
            lenses: Lenses besides ``default``.
            turn_id: Id of the turn; the same id is the same turn. Default: a new one.
            event_time: When it happened; UTC if without a zone. Default: now.
            source: What it was taken from.
            offset: Where in the source it stands.
            metadata: What you say about it; ``outcome`` may be ``succeeded`` or ``failed``.

        Returns:
            None, where there is nothing to capture: nothing was sent then.

        Raises:
            GralkorError: It is not acceptable, or cannot be stored now.
        """
        call = capture(
            trace,
            shape=shape,
            failure=failure,
            rules=rules,
            lenses=lenses,
            event_time=event_time,
            session=session,
            operator=operator,
            agent=agent,
            user=user,
            turn_id=turn_id,
            source=source,
            offset=offset,
            metadata=metadata,
        )
        if call is None:
            return None
        return self._send(call)

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
