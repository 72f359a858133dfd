"""The check of what is in memory against the graph, as a stream of lines."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from gralkord.errors import GralkorError
from gralkord.models.reindex import GroupIndex, ReindexRequest
from gralkord.rpc.bodies import read_body
from gralkord.rpc.errors import error_content
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gralkord.rpc.services import Services

MEDIA_TYPE: Final = "application/x-ndjson"

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A line for each group when it is done, with `operator`, `lens`, `rows`, "
        "`vectors`, `embedder`, `usable`, `different`, `differences`, `left` and `embedded`; lines "
        'with `done` false tell how far it is. The last one is `{"end": true}`, or has an `error`.',
        "content": {MEDIA_TYPE: {}},
    }
}


class Reindex(Protocol):
    """The check of what is in memory, as the daemon has it."""

    def run(self, tenant: str, request: ReindexRequest) -> AsyncGenerator[GroupIndex]:
        """Yield what was found in each group, and how far it is while that takes long."""
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
        found = services.reindex.run(tenant, wanted)
        first = await anext(found, None)  # so that a refusal is still an answer of its own
        return StreamingResponse(_body(first, found), headers=_HEADERS, media_type=MEDIA_TYPE)


async def _body(
    first: GroupIndex | None, found: AsyncGenerator[GroupIndex]
) -> AsyncGenerator[bytes]:
    async with aclosing(found):
        if first is not None:
            yield _line(first)
        try:
            async for group in found:
                yield _line(group)
        except GralkorError as error:
            yield orjson.dumps({"error": error_content(error)}) + b"\n"
        else:
            yield b'{"end":true}\n'


def _line(group: GroupIndex) -> bytes:
    return group.model_dump_json().encode() + b"\n"
