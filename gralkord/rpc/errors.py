"""Errors as answers: one form for all of them, and which status each has."""

from __future__ import annotations

import math
import traceback
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson
import structlog
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from gralkord.errors import (
    BackendUnavailable,
    ConfigError,
    DeadlineExpired,
    Forbidden,
    GralkorError,
    InternalError,
    InterpretParseFailed,
    InvalidInput,
    Malformed,
    NoModel,
    NotFound,
    Permanent,
    QueueFull,
    RateLimited,
    SessionConflict,
    StartError,
    TooLarge,
    TooMany,
    Transient,
    Unauthorized,
    WrongMediaType,
    WrongMethod,
)

if TYPE_CHECKING:
    from starlette.requests import Request

log = structlog.get_logger(__name__)

DEFAULT_RETRY_SECONDS: Final = 1

# The nearest class of an error's ancestry counts.
STATUS: Final[dict[type[GralkorError], int]] = {
    GralkorError: 500,
    Transient: 503,
    QueueFull: 429,
    RateLimited: 429,
    TooMany: 429,
    BackendUnavailable: 503,
    DeadlineExpired: 504,
    InterpretParseFailed: 502,
    Permanent: 422,
    InvalidInput: 422,
    Malformed: 400,
    TooLarge: 413,
    WrongMediaType: 415,
    SessionConflict: 409,
    NotFound: 404,
    WrongMethod: 405,
    Unauthorized: 401,
    Forbidden: 403,
    NoModel: 503,
    ConfigError: 500,
    StartError: 500,
    InternalError: 500,
}


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str = Field(description="Stable name of the kind of error.")
    message: str = Field(description="What is wrong, in plain words.")
    retry: bool = Field(description="Whether the same request may succeed later.")
    field: str | None = Field(None, description="Dotted path such as `turn.0.role`.")
    limit: float | str | None = Field(None, description="The limit that was passed.")
    hint: str | None = Field(None, description="What may help.")
    retry_after: float | None = Field(None, description="Seconds to wait before the next try.")


class ErrorAnswer(BaseModel):
    """The one form of every answer that is not a success."""

    error: ErrorBody


def status_of(error: GralkorError) -> int:
    """Return the HTTP status that *error* is answered with."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def error_content(error: GralkorError) -> dict[str, Any]:
    """Return the wire form of *error*; `field`, `limit` and `retry` are always there."""
    return {"field": None, "limit": None} | error.to_dict()


def error_response(error: GralkorError) -> Response:
    """Return the answer that says *error*."""
    status = status_of(error)
    headers = {}
    if error.retry and status in {429, 503}:
        headers["Retry-After"] = str(math.ceil(error.retry_after or DEFAULT_RETRY_SECONDS))
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    content = orjson.dumps({"error": error_content(error)})
    return Response(content, status, headers, media_type="application/json")


async def answer_error(_request: Request, error: Exception) -> Response:
    """Answer an error of ours; a handler for the app."""
    assert isinstance(error, GralkorError)
    if status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("request_failed", code=error.code, reason=error.message)
    return error_response(error)


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """Answer what the router itself refuses, in the one form; a handler for the app."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.NOT_FOUND:
        response = error_response(NotFound("there is nothing at this path", hint="see /docs"))
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = headers.get("Allow") or headers.get("allow")
        response = error_response(
            WrongMethod(
                f"{request.method} is not possible here",
                hint=f"possible: {allowed}" if allowed else None,
            )
        )
    else:
        response = error_response(InvalidInput(str(error.detail)))
        response.status_code = error.status_code
    response.headers.update(headers)
    return response


def log_unexpected(error: Exception) -> None:
    """Log where *error* came from. Its text may repeat memory contents: that is for debug only."""
    log.error(
        "request_crashed",
        error=type(error).__qualname__,
        traceback="".join(traceback.format_tb(error.__traceback__)),
    )
    log.debug("request_crashed_with", error=str(error))
