"""Language models: from a conversation and a schema to an object that fits it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import httpx
import structlog
from pydantic import BaseModel

from gralkord.clock import Clock
from gralkord.errors import AnswerTimeout, GralkorError, ModelOutage
from gralkord.groups import Group
from gralkord.providers.base import ChatMessage, Usage
from gralkord.providers.calls import Calls
from gralkord.providers.endpoint import Endpoint
from gralkord.providers.formats import Ask, ChatFormat, Reply, Request, chat_format
from gralkord.providers.http import ModelServer, complaint_of
from gralkord.providers.ledger import Call, CalledRole, Ledger, NoLedger
from gralkord.providers.limiter import Limiter, LocalLimiter
from gralkord.providers.refusals import Unanswered
from gralkord.providers.structured import (
    Answer,
    UnusableAnswer,
    read_answer,
    repair_instruction,
)

CHARACTERS_PER_TOKEN: Final = 4
ANSWER_TOKENS: Final = 500
IMAGE_TOKENS: Final = 1_000
# How long the shortest of questions may take a model that works.
SHORT_SECONDS: Final = 30.0
SHORT_TOKENS: Final = 16
_UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError)

log = structlog.get_logger(__name__)


class _Yes(BaseModel):
    """An answer to the shortest of questions."""

    yes: bool


@dataclass(frozen=True, slots=True)
class _Charge:
    """What a call is for, and on whose account."""

    stage: str
    group: Group | None


class ChatModel:
    """A language model behind the format of its provider.

    Belongs to the event loop that first uses it, as its connections do.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        slots: asyncio.Semaphore,
        timeout_seconds: float | None = None,
        clock: Clock | None = None,
        limiter: Limiter | None = None,
        ledger: Ledger | None = None,
        role: CalledRole = "llm",
    ) -> None:
        """Prepare for calls; nothing is sent yet.

        Args:
            endpoint: The model and its address.
            slots: Limits the calls under way, together with whoever else holds it.
            timeout_seconds: Limit of one call, from sending to the last byte; default: that of the
                endpoint.
            clock: For a Retry-After that names a date.
            limiter: Gives turns after the provider asked for fewer requests; default: one that
                knows this process only.
            ledger: Keeps account of the calls; default: nobody does.
            role: What the ledger calls its work.
        """
        self._endpoint = endpoint
        self._server = ModelServer(endpoint, timeout_seconds=timeout_seconds, clock=clock)
        self._calls = Calls(endpoint, limiter or LocalLimiter(), slots, lane=role == "llm")
        self._ledger = ledger or NoLedger()
        self._role = role
        self._format = chat_format(endpoint)
        self._usage = Usage()

    @property
    def name(self) -> str:
        """The model's name."""
        return self._endpoint.model

    @property
    def endpoints(self) -> tuple[str, ...]:
        """What holds call the addresses that are asked."""
        return (self._endpoint.name,)

    @property
    def usage(self) -> Usage:
        """What has been used so far."""
        return self._usage

    @property
    def how(self) -> str:
        """How the server was last asked to keep to a schema; ``text``: in words only."""
        return self._format.how

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        schema: type[BaseModel],
        *,
        small: bool = False,  # noqa: ARG002 - this is one model, for jobs of any size
        max_tokens: int | None = None,
        stage: str = "",
        group: Group | None = None,
        repair: bool = True,
    ) -> dict[str, Any]:
        """Return the model's answer as an object that *schema* accepts.

        An answer that does not fit is shown to the model once more, with what is wrong with it,
        where *repair* allows that.

        Raises:
            BudgetSpent: The account has nothing left for today.
            RateLimited: The provider asks to wait, longer than a call should take.
            ModelOutage: The provider does not answer.
            AnswerTimeout: It does, but has not finished this answer in time.
            UnusableAnswer: The answer did not fit, also after the repair turn.
            ConfigError: The provider refuses key, model or address.
            Permanent: The provider refuses the request itself.
        """
        await self._ledger.permit(group)
        charge = _Charge(stage, group)
        ask = Ask(messages, schema, max_tokens)
        answer = await self._ask(ask, charge)
        try:
            return read_answer(answer, schema)
        except UnusableAnswer as problem:
            if not repair:
                raise
            log.info("model_answer_repaired", model=self.name, stage=stage, schema=schema.__name__)
            log.debug("model_answer_unusable", reason=problem.reason)
            again = self._again(ask, answer, problem)
        return read_answer(await self._ask(again, charge), schema)

    async def close(self) -> None:
        """Close the connections."""
        await self._calls.close()
        await self._server.close()

    def _again(self, ask: Ask, answer: Answer, problem: UnusableAnswer) -> Ask:
        """Return the repair turn."""
        limit = ask.max_tokens
        if answer.finish_reason == "length" and (limit or self._format.usual_limit):
            limit = 2 * (limit or self._format.usual_limit or 0)
        messages = [
            *ask.messages,
            ChatMessage("assistant", problem.raw or "(nothing)"),
            ChatMessage("user", repair_instruction(problem)),
        ]
        # Spelled out, because a server may have passed over the schema it was given.
        return replace(ask, messages=messages, max_tokens=limit, spell=True)

    async def _ask(self, ask: Ask, charge: _Charge) -> Answer:
        while True:
            asked = self._format
            request = asked.request(ask)
            response = await self._calls.make(
                partial(self._post, request, charge),
                tokens=_estimate(ask),
                used=partial(_used, asked),
            )
            if response.status_code != httpx.codes.OK:
                simpler = asked.without(complaint_of(response))
                if simpler is not None:
                    self._learn(asked, simpler)
                    continue
            self._server.raise_refusal(response)
            reply = await self._read(asked, ask, response, charge)
            if reply.ignored and (simpler := asked.simpler()) is not None:
                self._learn(asked, simpler)
            if reply.refusal is not None:
                raise UnusableAnswer("the model refuses to answer", Answer(reply.refusal))
            return reply.answer

    async def _post(self, request: Request, charge: _Charge) -> httpx.Response:
        """Send *request*; tell an answer without an end from a model that is out.

        A model that repeats itself until its time is over does so again when it is asked again. As
        an outage that would hold all work, and for ever.
        """
        try:
            return await self._server.post(request.path, request.body)
        except Unanswered as error:
            if self._role != "llm" or not await self._answers(charge):
                raise
            raise AnswerTimeout(
                f"{self._endpoint.spec} did not finish an answer in time, and answers others",
                hint="limit the length of its answers, or raise models.timeout_seconds",
            ) from error

    async def _answers(self, charge: _Charge) -> bool:
        """Return whether the model answers the shortest of questions."""
        ask = Ask([ChatMessage("user", "Is two more than one?")], _Yes, SHORT_TOKENS)
        request = self._format.request(ask)
        try:
            async with asyncio.timeout(SHORT_SECONDS):
                response = await self._server.post(request.path, request.body)
        except (TimeoutError, ModelOutage):
            return False
        except GralkorError:  # a refusal is an answer
            return True
        return await self._count(ask, response, charge) is not None

    def _learn(self, asked: ChatFormat, simpler: ChatFormat) -> None:
        """Ask in a simpler format from now on, unless another call has learnt something already."""
        if self._format is asked:
            log.info("model_format", model=self.name, how=simpler.how)
            self._format = simpler

    async def _read(
        self, asked: ChatFormat, ask: Ask, response: httpx.Response, charge: _Charge
    ) -> Reply:
        body = await self._count(ask, response, charge)
        try:
            return asked.reply(body)
        except _UNREADABLE:
            raise UnusableAnswer(
                "it is not what this provider answers", Answer(response.text)
            ) from None

    async def _count(self, ask: Ask, response: httpx.Response, charge: _Charge) -> Any:
        """Keep account of an answer; return its body, or None where that is not JSON."""
        try:
            body = response.json()
        except ValueError:
            body = None
        seconds = response.elapsed.total_seconds()
        used = self._format.usage(body)
        if not used.prompt_tokens:  # budgets hold also where a server counts nothing
            written = len(response.text) // CHARACTERS_PER_TOKEN
            used = Usage(1, _estimate(ask) - ANSWER_TOKENS, used.completion_tokens or written)
        self._usage += used
        await self._ledger.record(
            Call(
                role=self._role,
                model=self._endpoint.ledger_name,
                stage=charge.stage,
                group=charge.group,
                prompt_tokens=used.prompt_tokens,
                cached_tokens=used.cached_tokens,
                completion_tokens=used.completion_tokens,
                seconds=seconds,
                price=self._endpoint.price,
            )
        )
        log.debug(
            "model_answered",
            model=self.name,
            stage=charge.stage,
            seconds=round(seconds, 3),
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
        )
        return body


def _estimate(ask: Ask) -> int:
    """Return how many tokens a call will use, roughly; what it uses corrects later estimates."""
    characters = sum(len(message.content) for message in ask.messages)
    images = sum(len(message.images) for message in ask.messages)
    return characters // CHARACTERS_PER_TOKEN + images * IMAGE_TOKENS + ANSWER_TOKENS


def _used(asked: ChatFormat, response: httpx.Response) -> int:
    """Return how many tokens an answer says that it took, both ways."""
    try:
        used = asked.usage(response.json())
    except ValueError:
        return 0
    return used.prompt_tokens + used.completion_tokens
