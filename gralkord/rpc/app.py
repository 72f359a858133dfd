"""The HTTP app: every operation of the daemon under ``/v1``, health beside it."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson
from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from gralkord import __version__
from gralkord.errors import GralkorError, QueueFull
from gralkord.groups import DEFAULT_TENANT
from gralkord.models import (
    Capture,
    CaptureReceipt,
    FlushRequest,
    FlushResult,
    RecallRequest,
    RecallResult,
)
from gralkord.models.admin import CommunitiesRequest, StopCommunities
from gralkord.models.erasure import EraseRequest
from gralkord.models.generalisations import GeneralisationsRequest, GeneraliseRequest
from gralkord.models.ingest import Ingest, MemoryAddRequest
from gralkord.models.letters import DeadSelection
from gralkord.models.memories import InvalidateRequest, ReactivateRequest, UndoRequest
from gralkord.models.observe import ObserveRequest
from gralkord.models.records import AddMemoryRequest, UpdateMemoryRequest
from gralkord.models.reembed import ReembedRequest
from gralkord.models.reindex import ReindexRequest
from gralkord.models.search import SearchRequest
from gralkord.models.transfer import ImportRows
from gralkord.models.triples import TriplesRequest
from gralkord.rpc import reference
from gralkord.rpc.admin import add_admin
from gralkord.rpc.auth import MAX_BODY_BYTES, Gate, Policy
from gralkord.rpc.bodies import (
    BackfillRequest,
    BatchResult,
    CaptureBatch,
    Incoming,
    read_batch,
    read_body,
    read_capture,
)
from gralkord.rpc.costs import add_costs, metrics_router
from gralkord.rpc.dead import add_dead
from gralkord.rpc.erasure import add_erasure
from gralkord.rpc.errors import (
    ErrorAnswer,
    answer_error,
    answer_http_exception,
    error_content,
)
from gralkord.rpc.generalise import add_generalisations
from gralkord.rpc.gone import unless_gone
from gralkord.rpc.ingest import add_ingest
from gralkord.rpc.jobs import add_jobs
from gralkord.rpc.memories import add_memories
from gralkord.rpc.observe import add_observe
from gralkord.rpc.records import add_records
from gralkord.rpc.reembed import add_reembed
from gralkord.rpc.reindex import add_reindex
from gralkord.rpc.results import add_results
from gralkord.rpc.search import add_search, answer_of
from gralkord.rpc.sources import add_sources
from gralkord.rpc.trace import Trace
from gralkord.rpc.transfer import add_transfer
from gralkord.rpc.triples import add_triples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from gralkord.rpc.services import Services


_BODIES: Final = (
    Capture,
    CaptureBatch,
    Ingest,
    MemoryAddRequest,
    FlushRequest,
    RecallRequest,
    SearchRequest,
    BackfillRequest,
    DeadSelection,
    EraseRequest,
    InvalidateRequest,
    ReactivateRequest,
    UndoRequest,
    AddMemoryRequest,
    UpdateMemoryRequest,
    ObserveRequest,
    ImportRows,
    ReembedRequest,
    ReindexRequest,
    CommunitiesRequest,
    StopCommunities,
    TriplesRequest,
    GeneraliseRequest,
    GeneralisationsRequest,
)

_ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": ErrorAnswer, "description": "The request is refused."},
    "5XX": {"model": ErrorAnswer, "description": "The daemon cannot answer for now."},
}


def create_app(
    services: Services,
    *,
    token: str,
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    tenant: str = DEFAULT_TENANT,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> FastAPI:
    """Return the HTTP app over *services*.

    Args:
        services: The daemon.
        token: The secret that requests have to carry.
        allowed_hosts: Host names besides the loopback ones.
        allowed_origins: Web origins besides the daemon's own.
        tenant: The tenant that the token belongs to.
        max_body_bytes: Largest body of a request.
    """
    app = FastAPI(
        title="gralkord",
        version=__version__,
        description="Long-term memory daemon for AI agents.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.include_router(_health(services))
    app.include_router(_operations(services, tenant))
    app.include_router(metrics_router(services, tenant))
    _add_reference(app)
    app.add_exception_handler(GralkorError, answer_error)
    app.add_exception_handler(HTTPException, answer_http_exception)
    policy = Policy(
        token=token,
        allowed_hosts=frozenset(name.lower() for name in allowed_hosts),
        allowed_origins=frozenset(allowed_origins),
        max_body_bytes=max_body_bytes,
    )
    app.add_middleware(Gate, policy=policy)
    app.add_middleware(Trace)
    return app


def _operations(services: Services, tenant: str) -> APIRouter:
    router = APIRouter(prefix="/v1", responses=_ERRORS)
    _add_capture(router, services, tenant)

    @router.post(
        "/flush", response_model=FlushResult, openapi_extra=reference.json_body("FlushRequest")
    )
    async def flush(request: Request) -> Response:
        """Hand a session's buffered turns over to be understood; wait for it if asked."""
        return _model(await services.flush(tenant, await read_body(request, FlushRequest)))

    @router.post(
        "/recall", response_model=RecallResult, openapi_extra=reference.json_body("RecallRequest")
    )
    async def recall(request: Request) -> Response:
        """Return the memories that help with a query. Their texts are untrusted data."""
        asked = await read_body(request, RecallRequest)
        return answer_of(await unless_gone(request, services.recall(tenant, asked)), asked)

    @router.post("/backfill", openapi_extra=reference.json_body("BackfillRequest", required=False))
    async def backfill(request: Request) -> Response:
        """Queue the passages that were never understood, of one operator or of all."""
        operator = None
        if await request.body():
            operator = (await read_body(request, BackfillRequest)).operator
        return _json(await services.backfill(tenant, operator), HTTPStatus.ACCEPTED)

    @router.get("/status")
    async def status() -> Response:
        """Return what runs where, and how much waits."""
        return _json(await services.status(tenant))

    add_search(router, services, tenant)
    add_ingest(router, services, tenant)
    add_jobs(router, services, tenant)
    add_dead(router, services, tenant)
    add_records(router, services, tenant)
    add_observe(router, services, tenant)
    add_memories(router, services, tenant)
    add_sources(router, services, tenant)
    add_results(router, services, tenant)
    add_triples(router, services, tenant)
    add_generalisations(router, services, tenant)
    add_transfer(router, services, tenant)
    add_reindex(router, services, tenant)
    add_reembed(router, services, tenant)
    add_admin(router, services, tenant)
    add_erasure(router, services, tenant)
    add_costs(router, services, tenant)
    return router


def _add_capture(router: APIRouter, services: Services, tenant: str) -> None:
    @router.post(
        "/capture",
        status_code=HTTPStatus.ACCEPTED,
        response_model=CaptureReceipt,
        openapi_extra=reference.json_body("Capture") | reference.IDEMPOTENCY_KEY,
    )
    async def capture(request: Request) -> Response:
        """Store one turn. Once answered it is not lost, and it will become recallable."""
        incoming = await read_capture(request)
        [outcome] = await services.capture(tenant, [incoming.capture])
        if isinstance(outcome, GralkorError):
            raise outcome
        return _model(_noted(outcome, incoming), HTTPStatus.ACCEPTED)

    @router.post(
        "/captures",
        response_model=BatchResult,
        openapi_extra=reference.json_body("CaptureBatch") | reference.IDEMPOTENCY_KEY,
    )
    async def captures(request: Request) -> Response:
        """Store up to 100 turns, in their order. One that is refused does not hinder the others.

        When the queue is full for all of them, that is the answer.
        """
        items = await read_batch(request)
        good = [item for item in items if isinstance(item, Incoming)]
        taken = await services.capture(tenant, [item.capture for item in good]) if good else []
        full = [one for one in taken if isinstance(one, QueueFull)]
        if len(full) == len(items):  # nothing else to tell, so the client may simply come again
            raise max(full, key=lambda one: one.retry_after or 0)
        outcomes = iter(zip(taken, good, strict=True))
        results: list[dict[str, Any]] = []
        for index, item in enumerate(items):
            outcome, incoming = next(outcomes) if isinstance(item, Incoming) else (item, None)
            if isinstance(outcome, GralkorError):
                results.append({"index": index, "error": error_content(outcome)})
            else:
                assert incoming is not None
                receipt = _noted(outcome, incoming).model_dump()
                results.append({"index": index, "receipt": receipt})
        accepted = sum("receipt" in result for result in results)
        return _json({"accepted": accepted, "results": results})


def _health(services: Services) -> APIRouter:
    router = APIRouter()

    @router.get("/healthz")
    async def healthz() -> Response:
        """Say that the process answers; asks no back end."""
        return _json({"alive": True, "version": __version__})

    @router.get("/readyz", responses={503: {"description": "Captures cannot be stored now."}})
    async def readyz() -> Response:
        """Say whether captures can be stored: 200 if so, else 503."""
        try:
            state = await services.ready()
        except GralkorError as error:
            state = {"ready": False, "parts": {}, "error": error_content(error)}
        return _json(state, HTTPStatus.OK if state["ready"] else HTTPStatus.SERVICE_UNAVAILABLE)

    return router


def _add_reference(app: FastAPI) -> None:
    @cache
    def document() -> dict[str, Any]:
        return reference.schema(app, _BODIES)

    # What FastAPI makes by itself lacks the bodies.
    app.openapi = document  # type: ignore[method-assign]

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return _json(document())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(reference.page(document()), headers=reference.PAGE_HEADERS)


def _noted(receipt: CaptureReceipt, incoming: Incoming) -> CaptureReceipt:
    if not incoming.notes:
        return receipt
    return receipt.model_copy(update={"notes": [*receipt.notes, *incoming.notes]})


def _model(answer: BaseModel, status: int = HTTPStatus.OK) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")


def _json(answer: dict[str, Any], status: int = HTTPStatus.OK) -> Response:
    return Response(orjson.dumps(answer), status, media_type="application/json")
