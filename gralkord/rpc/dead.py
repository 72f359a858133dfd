"""Operations on dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from gralkord.models.letters import DeadLetter, DeadPage, DeadQuery, DeadResult, DeadSelection
from gralkord.rpc.bodies import read_body
from gralkord.rpc.queries import query_parameters, read_query
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gralkord.rpc.services import Services

LetterId = Annotated[str, Path(description="Id of the dead letter.")]

_SELECTION: Final = json_body("DeadSelection")


def add_dead(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations on dead letters to *router*."""

    @router.get("/dead", response_model=DeadPage, openapi_extra=query_parameters(DeadQuery))
    async def dead_letters(request: Request) -> Response:
        """Return dead letters, without the words in them."""
        return _answer(await services.dead_letters(tenant, read_query(request, DeadQuery)))

    @router.get("/dead/{letter}", response_model=DeadLetter)
    async def dead_letter(letter: LetterId) -> Response:
        """Return one dead letter with all that is known of it. Its words are untrusted data."""
        return _answer(await services.dead_letter(tenant, letter))

    @router.post("/dead/retry", response_model=DeadResult, openapi_extra=_SELECTION)
    async def retry_dead(request: Request) -> Response:
        """Put dead letters back to work, behind what waits."""
        selection = await read_body(request, DeadSelection)
        return _answer(await services.retry_dead(tenant, selection))

    @router.post("/dead/drop", response_model=DeadResult, openapi_extra=_SELECTION)
    async def drop_dead(request: Request) -> Response:
        """Delete dead letters for good, with the words in them."""
        selection = await read_body(request, DeadSelection)
        return _answer(await services.drop_dead(tenant, selection))


def _answer(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")
