"""Operations on generalisations."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response

from gralkord.models.generalisations import (
    GeneralisationPage,
    GeneralisationQuery,
    GeneralisationsRequest,
    GeneralisationsResult,
    GeneraliseRequest,
    GeneraliseResult,
)
from gralkord.rpc.bodies import read_body
from gralkord.rpc.queries import query_parameters, read_query
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gralkord.rpc.services import Services


class Generalisations(Protocol):
    """The operations on generalisations, as the daemon has them."""

    async def generalise(self, tenant: str, request: GeneraliseRequest) -> GeneraliseResult:
        """Generalise a transcript, or what is new of an operator."""
        ...

    async def add(self, tenant: str, request: GeneralisationsRequest) -> GeneralisationsResult:
        """Add generalisations that were made elsewhere."""
        ...

    async def find(self, tenant: str, query: GeneralisationQuery) -> GeneralisationPage:
        """Return generalisations that hold now."""
        ...


def add_generalisations(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations on generalisations to *router*."""

    @router.post(
        "/generalise",
        response_model=GeneraliseResult,
        responses={202: {"model": GeneraliseResult, "description": "It will be done."}},
        openapi_extra=json_body("GeneraliseRequest"),
    )
    async def generalise(request: Request) -> Response:
        """Generalise a transcript, or what was understood of an operator since the last time.

        Answered when it is done, or at `timeout_ms` with 202: then ask /v1/results.
        """
        asked = await read_body(request, GeneraliseRequest)
        result = await services.generalisations.generalise(tenant, asked)
        return _answer(result, HTTPStatus.OK if result.complete else HTTPStatus.ACCEPTED)

    @router.get(
        "/generalisations",
        response_model=GeneralisationPage,
        openapi_extra=query_parameters(GeneralisationQuery),
    )
    async def find(request: Request) -> Response:
        """Return generalisations that hold now, by a query or all. Texts are untrusted data."""
        query = read_query(request, GeneralisationQuery)
        return _answer(await services.generalisations.find(tenant, query))

    @router.post(
        "/generalisations",
        response_model=GeneralisationsResult,
        responses={202: {"model": GeneralisationsResult, "description": "They will be added."}},
        openapi_extra=json_body("GeneralisationsRequest"),
    )
    async def add(request: Request) -> Response:
        """Add generalisations in the `GEN|v1` form: all of them, or none. Repeats are harmless.

        Answered when they are added, or at `timeout_ms` with 202: then ask /v1/results.
        """
        asked = await read_body(request, GeneralisationsRequest)
        result = await services.generalisations.add(tenant, asked)
        return _answer(result, HTTPStatus.OK if result.complete else HTTPStatus.ACCEPTED)


def _answer(answer: BaseModel, status: int = HTTPStatus.OK) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")
