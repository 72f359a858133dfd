"""A model server for tests and demos: OpenAI's wire format, answers by rule, faults on request.

A real HTTP server, so that what is tested against it is the real client. It serves

- ``POST /v1/chat/completions``: an answer for each response model of Graphiti, see
  :mod:`gralkord.testing.answers`; the header ``X-Fault`` asks for a fault in this one answer;
- ``POST /v1/embeddings``, ``GET /v1/models``;
- ``GET /requests`` (``?contents=true`` adds the texts), ``DELETE /requests``: the log;
- ``GET /faults``, ``POST /faults``, ``DELETE /faults``: the plan of faults.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import deque
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final, Self

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from gralkord.errors import StartError
from gralkord.testing.answers import Answerer
from gralkord.testing.faults import Fault, FaultPlan, Faults, spoil
from gralkord.testing.replay import Replay
from gralkord.testing.wire import (
    CHARACTERS_PER_TOKEN,
    MODEL,
    Entry,
    Question,
    completion,
    embeddings,
    problem,
    tokens,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from starlette.types import Receive, Scope, Send

LOG_ENTRIES: Final = 10_000
STOP_SECONDS: Final = 10


class ModelService:
    """What the server knows: its replay, its faults, its log."""

    def __init__(
        self,
        *,
        replay: Replay,
        faults: FaultPlan,
        api_key: str | None,
        json_schema: bool,
        watch: Callable[[str], None] | None = None,
    ) -> None:
        self._answerer = Answerer(replay)
        self._api_key = api_key
        self._json_schema = json_schema
        self._count = 0
        self._watch = watch
        self.faults = Faults(faults)
        self.log: deque[Entry] = deque(maxlen=LOG_ENTRIES)

    async def chat(self, request: Request) -> Response:
        """Answer a chat completion, or show the fault whose turn it is."""
        refused = self._unauthorized(request)
        if refused is not None:
            return refused
        try:
            question = Question.read(await request.json())
            wished = request.headers.get("X-Fault")
            fault = Fault(wished) if wished else self.faults.draw(question.text)
        except (ValueError, AttributeError) as error:
            return JSONResponse(problem(f"not a chat completion: {error}"), 400)
        came = time.monotonic()
        if self._watch is not None:
            self._watch(question.text)
        plan = self.faults.plan
        await asyncio.sleep((plan.slow_ms if fault is Fault.SLOW else plan.latency_ms) / 1_000)
        self._count += 1
        refused = self._refusal(question, fault)
        if refused is not None:
            self._note(request, question, refused.status_code, fault, "", came)
            return refused
        content, finish_reason = self._write(question, fault)
        dropped = fault is Fault.DROPPED
        self._note(request, question, 0 if dropped else 200, fault, content, came)
        body = completion(question, content, finish_reason, self._count)
        return DroppedResponse() if dropped else JSONResponse(body)

    async def embed(self, request: Request) -> Response:
        """Answer an embeddings request."""
        refused = self._unauthorized(request)
        if refused is not None:
            return refused
        try:
            return JSONResponse(embeddings(await request.json()))
        except (ValueError, AttributeError) as error:
            return JSONResponse(problem(f"not an embeddings request: {error}"), 400)

    def _unauthorized(self, request: Request) -> Response | None:
        given = request.headers.get("Authorization")
        if self._api_key is None or given == f"Bearer {self._api_key}":
            return None
        return JSONResponse(problem("wrong key", code="invalid_api_key"), 401)

    def _refusal(self, question: Question, fault: Fault | None) -> Response | None:
        if fault is Fault.RATE_LIMITED:
            body = problem("slow down", kind="rate_limit_error", code="rate_limit_exceeded")
            return JSONResponse(body, 429, self._retry_after())
        if fault is Fault.SERVER_ERROR:
            return JSONResponse(problem("out of order", kind="server_error"), 500)
        if fault is Fault.REFUSED_KEY:
            return JSONResponse(problem("wrong key", code="invalid_api_key"), 401)
        if fault is Fault.REFUSED:
            return JSONResponse(problem("not acceptable", code="content_policy_violation"), 400)
        if question.response_format == "json_schema" and not self._json_schema:
            return JSONResponse(problem("response_format 'json_schema' is not supported"), 400)
        return None

    def _retry_after(self) -> dict[str, str]:
        plan = self.faults.plan
        if plan.retry_after is None:
            return {}
        if plan.retry_date:
            return {"Retry-After": formatdate(time.time() + plan.retry_after, usegmt=True)}
        return {"Retry-After": f"{plan.retry_after:g}"}

    def _write(self, question: Question, fault: Fault | None) -> tuple[str, str]:
        if question.schema:
            answer = self._answerer.answer(question.schema_name, question.schema, question.text)
            content, finish_reason = spoil(fault, answer, question.schema)
        else:
            content, finish_reason = "ok", "stop"
        if question.max_tokens and tokens(content) > question.max_tokens:
            return content[: question.max_tokens * CHARACTERS_PER_TOKEN], "length"
        return content, finish_reason

    def _note(
        self,
        request: Request,
        question: Question,
        status: int,
        fault: Fault | None,
        answer: str,
        came: float,
    ) -> None:
        self.log.append(
            Entry(
                number=self._count,
                path=request.url.path,
                model=question.model,
                schema=question.schema_name,
                response_format=question.response_format,
                status=status,
                fault=fault.value if fault else None,
                authorized="Authorization" in request.headers,
                prompt_tokens=tokens(question.text),
                completion_tokens=tokens(answer),
                prompt=question.text,
                answer=answer,
                at=came,
            )
        )


class DroppedResponse(Response):
    """A response whose connection ends before its body does."""

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Promise more than is sent; the server then closes the connection."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"id": "', "more_body": True})


def create_app(service: ModelService) -> FastAPI:
    """Return the HTTP application over *service*."""
    app = FastAPI(title="gralkord scripted model server", openapi_url=None)
    app.add_api_route("/v1/chat/completions", service.chat, methods=["POST"])
    app.add_api_route("/v1/embeddings", service.embed, methods=["POST"])

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "gralkord"}
        return {"object": "list", "data": [model]}

    @app.get("/requests")
    async def requests(*, contents: bool = False) -> list[dict[str, Any]]:
        return [entry.to_dict(contents=contents) for entry in service.log]

    @app.delete("/requests", status_code=204)
    async def forget() -> None:
        service.log.clear()

    @app.get("/faults")
    async def plan() -> FaultPlan:
        return service.faults.plan

    @app.post("/faults")
    async def set_plan(wanted: FaultPlan) -> FaultPlan:
        service.faults = Faults(wanted)
        return wanted

    @app.delete("/faults", status_code=204)
    async def no_faults() -> None:
        service.faults = Faults(FaultPlan())

    return app


class ScriptedModelServer:
    """The server in a thread of this process, or alone in the foreground.

    ::

        with ScriptedModelServer(faults=FaultPlan(latency_ms=50)) as server:
            spec = f"openai-compatible:scripted@{server.url}"
    """

    def __init__(
        self,
        *,
        replay: Replay | None = None,
        faults: FaultPlan | None = None,
        api_key: str | None = None,
        json_schema: bool = True,
        host: str = "127.0.0.1",
        port: int = 0,
        watch: Callable[[str], None] | None = None,
    ) -> None:
        """Take the port; requests wait in its backlog until the server runs.

        Args:
            replay: Recorded facts, which win over the rules.
            faults: The plan of faults to begin with.
            api_key: If given, requests must carry it.
            json_schema: Whether the server knows this response format.
            host: Where to listen.
            port: 0 takes a free one.
            watch: Called with each prompt before it is answered, on the server's thread.

        Raises:
            StartError: The port is taken.
        """
        self._service = ModelService(
            replay=replay or Replay.empty(),
            faults=faults or FaultPlan(),
            api_key=api_key,
            json_schema=json_schema,
            watch=watch,
        )
        self._socket = _listen(host, port)
        config = uvicorn.Config(
            create_app(self._service),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            timeout_graceful_shutdown=STOP_SECONDS // 5,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL, as it stands in a model spec."""
        return f"{self.root}/v1"

    @property
    def root(self) -> str:
        """The address without a path."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def spec(self) -> str:
        """The model spec that reaches this server."""
        return f"openai-compatible:{MODEL}@{self.url}"

    @property
    def requests(self) -> list[Entry]:
        """The log so far, oldest first."""
        return list(self._service.log)

    def set_faults(self, plan: FaultPlan) -> None:
        """Replace the plan of faults."""
        self._service.faults = Faults(plan)

    def run(self) -> None:
        """Serve in this thread until SIGINT or SIGTERM."""
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run, name="scripted-model", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
        self._socket.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be named: only then does asyncio switch Nagle's algorithm off, which costs
    # 40 ms an answer.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise StartError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    listener.listen(128)
    return listener
