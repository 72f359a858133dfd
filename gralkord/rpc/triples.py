"""Operations on triples."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response

from gralkord.models.triples import TriplePage, TripleQuery, TriplesRequest, TriplesResult
from gralkord.rpc.bodies import read_body
from gralkord.rpc.queries import query_parameters, read_query
from gralkord.rpc.reference import json_body

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gralkord.rpc.services import Services


class Triples(Protocol):
    """The operations on triples, as the daemon has them."""

    async def add(self, tenant: str, request: TriplesRequest) -> TriplesResult:
        """Add triples: all of them, or none."""
        ...

    async def find(self, tenant: str, query: TripleQuery) -> TriplePage:
        """Return the facts that fit."""
        ...


def add_triples(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations on triples to *router*."""

    @router.post(
        "/triples",
        response_model=TriplesResult,
        responses={202: {"model": TriplesResult, "description": "They will be added."}},
        openapi_extra=json_body("TriplesRequest"),
    )
    async def add(request: Request) -> Response:
        """Add facts as subject, predicate and object: all of them, or none. Repeats are harmless.

        Answered when they are added, or at `timeout_ms` with 202: then ask /v1/results.
        """
        result = await services.triples.add(tenant, await read_body(request, TriplesRequest))
        return _answer(result, HTTPStatus.OK if result.complete else HTTPStatus.ACCEPTED)

    @router.get("/triples", response_model=TriplePage, openapi_extra=query_parameters(TripleQuery))
    async def find(request: Request) -> Response:
        """Return facts by subject, predicate, object and time. Their texts are untrusted data."""
        return _answer(await services.triples.find(tenant, read_query(request, TripleQuery)))


def _answer(answer: BaseModel, status: int = HTTPStatus.OK) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")
