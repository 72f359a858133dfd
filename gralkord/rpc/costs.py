"""The operations on the ledger of model calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response

from gralkord.models.costs import Costs, CostsQuery
from gralkord.rpc.queries import query_parameters, read_query

if TYPE_CHECKING:
    from gralkord.rpc.services import Services

# The text format of Prometheus.
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class CostOperations(Protocol):
    """The operations on the ledger, as the daemon has them."""

    async def report(self, tenant: str, query: CostsQuery) -> Costs:
        """Return what model calls have used and cost."""
        ...

    async def metrics(self, tenant: str) -> str:
        """Return counters of model calls in the text format of Prometheus."""
        ...


def add_costs(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operation on costs to *router*."""

    @router.get("/costs", response_model=Costs, openapi_extra=query_parameters(CostsQuery))
    async def costs(request: Request) -> Response:
        """Return what model calls have used and cost, and how far daily budgets are spent."""
        found = await services.costs.report(tenant, read_query(request, CostsQuery))
        return Response(found.model_dump_json(), media_type="application/json")


def metrics_router(services: Services, tenant: str) -> APIRouter:
    """Return the route that is asked by Prometheus."""
    router = APIRouter()

    @router.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Return counters of model calls, their tokens and cost, for Prometheus.

        They are of the whole deployment, whichever daemon is asked.
        """
        return Response(await services.costs.metrics(tenant), media_type=METRICS_TYPE)

    return router
