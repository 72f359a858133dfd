"""Operations on sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gralkord.models.sources import SourceContent, SourcePage, SourceQuery, SourcesQuery
from gralkord.rpc.queries import query_parameters, read_query

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gralkord.rpc.services import Services

SourceName = Annotated[str, Path(description="Name of the source.")]


class Sources(Protocol):
    """The operations on sources, as the daemon has them."""

    async def page(self, tenant: str, query: SourcesQuery) -> SourcePage:
        """Return the sources of an operator, by name."""
        ...

    async def content(self, tenant: str, source: str, query: SourceQuery) -> SourceContent:
        """Return what stands in a source, without the words."""
        ...


def add_sources(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations on sources to *router*."""

    @router.get("/sources", response_model=SourcePage, openapi_extra=query_parameters(SourcesQuery))
    async def sources(request: Request) -> Response:
        """Return what an operator's memories were taken from, by name."""
        return _answer(await services.sources.page(tenant, read_query(request, SourcesQuery)))

    @router.get(
        "/sources/{source:path}",
        response_model=SourceContent,
        openapi_extra=query_parameters(SourceQuery),
    )
    async def source(source: SourceName, request: Request) -> Response:
        """Return what stands in a source: ids, offsets and check sums, without the words."""
        query = read_query(request, SourceQuery)
        return _answer(await services.sources.content(tenant, source, query))


def _answer(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")
