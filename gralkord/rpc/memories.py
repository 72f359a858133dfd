"""Operations on single memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gralkord.models.memories import (
    ChangeResult,
    HistoryQuery,
    InvalidateRequest,
    MemoryHistory,
    MemoryQuery,
    ReactivateRequest,
    StoredMemory,
    UndoRequest,
)
from gralkord.rpc.bodies import read_body
from gralkord.rpc.queries import query_parameters, read_query
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gralkord.rpc.services import Services

MemoryId = Annotated[str, Path(description="Id of a passage or a fact, as recall tells it.")]


class Memories(Protocol):
    """The operations on single memories, as the daemon has them."""

    async def show(self, tenant: str, memory: str, query: MemoryQuery) -> StoredMemory:
        """Return all that is known of one memory."""
        ...

    async def history(self, tenant: str, memory: str, query: HistoryQuery) -> MemoryHistory:
        """Return where a memory comes from and what became of it."""
        ...

    async def invalidate(self, tenant: str, request: InvalidateRequest) -> ChangeResult:
        """Say that memories do not hold any more."""
        ...

    async def reactivate(self, tenant: str, request: ReactivateRequest) -> ChangeResult:
        """Say that memories hold after all."""
        ...

    async def undo(self, tenant: str, request: UndoRequest) -> MemoryHistory:
        """Say that a fact was not superseded."""
        ...


def add_memories(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations on single memories to *router*."""

    @router.get(
        "/memories/{memory}",
        response_model=StoredMemory,
        openapi_extra=query_parameters(MemoryQuery),
    )
    async def show(memory: MemoryId, request: Request) -> Response:
        """Return all that is known of one memory. Its words are untrusted data."""
        query = read_query(request, MemoryQuery)
        return _answer(await services.memories.show(tenant, memory, query))

    @router.get(
        "/memories/{memory}/history",
        response_model=MemoryHistory,
        openapi_extra=query_parameters(HistoryQuery),
    )
    async def history(memory: MemoryId, request: Request) -> Response:
        """Return where a memory comes from and what became of it."""
        query = read_query(request, HistoryQuery)
        return _answer(await services.memories.history(tenant, memory, query))

    @router.post(
        "/memories/invalidate",
        response_model=ChangeResult,
        openapi_extra=json_body("InvalidateRequest"),
    )
    async def invalidate(request: Request) -> Response:
        """Say that memories do not hold any more: these, or all of a source.

        They are hidden from then on, also when the same turns or facts come again.
        """
        body = await read_body(request, InvalidateRequest)
        return _answer(await services.memories.invalidate(tenant, body))

    @router.post(
        "/memories/reactivate",
        response_model=ChangeResult,
        openapi_extra=json_body("ReactivateRequest"),
    )
    async def reactivate(request: Request) -> Response:
        """Say that memories hold after all: these, or all of a source."""
        body = await read_body(request, ReactivateRequest)
        return _answer(await services.memories.reactivate(tenant, body))

    @router.post(
        "/memories/undo", response_model=MemoryHistory, openapi_extra=json_body("UndoRequest")
    )
    async def undo(request: Request) -> Response:
        """Say that a fact was not ended by the one that was found to end it."""
        body = await read_body(request, UndoRequest)
        return _answer(await services.memories.undo(tenant, body))


def _answer(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")
