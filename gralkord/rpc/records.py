"""Operations on memories that are told outright."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Protocol

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gralkord.models.records import (
    AddMemoryRequest,
    MemoriesQuery,
    MemoryPage,
    MemoryResult,
    UpdateMemoryRequest,
)
from gralkord.rpc.bodies import idempotency_key, read_body
from gralkord.rpc.queries import query_parameters, read_query
from gralkord.rpc.reference import IDEMPOTENCY_KEY, json_body

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gralkord.rpc.services import Services

MemoryId = Annotated[str, Path(description="Id of a memory.")]


class Records(Protocol):
    """The operations on memories that are told outright, as the daemon has them."""

    async def add(self, tenant: str, request: AddMemoryRequest) -> MemoryResult:
        """Remember something as it is told."""
        ...

    async def update(self, tenant: str, memory: str, request: UpdateMemoryRequest) -> MemoryResult:
        """Change a memory."""
        ...

    async def page(self, tenant: str, query: MemoriesQuery) -> MemoryPage:
        """Return memories of an operator."""
        ...


def add_records(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations on memories that are told outright to *router*."""

    @router.post(
        "/memories",
        response_model=MemoryResult,
        responses={202: {"model": MemoryResult, "description": "It will be written."}},
        openapi_extra=json_body("AddMemoryRequest") | IDEMPOTENCY_KEY,
    )
    async def add(request: Request) -> Response:
        """Remember something as it is told; no model is asked. The same id is added once."""
        body = await read_body(request, AddMemoryRequest)
        if body.id is None and (key := idempotency_key(request)):
            body = body.model_copy(update={"id": key})
        return _done(await services.records.add(tenant, body))

    @router.patch(
        "/memories/{memory}",
        response_model=MemoryResult,
        responses={202: {"model": MemoryResult, "description": "It will be changed."}},
        openapi_extra=json_body("UpdateMemoryRequest") | IDEMPOTENCY_KEY,
    )
    async def update(memory: MemoryId, request: Request) -> Response:
        """Change a memory. Other words make a new one, which takes its place and can be undone."""
        body = await read_body(request, UpdateMemoryRequest)
        if body.id is None and (key := idempotency_key(request)):
            body = body.model_copy(update={"id": key})
        return _done(await services.records.update(tenant, memory, body))

    @router.get(
        "/memories", response_model=MemoryPage, openapi_extra=query_parameters(MemoriesQuery)
    )
    async def page(request: Request) -> Response:
        """Return memories that were told outright or observed. Their words are untrusted data."""
        return _answer(await services.records.page(tenant, read_query(request, MemoriesQuery)))


def _done(result: MemoryResult) -> Response:
    return _answer(result, HTTPStatus.OK if result.complete else HTTPStatus.ACCEPTED)


def _answer(answer: BaseModel, status: int = HTTPStatus.OK) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")
