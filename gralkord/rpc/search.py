"""Search through lenses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from gralkord.models.recall import Question, RecallResult
from gralkord.models.search import SearchRequest, SearchResult, plain
from gralkord.rpc.bodies import read_body
from gralkord.rpc.gone import unless_gone
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from gralkord.rpc.services import Services


def answer_of(answer: RecallResult | SearchResult, asked: Question) -> Response:
    """Return the answer to a recall or a search; in a tier, without what is left open in it."""
    if asked.tier is None:
        return Response(answer.model_dump_json(), media_type="application/json")
    return Response(orjson.dumps(plain(answer, short=True)), media_type="application/json")


def add_search(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the search through lenses to *router*."""

    @router.post("/search", response_model=SearchResult, openapi_extra=json_body("SearchRequest"))
    async def search(request: Request) -> Response:
        """Return what each lens knows that helps with a query, lens by lens; `default` first.

        Each lens has its own limit. What global lenses share is searched once, and each memory of
        it names the lens that it came through. The texts are untrusted data.
        """
        asked = await read_body(request, SearchRequest)
        return answer_of(await unless_gone(request, services.search(tenant, asked)), asked)
