"""The check of what is in memory against the graph, as a stream of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from gralkord.models.reindex import GroupIndex, ReindexRequest
from gralkord.rpc.bodies import read_body
from gralkord.rpc.lines import described, line_response
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gralkord.rpc.services import Services

_LINES: Final = described(
    "A line for each group when it is done, with `operator`, `lens`, `rows`, `vectors`, "
    "`embedder`, `usable`, `different`, `differences` and `left`."
)


class Reindex(Protocol):
    """The check of what is in memory, as the daemon has it."""

    def run(self, tenant: str, request: ReindexRequest) -> AsyncGenerator[GroupIndex]:
        """Yield what was found in each group."""
        ...


def add_reindex(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the check of what is in memory to *router*."""

    @router.post(
        "/reindex",
        response_class=StreamingResponse,
        responses=_LINES,
        openapi_extra=json_body("ReindexRequest", required=False),
    )
    async def reindex(request: Request) -> Response:
        """Compare what is in memory with the graph, row by row, and read it anew."""
        wanted = ReindexRequest()
        if await request.body():
            wanted = await read_body(request, ReindexRequest)
        return await line_response(services.reindex.run(tenant, wanted))
