"""The operation that asks for an answer which was not waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

from fastapi import APIRouter, Path
from starlette.responses import Response

from gralkord.models.results import Result

if TYPE_CHECKING:
    from gralkord.rpc.services import Services

RequestId = Annotated[str, Path(description="Id of the request.")]


class Results(Protocol):
    """The operations on answers, as the daemon has them."""

    async def result(self, tenant: str, request: str) -> Result:
        """Return what became of a request."""
        ...


def add_results(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operation on answers to *router*."""

    @router.get("/results/{request_id}", response_model=Result)
    async def result(request_id: RequestId) -> Response:
        """Return what became of a request to change the graph that was made earlier.

        A request that was refused is answered with its error.
        """
        found = await services.results.result(tenant, request_id)
        return Response(found.model_dump_json(), media_type="application/json")
