"""What a failure of FalkorDB means: unavailable for now, or a query that it will never take."""

from __future__ import annotations

from typing import Final, NoReturn

from redis import exceptions as redis_errors

from gralkord.errors import BackendUnavailable, GralkorError, QueryRefused

# Asking again with the same user and password is of no use.
REFUSED: Final = (redis_errors.AuthenticationError, redis_errors.AuthorizationError)

_BUSY: Final = ("MISCONF", "BUSY", "NOREPLICAS", "Max pending queries", "timed out", "Query's mem")
_UNAVAILABLE: Final = (
    redis_errors.ClusterDownError,
    redis_errors.OutOfMemoryError,
    redis_errors.ReadOnlyError,
    redis_errors.NoPermissionError,
)


class AlreadyIndexed(GralkorError):
    """The index is there already."""


def keeps_no_file(error: Exception) -> bool:
    """Whether WAITAOF failed because this server will never confirm that a write is on its disk."""
    return isinstance(error, redis_errors.NoPermissionError) or any(
        word in str(error) for word in ("appendonly is disabled", "unknown command")
    )


def reason_of(error: BaseException) -> str:
    """Return what the server said, without the piece of the query it quotes: that is memory."""
    return str(error).split("errCtx", 1)[0].strip()[:200]


def raise_failure(error: BaseException) -> NoReturn:
    """Raise what *error*, caught from the client or the clock, means to us.

    Raises:
        BackendUnavailable: The server does not answer, or cannot for now.
        QueryRefused: The query or a value in it is not acceptable.
        AlreadyIndexed: It was to make an index that is there.
    """
    reason = reason_of(error)
    if isinstance(error, redis_errors.ResponseError) and not isinstance(error, _UNAVAILABLE):
        if "already indexed" in reason:
            raise AlreadyIndexed(reason) from error
        if not any(word in reason for word in _BUSY):
            raise QueryRefused(f"the graph refused a query: {reason}") from error
    if isinstance(error, TimeoutError):
        raise BackendUnavailable("the graph did not answer in time") from error
    raise BackendUnavailable(f"the graph is unavailable: {reason}") from error
