"""Operations on jobs: one answer, or a stream of server-sent events."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from fastapi import APIRouter, Path, Request
from pydantic import Field
from starlette.responses import Response, StreamingResponse

from gralkord.errors import GralkorError
from gralkord.models import Wire
from gralkord.models.jobs import Job
from gralkord.rpc.errors import error_content
from gralkord.rpc.queries import query_parameters, read_query

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gralkord.rpc.services import Services

JobId = Annotated[str, Path(description="A receipt, or the id of a flush, as 1714555800123-0.")]

_HEARTBEAT: Final = b":\n\n"
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_EVENTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Events `state`, each with a job.", "content": {"text/event-stream": {}}}
}


class WatchQuery(Wire):
    """How long a job is followed."""

    timeout_ms: int = Field(600_000, gt=0, le=600_000, description="After that the stream ends.")


def add_jobs(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations on jobs to *router*."""

    @router.get("/jobs/{job}", response_model=Job)
    async def job(job: JobId) -> Response:
        """Return what has become of a turn or a flush."""
        answer = await services.job(tenant, job)
        return Response(answer.model_dump_json(), media_type="application/json")

    @router.get(
        "/jobs/{job}/events",
        response_class=StreamingResponse,
        responses=_EVENTS,
        openapi_extra=query_parameters(WatchQuery),
    )
    async def job_events(request: Request, job: JobId) -> Response:
        """Follow a turn or a flush: an event at once and at each change, until it is done."""
        query = read_query(request, WatchQuery)
        changes = services.watch_job(tenant, job, query.timeout_ms / 1000)
        first = await anext(changes)  # so that a refusal is still an answer of its own
        return StreamingResponse(
            _events(first, changes), headers=_HEADERS, media_type="text/event-stream"
        )


async def _events(first: Job | None, changes: AsyncGenerator[Job | None]) -> AsyncGenerator[bytes]:
    async with aclosing(changes):
        yield _event(first)
        try:
            async for change in changes:
                yield _event(change)
        except GralkorError as error:
            yield b"event: error\ndata: " + orjson.dumps(error_content(error)) + b"\n\n"


def _event(job: Job | None) -> bytes:
    if job is None:
        return _HEARTBEAT
    return b"event: state\ndata: " + job.model_dump_json().encode() + b"\n\n"
