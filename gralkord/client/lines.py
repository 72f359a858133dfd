"""Answers of a daemon that come line by line, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

import httpx
import orjson
from pydantic import BaseModel

from gralkord.client.answers import failure_of, unexpected
from gralkord.client.transport import broken, request_options
from gralkord.errors import BackendUnavailable, rebuild_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gralkord.client.calls import Call
    from gralkord.client.discovery import Endpoint

ModelT = TypeVar("ModelT", bound=BaseModel)

# A large group is read and compared in less, and a slow embedder tells of each batch.
SILENCE_SECONDS: Final = 300.0


class Lines(Generic[ModelT]):
    """Reads the lines of an answer.

    Args:
        model: What a line is.

    Attributes:
        ended: Whether the last one has come.
    """

    def __init__(self, model: type[ModelT]) -> None:
        self.ended = False
        self._model = model

    def take(self, line: str) -> ModelT | None:
        """Return what a line tells.

        Raises:
            GralkorError: It says that it could not go on.
        """
        if not line:
            return None
        content = orjson.loads(line)
        if "error" in content:
            raise rebuild_error(content["error"]) or unexpected("it is no error")
        if "end" in content:
            self.ended = True
            return None
        return self._model.model_validate(content)

    def close(self) -> None:
        """Check that nothing is missing.

        Raises:
            BackendUnavailable: The last line has not come.
        """
        if not self.ended:
            raise BackendUnavailable("the answer broke off", hint="ask again")


async def lines_of(
    http: httpx.AsyncClient,
    call: Call[bytes],
    model: type[ModelT],
    endpoint: Endpoint,
    timeout: float,  # noqa: ASYNC109 - for the connection, not for the whole
) -> AsyncIterator[ModelT]:
    """Yield what each line of an answer tells.

    Raises:
        GralkorError: The call is refused, or the answer broke off.
    """
    lines = Lines(model)
    try:
        async with http.stream(**request_options(call, timeout)) as answer:
            body = b"" if answer.is_success else await answer.aread()
            if failure := failure_of(answer.status_code, answer.headers, body):
                raise failure.error
            async for line in answer.aiter_lines():
                if (found := lines.take(line)) is not None:
                    yield found
    except httpx.RequestError as error:
        raise broken(call, endpoint, error).error from error
    lines.close()


def lines_of_sync(
    http: httpx.Client,
    call: Call[bytes],
    model: type[ModelT],
    endpoint: Endpoint,
    timeout: float,
) -> Iterator[ModelT]:
    """Yield what each line of an answer tells.

    Raises:
        GralkorError: The call is refused, or the answer broke off.
    """
    lines = Lines(model)
    try:
        with http.stream(**request_options(call, timeout)) as answer:
            body = b"" if answer.is_success else answer.read()
            if failure := failure_of(answer.status_code, answer.headers, body):
                raise failure.error
            for line in answer.iter_lines():
                if (found := lines.take(line)) is not None:
                    yield found
    except httpx.RequestError as error:
        raise broken(call, endpoint, error).error from error
    lines.close()
