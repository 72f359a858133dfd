"""What an answer means: errors of the wire become the errors of `gralkord.errors` again."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import orjson

from gralkord.errors import (
    BackendUnavailable,
    Forbidden,
    GralkorError,
    NotFound,
    Permanent,
    RateLimited,
    Transient,
    Unauthorized,
    rebuild_error,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

REPEAT_STATUS: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})

# For answers that do not have our form: something between us and the daemon, or another program.
_BY_STATUS: Final[dict[int, type[GralkorError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    429: RateLimited,
    502: BackendUnavailable,
    503: BackendUnavailable,
    504: BackendUnavailable,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A try that did not succeed.

    Attributes:
        error: What went wrong.
        again: Whether another try can be made without doing anything twice.
    """

    error: GralkorError
    again: bool


def failure_of(
    status: int, headers: Mapping[str, str], body: bytes, *, read_also: int | None = None
) -> Failure | None:
    """Return what an answer says that went wrong, or nothing if it is a success.

    Args:
        status: Its HTTP status.
        headers: Its headers, with names in lower case.
        body: Its body.
        read_also: A status that counts as a success too.
    """
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES or status == read_also:
        return None
    error = _error_in(body)
    if error is None:
        kind = _BY_STATUS.get(status, Permanent if status < 500 else Transient)
        error = kind(
            f"HTTP {status} without a word of gralkord",
            hint="does another program listen at this address?",
        )
    if error.retry_after is None and headers.get("retry-after", "").isdigit():
        error.retry_after = float(headers["retry-after"])
    return Failure(error, again=error.retry and status in REPEAT_STATUS)


def unexpected(what: str) -> GralkorError:
    """Return the error for an answer that is a success in a form that nobody promised."""
    return GralkorError(
        f"the daemon's answer cannot be read: {what}",
        hint="do client and daemon have the same version?",
    )


def _error_in(body: bytes) -> GralkorError | None:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return rebuild_error(content.get("error")) if isinstance(content, dict) else None
