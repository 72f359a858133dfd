"""Language models behind the OpenAI wire format: OpenAI itself, vLLM, llama.cpp, gateways."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx
import structlog

from gralkord import __version__
from gralkord.clock import SystemClock
from gralkord.errors import ModelOutage
from gralkord.providers.base import ChatMessage, Usage
from gralkord.providers.calls import Calls
from gralkord.providers.ledger import Call, Ledger, NoLedger
from gralkord.providers.limiter import Limiter, LocalLimiter
from gralkord.providers.refusals import Hiccup, inner_refusal, refusal
from gralkord.providers.structured import (
    Answer,
    UnusableAnswer,
    read_answer,
    repair_instruction,
    schema_instruction,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from gralkord.clock import Clock
    from gralkord.groups import Group
    from gralkord.providers.endpoint import Endpoint

CONNECT_SECONDS: Final = 10.0
# Shorter than the five seconds after which common servers close an idle connection: a request
# written to one that is just being closed is lost.
IDLE_SECONDS: Final = 3.0
FORMATS: Final = ("json_schema", "json_object", "text")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What this server has been found to understand."""

    response_format: str
    options: Mapping[str, Any]
    limit_name: str

    def without(self, complaint: str) -> _Dialect | None:
        """Return a dialect without what the server's *complaint* names, if it names something."""
        if "max_completion_tokens" in complaint and self.limit_name == "max_tokens":
            return replace(self, limit_name="max_completion_tokens")
        if self.limit_name and self.limit_name in complaint:
            # It is more than the model can write; without it the server takes what there is.
            return replace(self, limit_name="")
        for name in self.options:
            if name in complaint:
                kept = {key: value for key, value in self.options.items() if key != name}
                return replace(self, options=kept)
        if re.search(r"response_format|json_schema|json_object", complaint):
            place = FORMATS.index(self.response_format)
            if place + 1 < len(FORMATS):
                return replace(self, response_format=FORMATS[place + 1])
        return None


@dataclass(frozen=True, slots=True)
class _Charge:
    """What a call is for, and on whose account."""

    stage: str
    group: Group | None


class OpenAIModel:
    """A model behind an OpenAI-compatible ``/chat/completions``.

    Belongs to the event loop that first uses it, as its connections do.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        slots: asyncio.Semaphore,
        timeout_seconds: float = 120.0,
        clock: Clock | None = None,
        limiter: Limiter | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        """Prepare for calls; nothing is sent yet.

        Args:
            endpoint: The model and its address.
            slots: Limits the calls under way, together with whoever else holds it.
            timeout_seconds: Limit of one call, from sending to the last byte.
            clock: For a Retry-After that names a date.
            limiter: Gives turns after the provider asked for fewer requests; default: one that
                knows this process only.
            ledger: Keeps account of the calls; default: nobody does.
        """
        self._endpoint = endpoint
        self._calls = Calls(endpoint, limiter or LocalLimiter(), slots)
        self._ledger = ledger or NoLedger()
        self._timeout_seconds = timeout_seconds
        self._clock = clock or SystemClock()
        self._dialect = _Dialect(FORMATS[0], endpoint.options, endpoint.limit_name)
        self._usage = Usage()
        self._client: httpx.AsyncClient | None = None

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

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        schema: type[BaseModel],
        *,
        small: bool = False,  # noqa: ARG002 - this is one model, for jobs of any size
        max_tokens: int | None = None,
        stage: str = "",
        group: Group | None = None,
    ) -> dict[str, Any]:
        """Return the model's answer as an object that *schema* accepts.

        An answer that does not fit is shown to the model once more, with what is wrong with it.

        Raises:
            BudgetSpent: The account has nothing left for today.
            RateLimited: The provider asks to wait, longer than a call should take.
            ModelOutage: The provider does not answer.
            UnusableAnswer: The answer did not fit, also after the repair turn.
            ConfigError: The provider refuses key, model or address.
            Permanent: The provider refuses the request itself.
        """
        await self._ledger.permit(group)
        charge = _Charge(stage, group)
        answer = await self._ask(messages, schema, max_tokens, charge)
        try:
            return read_answer(answer, schema)
        except UnusableAnswer as problem:
            log.info("model_answer_repaired", model=self.name, stage=stage, schema=schema.__name__)
            log.debug("model_answer_unusable", reason=problem.reason)
            if max_tokens and answer.finish_reason == "length":
                max_tokens *= 2
            again = [
                *messages,
                ChatMessage("assistant", problem.raw or "(nothing)"),
                ChatMessage("user", repair_instruction(problem)),
            ]
        return read_answer(await self._ask(again, schema, max_tokens, charge), schema)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _ask(
        self,
        messages: Sequence[ChatMessage],
        schema: type[BaseModel],
        max_tokens: int | None,
        charge: _Charge,
    ) -> Answer:
        while True:
            dialect = self._dialect
            payload = self._payload(messages, schema, max_tokens, dialect)
            response = await self._calls.make(partial(self._post, payload))
            if response.status_code in {400, 422}:
                simpler = dialect.without(response.text)
                if simpler is not None:
                    log.info("model_dialect", model=self.name, format=simpler.response_format)
                    self._dialect = simpler
                    continue
            return await self._read(response, charge)

    def _payload(
        self,
        messages: Sequence[ChatMessage],
        schema: type[BaseModel],
        max_tokens: int | None,
        dialect: _Dialect,
    ) -> dict[str, Any]:
        turns = [{"role": turn.role, "content": _sendable(turn.content)} for turn in messages]
        payload: dict[str, Any] = {"model": self.name, "messages": turns} | dict(dialect.options)
        if max_tokens and dialect.limit_name:
            payload[dialect.limit_name] = max_tokens
        if dialect.response_format == "json_schema":
            name = re.sub(r"[^A-Za-z0-9_-]", "_", schema.__name__)[:64]
            wanted = {"name": name, "schema": schema.model_json_schema(), "strict": False}
            payload["response_format"] = {"type": "json_schema", "json_schema": wanted}
            return payload
        turns.append({"role": "user", "content": schema_instruction(schema)})
        if dialect.response_format == "json_object":
            payload["response_format"] = {"type": "json_object"}
        return payload

    async def _post(self, payload: dict[str, Any]) -> httpx.Response:
        """Return an answer, or a refusal of the request itself; raise any other refusal."""
        url = f"{self._endpoint.base_url}/chat/completions"
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await self._connected().post(url, json=payload)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ModelOutage(
                f"{self._endpoint.spec} did not answer within {self._timeout_seconds:g} s"
            ) from error
        except httpx.RequestError as error:
            # A connection that breaks off may be of one request; one that is not there is not.
            kind = ModelOutage if isinstance(error, httpx.ConnectError) else Hiccup
            raise kind(
                f"{self._endpoint.spec} cannot be reached: {type(error).__name__}",
                hint=f"is a server running at {self._endpoint.base_url}?",
            ) from error
        if response.status_code not in {200, 400, 422}:
            raise refusal(self._endpoint, response, self._clock)
        if response.status_code == httpx.codes.OK and (inner := _inner_error(response)):
            raise inner_refusal(self._endpoint, response, inner, self._clock)
        return response

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            key = self._endpoint.key
            self._client = httpx.AsyncClient(
                headers={"User-Agent": f"gralkord/{__version__}"}
                | ({"Authorization": f"Bearer {key}"} if key else {}),
                timeout=httpx.Timeout(self._timeout_seconds, connect=CONNECT_SECONDS),
                limits=httpx.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS),
                follow_redirects=False,
                trust_env=not self._endpoint.loopback,
            )
        return self._client

    async def _read(self, response: httpx.Response, charge: _Charge) -> Answer:
        if response.status_code != httpx.codes.OK:
            raise refusal(self._endpoint, response, self._clock)
        try:
            body = response.json()
            choice = body["choices"][0]
            message = choice["message"]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise UnusableAnswer("it is not a chat completion", Answer(response.text)) from None
        await self._count(body.get("usage"), charge, response.elapsed.total_seconds())
        answer = Answer(_text(message.get("content")), choice.get("finish_reason"))
        if message.get("refusal"):
            raise UnusableAnswer("the model refuses to answer", Answer(str(message["refusal"])))
        return answer

    async def _count(self, reported: Any, charge: _Charge, seconds: float) -> None:
        reported = reported if isinstance(reported, dict) else {}
        details = reported.get("prompt_tokens_details")
        used = Usage(
            1,
            _number(reported, "prompt_tokens"),
            _number(reported, "completion_tokens"),
            _number(details, "cached_tokens") if isinstance(details, dict) else 0,
        )
        self._usage += used
        await self._ledger.record(
            Call(
                role="llm",
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


def _inner_error(response: httpx.Response) -> Any:
    """Return the error in a 200: so gateways report how the provider behind them failed."""
    try:
        body = response.json()
    except ValueError:
        return None
    return body.get("error") if isinstance(body, dict) and not body.get("choices") else None


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else "" if content is None else json.dumps(content)


def _number(reported: Mapping[str, Any], name: str) -> int:
    value = reported.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
