"""What is handed over as a whole: documents, conversations, records, and what agents add."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from fastapi import APIRouter, Request
from starlette.responses import Response

from gralkord.models.ingest import Ingest, IngestReceipt, MemoryAddReceipt, MemoryAddRequest
from gralkord.rpc.bodies import idempotency_key
from gralkord.rpc.reference import IDEMPOTENCY_KEY, json_body
from gralkord.wire import Model, parse_object, read_model, zone_notes

if TYPE_CHECKING:
    from pydantic import BaseModel

    from gralkord.rpc.services import Services


class Ingests(Protocol):
    """The operation that ingests, as the daemon has it."""

    async def ingest(self, tenant: str, ingest: Ingest) -> IngestReceipt:
        """Store something as a whole."""
        ...


def add_ingest(router: APIRouter, services: Services, tenant: str) -> None:
    """Add the operations that ingest to *router*."""

    @router.post(
        "/ingest",
        status_code=HTTPStatus.ACCEPTED,
        response_model=IngestReceipt,
        openapi_extra=json_body("Ingest") | IDEMPOTENCY_KEY,
    )
    async def ingest(request: Request) -> Response:
        """Store a document, a conversation or a record, and have it understood.

        Once answered it is not lost, and it will become recallable.
        """
        asked, notes = await _read(request, Ingest)
        receipt = await services.ingests.ingest(tenant, asked)
        return _answer(receipt.model_copy(update={"notes": notes}))

    @router.post(
        "/memory_add",
        status_code=HTTPStatus.ACCEPTED,
        response_model=MemoryAddReceipt,
        openapi_extra=json_body("MemoryAddRequest") | IDEMPOTENCY_KEY,
    )
    async def memory_add(request: Request) -> Response:
        """Store what an agent wants to be remembered. It is understood later, and not lost."""
        asked, notes = await _read(request, MemoryAddRequest)
        receipt = await services.ingests.ingest(tenant, asked.to_ingest())
        return _answer(MemoryAddReceipt(**receipt.model_dump(exclude={"notes"}), notes=notes))


async def _read(request: Request, model: type[Model]) -> tuple[Model, list[str]]:
    raw = parse_object(await request.body())
    key = idempotency_key(request)
    if key and raw.get("id") is None:
        raw["id"] = key
    return read_model(model, raw), zone_notes(raw)


def _answer(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), HTTPStatus.ACCEPTED, media_type="application/json")
