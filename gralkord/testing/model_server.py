"""A model server for tests and demos: every provider's wire format, answers by rule, faults.

A real HTTP server, so that what is tested against it is the real client. It serves

- answers to prompts, with or without a schema, and vectors, as each provider has them, see
  :mod:`gralkord.testing.routes`; answers to the response models of Graphiti and of gralkord are
  worked out by rule, see :mod:`gralkord.testing.answers`; the header ``X-Fault`` asks for a fault
  in this one answer;
- ``GET /requests`` (``?contents=true`` adds the texts), ``DELETE /requests``: the log;
- ``GET /faults``, ``POST /faults``, ``DELETE /faults``: the plan of faults.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, Final, Self

import uvicorn
from fastapi import FastAPI

from gralkord.errors import StartError
from gralkord.testing.faults import FaultPlan, Faults
from gralkord.testing.replay import Replay
from gralkord.testing.routes import add_models
from gralkord.testing.service import RESPONSE_FORMATS, ModelService
from gralkord.testing.wire import MODEL, Entry

STOP_SECONDS: Final = 10


def create_app(service: ModelService) -> FastAPI:
    """Return the HTTP application over *service*."""
    app = FastAPI(title="gralkord scripted model server", openapi_url=None)
    add_models(app, service)

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
        without: Collection[str] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        watch: Callable[[str], None] | None = None,
    ) -> None:
        """Take the port; requests wait in its backlog until the server runs.

        Args:
            replay: Recorded facts, which win over the rules.
            faults: The plan of faults to begin with.
            api_key: If given, requests must carry it.
            without: Ways to ask for a schema that the server does not know: ``json_schema``,
                ``tools``, ``json_object``.
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
            knows=[how for how in RESPONSE_FORMATS if how not in without],
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

    def spec_of(self, provider: str, model: str = MODEL) -> str:
        """Return the spec that reaches this server as if it were *provider*."""
        bases = {"google": f"{self.root}/v1beta", "ollama": self.root}
        return f"{provider}:{model}@{bases.get(provider, self.url)}"

    @property
    def specs(self) -> dict[str, str]:
        """The spec by provider, as if the server were each of them."""
        names = ("openai", "openai-compatible", "anthropic", "google", "ollama")
        return {name: self.spec_of(name) for name in names}

    @property
    def requests(self) -> list[Entry]:
        """The log so far, oldest first."""
        return list(self._service.log)

    def forget(self) -> None:
        """Begin the log anew."""
        self._service.log.clear()

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
