"""The move of memories to another embedder, as a stream of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from gralkord.models.reembed import GroupMove, ReembedRequest
from gralkord.rpc.bodies import read_body
from gralkord.rpc.lines import described, line_response
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gralkord.rpc.services import Services

_LINES: Final = described(
    "A line for each group when it begins, with `operator`, `lens`, `moves`, `before`, `rows`, "
    "`tokens` and `usd`; then lines with how many are `embedded`, `done` false until the last."
)


class Reembed(Protocol):
    """The move to another embedder, as the daemon has it."""

    def run(self, tenant: str, request: ReembedRequest) -> AsyncGenerator[GroupMove]:
        """Yield what is done with each group, and how far it is while that takes long."""
        ...


def add_reembed(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the move to another embedder to *router*."""

    @router.post(
        "/reembed",
        response_class=StreamingResponse,
        responses=_LINES,
        openapi_extra=json_body("ReembedRequest", required=False),
    )
    async def reembed(request: Request) -> Response:
        """Move memories to the daemon's embedder while they are used, or count what that takes."""
        wanted = ReembedRequest()
        if await request.body():
            wanted = await read_body(request, ReembedRequest)
        return await line_response(services.reembed.run(tenant, wanted))
