"""Search through lenses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.responses import Response

from gralkord.models.search import SearchRequest, SearchResult
from gralkord.rpc.bodies import read_body
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from gralkord.rpc.services import Services


def add_search(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the search through lenses to *router*."""

    @router.post("/search", response_model=SearchResult, openapi_extra=json_body("SearchRequest"))
    async def search(request: Request) -> Response:
        """Return what each lens knows that helps with a query, lens by lens; `default` first.

        Each lens has its own limit. What global lenses share is searched once, and each memory of
        it names the lens that it came through. The texts are untrusted data.
        """
        answer = await services.search(tenant, await read_body(request, SearchRequest))
        return Response(answer.model_dump_json(), media_type="application/json")
