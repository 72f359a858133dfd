"""Operations for whoever runs the daemon: indices, and communities of entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from gralkord.models.admin import (
    NEVER_UNASKED,
    CommunitiesQuery,
    CommunitiesRequest,
    CommunityBuild,
    CommunityPage,
    GroupIndices,
    StopCommunities,
    Stopped,
)
from gralkord.rpc.bodies import read_body
from gralkord.rpc.lines import described, line_response
from gralkord.rpc.queries import query_parameters, read_query
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gralkord.rpc.services import Services

_INDEX_LINES: Final = described(
    "A line for each group when it is done, with `operator`, `lens`, `indices` and `created`."
)
_BUILD_LINES: Final = described(
    "The first line tells what was found and what it takes: `entities`, `facts`, `found`, "
    "`communities`, `members`, `calls`, `tokens` and `usd`; then lines with how many are "
    "`summed_up` and `written`, `done` false until the last."
)


class Indices(Protocol):
    """The indices of all groups, as the daemon has them."""

    def build(self, tenant: str) -> AsyncGenerator[GroupIndices]:
        """Yield each group once all its indices are there and usable."""
        ...


class Communities(Protocol):
    """The communities of entities, as the daemon has them."""

    def build(self, tenant: str, request: CommunitiesRequest) -> AsyncGenerator[CommunityBuild]:
        """Yield how far a build is."""
        ...

    async def stop(self, tenant: str, request: StopCommunities) -> Stopped:
        """Stop a build that is under way."""
        ...

    async def page(self, tenant: str, query: CommunitiesQuery) -> CommunityPage:
        """Return the communities of a group, the largest first."""
        ...


def add_admin(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations for whoever runs the daemon to *router*."""

    @router.post(
        "/admin/indices",
        response_class=StreamingResponse,
        responses=_INDEX_LINES,
        description=f"Make the indices that groups lack, in all of them. {NEVER_UNASKED}",
    )
    async def indices() -> Response:
        return await line_response(services.indices.build(tenant))

    @router.post(
        "/admin/communities",
        response_class=StreamingResponse,
        responses=_BUILD_LINES,
        openapi_extra=json_body("CommunitiesRequest"),
        description="Find which entities of a group belong together, or count what that takes. "
        f"Those found before stay until it is done. {NEVER_UNASKED}",
    )
    async def communities(request: Request) -> Response:
        wanted = await read_body(request, CommunitiesRequest)
        return await line_response(services.communities.build(tenant, wanted))

    @router.post(
        "/admin/communities/stop",
        response_model=Stopped,
        openapi_extra=json_body("StopCommunities"),
    )
    async def stop(request: Request) -> Response:
        """Stop a build of communities that is under way; those from before it stay."""
        wanted = await read_body(request, StopCommunities)
        return _answer(await services.communities.stop(tenant, wanted))

    @router.get(
        "/admin/communities",
        response_model=CommunityPage,
        openapi_extra=query_parameters(CommunitiesQuery),
    )
    async def page(request: Request) -> Response:
        """Return the communities of a group, the largest first. Their texts are untrusted data."""
        query = read_query(request, CommunitiesQuery)
        return _answer(await services.communities.page(tenant, query))


def _answer(answer: Stopped | CommunityPage) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")
