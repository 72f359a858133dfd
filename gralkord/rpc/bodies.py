"""Read the bodies of requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, Field

from gralkord.errors import InvalidInput
from gralkord.models import Capture, CaptureReceipt, Identifier, Wire, check_id
from gralkord.wire import Model, parse_object, read_model, zone_notes

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_BATCH: Final = 100

_KEY_HEADER: Final = "Idempotency-Key"


class BackfillRequest(Wire):
    """Queue what was never understood."""

    operator: Identifier | None = None


class CaptureBatch(Wire):
    """Many turns in one request. Each is taken or refused by itself."""

    captures: list[Capture] = Field(min_length=1, max_length=MAX_BATCH)


class BatchItem(BaseModel):
    """What became of one capture of a batch: a receipt or an error."""

    index: int
    receipt: CaptureReceipt | None = None
    error: dict[str, Any] | None = None


class BatchResult(BaseModel):
    """What became of each capture of a batch, in their order."""

    accepted: int
    results: list[BatchItem]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A capture that fits, and what its receipt has to say about it."""

    capture: Capture
    notes: list[str]


async def read_body(request: Request, model: type[Model]) -> Model:
    """Return the body of *request* as a *model*.

    Raises:
        Malformed: It is not JSON.
        InvalidInput: It does not fit the model.
    """
    return read_model(model, parse_object(await request.body()))


async def read_capture(request: Request) -> Incoming:
    """Return the capture in the body of *request*.

    Raises:
        Malformed: It is not JSON.
        InvalidInput: It is not a capture, or the idempotency key is no id.
    """
    return as_incoming(parse_object(await request.body()), idempotency_key(request))


async def read_batch(request: Request) -> list[Incoming | InvalidInput]:
    """Return the captures in the body of *request*, or what is wrong with each.

    Raises:
        Malformed: It is not JSON.
        InvalidInput: It is not a list of 1 to 100 values, or the idempotency key is no id.
    """
    body = parse_object(await request.body())
    for name in body:
        if name != "captures":
            raise InvalidInput(f"{name[:64]}: no such field", field=name[:64])
    items = body.get("captures")
    if not isinstance(items, list) or not 0 < len(items) <= MAX_BATCH:
        count = f", not {len(items)}" if isinstance(items, list) else ""
        raise InvalidInput(
            f"captures: must be a list of 1 to {MAX_BATCH} captures{count}",
            field="captures",
            limit=MAX_BATCH,
        )
    key = idempotency_key(request)
    return [
        _try_incoming(item, f"{key}:{index}" if key else None, f"captures.{index}")
        for index, item in enumerate(items)
    ]


def idempotency_key(request: Request) -> str | None:
    """Return the id that the request's header gives to its turn.

    Raises:
        InvalidInput: The header is there and cannot name a turn.
    """
    value = request.headers.get(_KEY_HEADER)
    if value is None:
        return None
    try:
        # Header values arrive as Latin-1; ids are UTF-8.
        return check_id(value.encode("latin-1").decode())
    except ValueError as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise InvalidInput(f"{_KEY_HEADER}: {reason}", field=_KEY_HEADER) from None


def as_incoming(raw: Any, key: str | None, within: str = "") -> Incoming:
    """Return *raw* as a capture.

    Args:
        raw: What came.
        key: Id of the turn, if *raw* names none.
        within: Dotted path of *raw* in the request.

    Raises:
        InvalidInput: It is not a capture.
    """
    if not isinstance(raw, dict):
        raise InvalidInput(f"{within or 'the body'}: must be an object", field=within or None)
    if key and raw.get("turn_id") is None:
        raw = raw | {"turn_id": key}
    return Incoming(read_model(Capture, raw, within=within), zone_notes(raw))


def _try_incoming(raw: Any, key: str | None, within: str) -> Incoming | InvalidInput:
    try:
        return as_incoming(raw, key, within)
    except InvalidInput as error:
        return error
