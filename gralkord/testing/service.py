"""What the scripted model server does with a request, whatever the format it comes in."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from gralkord.testing.answers import Answerer
from gralkord.testing.faults import Fault, FaultPlan, Faults
from gralkord.testing.images import described
from gralkord.testing.limits import Meter
from gralkord.testing.prompt_cache import PromptCache
from gralkord.testing.replay import Replay
from gralkord.testing.spoiling import spoil
from gralkord.testing.wire import (
    CHARACTERS_PER_TOKEN,
    Entry,
    Problem,
    Question,
    WireFormat,
    Written,
    embed,
    tokens,
)

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

LOG_ENTRIES: Final = 10_000
RESPONSE_FORMATS: Final = ("json_schema", "tools", "json_object")
UNREADABLE: Final = (ValueError, AttributeError, LookupError, TypeError)
_NOT_KNOWN: Final = {"tools": "'tools' is not supported"}
_FAULTS: Final = {
    Fault.RATE_LIMITED: Problem(429, "slow down", "rate_limit_error", "rate_limit_exceeded"),
    Fault.SERVER_ERROR: Problem(500, "out of order", "server_error"),
    Fault.REFUSED_KEY: Problem(401, "wrong key", code="invalid_api_key"),
    Fault.REFUSED: Problem(400, "not acceptable", code="content_policy_violation"),
}


class ModelService:
    """What the server knows: its replay, its faults, its log."""

    def __init__(
        self,
        *,
        replay: Replay,
        faults: FaultPlan,
        api_key: str | None,
        knows: Collection[str] = RESPONSE_FORMATS,
        watch: Callable[[str], None] | None = None,
    ) -> None:
        self._answerer = Answerer(replay)
        self._api_key = api_key
        self._knows = knows
        self._count = 0
        self._watch = watch
        self._cache = PromptCache()
        self._meters: defaultdict[tuple[str, str], Meter] = defaultdict(Meter)
        self.faults = Faults(faults)
        self.log: deque[Entry] = deque(maxlen=LOG_ENTRIES)

    async def chat(self, request: Request, wire: WireFormat, model: str = "") -> Response:
        """Answer a prompt, or show the fault whose turn it is."""
        visit = _Visit(request, wire)
        if (refused := self._unauthorized(visit)) is not None:
            return refused
        try:
            question = wire.question(await request.json(), model)
            fault = self._fault(visit, question.text, question.model)
        except UNREADABLE as error:
            return self._turn_away(visit, Problem(400, f"not a request for an answer: {error}"))
        if self._watch is not None:
            self._watch(question.text)
        problem = self._problem(fault) or self._not_known(question)
        written = Written("") if problem else self._write(question, fault)
        await self._wait(fault, tokens(written.content))
        status = self._status(problem, fault)
        self._note(
            visit,
            status,
            fault,
            model=question.model,
            schema=question.schema_name,
            response_format=question.response_format,
            prompt_tokens=question.prompt_tokens,
            completion_tokens=tokens(written.content),
            cached_tokens=written.cached_tokens,
            prompt=question.text,
            answer=written.content,
            images=len(question.images),
        )
        if problem is not None:
            return visit.refused(problem, self._retry_after(fault))
        body = wire.answer(question, written, self._count)
        return visit.answered(body) if status else DroppedResponse()

    async def embed(self, request: Request, wire: WireFormat, model: str = "") -> Response:
        """Answer a request for vectors, or show the fault whose turn it is."""
        visit = _Visit(request, wire)
        if (refused := self._unauthorized(visit)) is not None:
            return refused
        try:
            asked = wire.texts(await request.json(), model)
            fault = self._fault(visit, "\n".join(asked.texts), asked.model)
        except UNREADABLE as error:
            return self._turn_away(visit, Problem(400, f"not a request for vectors: {error}"))
        await self._wait(fault)
        problem = self._problem(fault)
        status = self._status(problem, fault)
        self._note(
            visit,
            status,
            fault,
            model=asked.model,
            response_format=asked.kind,
            prompt_tokens=sum(tokens(text) for text in asked.texts),
            prompt="\n".join(asked.texts),
            texts=len(asked.texts),
        )
        if problem is not None:
            return visit.refused(problem, self._retry_after(fault))
        return visit.answered(wire.vectors(asked, embed(asked))) if status else DroppedResponse()

    def _unauthorized(self, visit: _Visit) -> Response | None:
        if self._api_key is None or visit.key == self._api_key:
            return None
        return self._turn_away(visit, _FAULTS[Fault.REFUSED_KEY])

    def _turn_away(self, visit: _Visit, problem: Problem) -> Response:
        """Refuse a request that is not read further, and note that it came."""
        self._count += 1
        self._note(visit, problem.status, None, model="", answer=problem.message)
        return visit.refused(problem)

    def _fault(self, visit: _Visit, prompt: str, model: str) -> Fault | None:
        """Return what happens to a request, and note what its answer says of limits."""
        plan, path = self.faults.plan, visit.request.url.path
        meter = self._meters[path, model]
        wait = meter.enter(plan, tokens(prompt))
        visit.headers |= meter.headers(plan, path)
        if wait is not None:
            visit.headers["Retry-After"] = f"{wait:.3f}"
            return Fault.RATE_LIMITED
        wished = visit.request.headers.get("X-Fault")
        return Fault(wished) if wished else self.faults.draw(prompt, path)

    async def _wait(self, fault: Fault | None, written: int = 0) -> None:
        plan = self.faults.plan
        wait = plan.slow_ms if fault is Fault.SLOW else plan.latency_ms + plan.token_ms * written
        await asyncio.sleep(wait / 1_000)
        self._count += 1

    def _problem(self, fault: Fault | None) -> Problem | None:
        return _FAULTS.get(fault) if fault else None

    def _status(self, problem: Problem | None, fault: Fault | None) -> int:
        """Return the status of the answer; 0 for a connection that is dropped."""
        if problem is not None:
            return problem.status
        return 0 if fault is Fault.DROPPED else 200

    def _not_known(self, question: Question) -> Problem | None:
        how = question.response_format
        if how not in RESPONSE_FORMATS or how in self._knows:
            return None
        return Problem(400, _NOT_KNOWN.get(how, f"response_format '{how}' is not supported"))

    def _retry_after(self, fault: Fault | None) -> dict[str, str]:
        plan = self.faults.plan
        if plan.retry_after is None or fault is not Fault.RATE_LIMITED:
            return {}
        if plan.retry_date:
            return {"Retry-After": formatdate(time.time() + plan.retry_after, usegmt=True)}
        return {"Retry-After": f"{plan.retry_after:g}"}

    def _write(self, question: Question, fault: Fault | None) -> Written:
        content, finish_reason = "ok", "stop"
        if question.schema:
            content, finish_reason = spoil(fault, self._answer(question), question.schema)
        if question.max_tokens and tokens(content) > question.max_tokens:
            content = content[: question.max_tokens * CHARACTERS_PER_TOKEN]
            finish_reason = "length"
        cached = self._cache.enter(question.model, question.whole)
        return Written(content, finish_reason, cached)

    def _answer(self, question: Question) -> dict[str, Any]:
        if question.schema_name == "ImageDescription":
            return described(question.images)
        return self._answerer.answer(question.schema_name, question.schema, question.text)

    def _note(self, visit: _Visit, status: int, fault: Fault | None, **more: Any) -> None:
        entry = Entry(
            number=self._count,
            path=visit.request.url.path,
            status=status,
            fault=fault.value if fault else None,
            authorized=visit.key is not None,
            at=visit.came,
            **more,
        )
        self.log.append(entry)


class _Visit:
    """A request, its format and when it came."""

    def __init__(self, request: Request, wire: WireFormat) -> None:
        self.request = request
        self.wire = wire
        self.came = time.monotonic()
        self.headers: dict[str, str] = {}

    @property
    def key(self) -> str | None:
        """The key that it carries."""
        return self.wire.key(self.request.headers)

    def refused(self, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
        """Return the refusal."""
        told = {**(headers or {}), **self.headers}
        return JSONResponse(self.wire.problem(problem), problem.status, told)

    def answered(self, body: Any) -> Response:
        """Return the answer."""
        return JSONResponse(body, headers=self.headers)


class DroppedResponse(Response):
    """A response whose connection ends before its body does."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Promise more than is sent; the server then closes the connection."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"id": "', "more_body": True})
