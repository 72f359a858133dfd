"""Operations that move memories: an export as a stream of lines, and rows of one to be written."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from gralkord.errors import GralkorError
from gralkord.models.transfer import ExportQuery, ImportResult, ImportRows
from gralkord.rpc.bodies import read_body
from gralkord.rpc.errors import error_content
from gralkord.rpc.queries import query_parameters, read_query
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gralkord.rpc.services import Services

MEDIA_TYPE: Final = "application/x-ndjson"

_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_LINES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "A header, a line for each row, and a trailer with counts and a check sum. "
        "An export that cannot go on ends with a line that has an `error`, without a trailer.",
        "content": {MEDIA_TYPE: {}},
    }
}


class Transfer(Protocol):
    """The operations that move memories, as the daemon has them."""

    def export(self, tenant: str, query: ExportQuery) -> AsyncGenerator[bytes]:
        """Yield an export, in pieces of one or more lines."""
        ...

    async def import_rows(self, tenant: str, request: ImportRows) -> ImportResult:
        """Write rows of an export."""
        ...


def add_transfer(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations that move memories to *router*."""

    @router.get(
        "/export",
        response_class=StreamingResponse,
        responses=_LINES,
        openapi_extra=query_parameters(ExportQuery),
    )
    async def export(request: Request) -> Response:
        """Return all memories of one operator, or of everybody, as JSON lines."""
        pieces = services.transfer.export(tenant, read_query(request, ExportQuery))
        first = await anext(pieces)  # so that a refusal is still an answer of its own
        return StreamingResponse(_body(first, pieces), headers=_HEADERS, media_type=MEDIA_TYPE)

    @router.post("/import-rows", response_model=ImportResult, openapi_extra=json_body("ImportRows"))
    async def import_rows(request: Request) -> Response:
        """Write rows of an export. Those that are there already stay as they are."""
        answer = await services.transfer.import_rows(tenant, await read_body(request, ImportRows))
        return Response(answer.model_dump_json(), media_type="application/json")


async def _body(first: bytes, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(pieces):
        yield first
        try:
            async for piece in pieces:
                yield piece
        except GralkorError as error:
            yield orjson.dumps({"error": error_content(error)}) + b"\n"
