"""Operations that erase."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gralkord.models.erasure import EraseRequest, Erasure, ErasureList
from gralkord.models.jobs import check_entry_id
from gralkord.rpc.bodies import read_body
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gralkord.rpc.services import Services

ErasureId = Annotated[str, Path(description="Id of the erasure.")]

_UNDER_WAY: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": Erasure, "description": "It is under way; ask for it by its id."}
}


class Erasures(Protocol):
    """The operations that erase, as the daemon has them."""

    async def erase(self, tenant: str, request: EraseRequest) -> Erasure:
        """Erase, or count what would go."""
        ...

    async def read(self, tenant: str, erasure: str) -> Erasure:
        """Return how far an erasure is."""
        ...

    async def list_erasures(self, tenant: str) -> ErasureList:
        """Return all erasures."""
        ...


def add_erasure(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations that erase to *router*."""

    @router.post(
        "/erase",
        response_model=Erasure,
        responses=_UNDER_WAY,
        openapi_extra=json_body("EraseRequest"),
    )
    async def erase(request: Request) -> Response:
        """Erase for good, or count what would go; one erasure at a time."""
        found = await services.erasure.erase(tenant, await read_body(request, EraseRequest))
        return _answer(found, HTTPStatus.OK if found.state == "done" else HTTPStatus.ACCEPTED)

    @router.get("/erase", response_model=ErasureList)
    async def erasures() -> Response:
        """Return all erasures, newest first, without any words of memories."""
        return _answer(await services.erasure.list_erasures(tenant))

    @router.get("/erase/{erasure}", response_model=Erasure)
    async def erasure(erasure: ErasureId) -> Response:
        """Return how far an erasure is, and what it has taken."""
        return _answer(await services.erasure.read(tenant, check_entry_id(erasure)))


def _answer(answer: BaseModel, status: int = HTTPStatus.OK) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")
