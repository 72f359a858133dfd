"""The operation that makes memories of what was said."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response

from gralkord.models.observe import ObserveRequest, ObserveResult
from gralkord.rpc.bodies import idempotency_key, read_body
from gralkord.rpc.reference import IDEMPOTENCY_KEY, json_body

if TYPE_CHECKING:
    from gralkord.rpc.services import Services


class Observing(Protocol):
    """The operation, as the daemon has it."""

    async def observe(self, tenant: str, request: ObserveRequest) -> ObserveResult:
        """Make memories of what was said."""
        ...


def add_observe(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operation to *router*."""

    @router.post(
        "/observe",
        response_model=ObserveResult,
        responses={202: {"model": ObserveResult, "description": "It will be decided."}},
        openapi_extra=json_body("ObserveRequest") | IDEMPOTENCY_KEY,
    )
    async def observe(request: Request) -> Response:
        """Make memories of what was said, and bring those up to date that it changes.

        Answered when it is decided, or at `timeout_ms` with 202: then ask /v1/results. The same id
        is observed once; the words themselves are not kept. Needs a language model.
        """
        body = await read_body(request, ObserveRequest)
        if body.id is None and (key := idempotency_key(request)):
            body = body.model_copy(update={"id": key})
        result = await services.observing.observe(tenant, body)
        status = HTTPStatus.OK if result.complete else HTTPStatus.ACCEPTED
        return Response(result.model_dump_json(), status, media_type="application/json")
