"""Observing: what was said goes through the understand lane, and decisions come back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from gralkord.agents.profiles import DEFAULT_PROFILES, strip
from gralkord.clock import Clock, to_iso
from gralkord.errors import InvalidInput, NoModel
from gralkord.groups import DEFAULT_LENS, Group
from gralkord.lenses.registry import GLOBAL, LensRegistry
from gralkord.models import Role
from gralkord.models.observe import SYSTEM_ROLES, ObservedMessage, ObserveRequest, ObserveResult
from gralkord.wire import check_past

if TYPE_CHECKING:
    from gralkord.mailbox.requests import Requests

KIND: Final = "observe"

_BEHAVIOUR: Final = frozenset({"tool", "behaviour"})
_AGENT: Final = "assistant"


@dataclass(frozen=True, slots=True)
class ObserveService:
    """Implements `gralkord.rpc.observe.Observing`."""

    requests: Requests
    lenses: LensRegistry
    clock: Clock
    understanding: bool

    async def observe(self, tenant: str, request: ObserveRequest) -> ObserveResult:
        """Make memories of what was said; the same id is observed once.

        Raises:
            NoModel: There is no language model.
            UnknownLens: No lens has that name.
            InvalidInput: Nothing is left of the words, or they are not acceptable.
            QueueFull: Nothing new is taken for now.
            GralkorError: It was refused or given up, or the queue does not answer.
        """
        if not self.understanding:
            raise no_model()
        lens = request.lens or self._lens_of(request.agent)
        group = own_group(self.lenses, tenant, request.operator, lens)
        now = self.clock.now()
        check_past(request.event_time, now)
        lines = [[one.speaker, one.role, one.text] for one in said(request)]
        if not lines:
            raise InvalidInput(
                "messages: no words are left besides system text and recalled memory",
                field="messages",
            )
        key = request.id or uuid.uuid4().hex
        body = {
            "operator": request.operator,
            "lens": lens,
            "agent": request.agent,
            "key": key,
            "lines": lines,
            "when": to_iso(request.event_time or now),
            "source": request.source,
            "offset": request.offset,
            "metadata": request.metadata or None,
        }
        seconds = request.timeout_ms / 1000
        done = await self.requests.ask(
            tenant, group.id, KIND, body, seconds, asks_model=True, key=key
        )
        return ObserveResult.model_validate(
            {"id": done.id, "complete": done.complete, **(done.answer or {})}
        )

    def _lens_of(self, agent: str | None) -> str:
        """Return the lens that an agent writes to, if that is an operator's own."""
        mine = self.lenses.captured((), agent)[0]
        return DEFAULT_LENS if self.lenses.lens(mine).scope == GLOBAL else mine


@dataclass(frozen=True, slots=True)
class Said:
    """One thing that was said or done, and by whom."""

    speaker: str
    role: Role
    text: str


def said(request: ObserveRequest) -> Iterator[Said]:
    """Yield the messages of a request without system text, memory blocks and envelopes."""
    for message in request.messages:
        if message.role in SYSTEM_ROLES:
            continue
        role = cast("Role", "behaviour" if message.role in _BEHAVIOUR else message.role)
        left = strip(message.content, role, DEFAULT_PROFILES)
        if left.text.strip():
            # Who an envelope names may be a human only.
            told = left.speaker if role == "user" else None
            yield Said(_speaker(request, message, role, told), role, left.text.strip())


def _speaker(
    request: ObserveRequest, message: ObservedMessage, role: Role, told: str | None
) -> str:
    if message.speaker or told:
        return message.speaker or told or ""
    if role == "user":
        return request.user or request.operator
    return request.agent or _AGENT


def own_group(lenses: LensRegistry, tenant: str, operator: str, name: str) -> Group:
    """Return the group that a lens of the operator's writes to.

    Raises:
        UnknownLens: No lens has that name.
        InvalidInput: All operators share the lens's memory.
    """
    lens = lenses.lens(name)
    if lens.scope == GLOBAL:
        raise InvalidInput(
            f"lens: {name!r} is shared by all operators, and what is told outright is one's own",
            field="lens",
            hint="name a lens of the scope operator, or capture the words through this one",
        )
    return lenses.group(tenant, operator, lens)


def no_model() -> NoModel:
    """Return the error where nothing can be made of what was said."""
    hint = "set models.llm, for instance GRALKORD_MODELS__LLM=openai:MODEL"
    return NoModel("no language model is configured, so nothing can be observed", hint=hint)
