"""The check of what a daemon has in memory, for both clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx
import orjson

from gralkord.client.answers import failure_of, unexpected
from gralkord.client.calls import Call
from gralkord.client.transport import broken, request_options
from gralkord.errors import BackendUnavailable, rebuild_error
from gralkord.models.reindex import GroupIndex, ReindexRequest
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gralkord.client.discovery import Endpoint

# A large group is read and compared in less.
_SILENCE_SECONDS: Final = 300.0


@dataclass(slots=True)
class Lines:
    """Reads the lines of an answer.

    Attributes:
        ended: Whether the last one has come.
    """

    ended: bool = False

    def take(self, line: str) -> GroupIndex | None:
        """Return what a line tells of a group.

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
        return GroupIndex.model_validate(content)

    def close(self) -> None:
        """Check that nothing is missing.

        Raises:
            BackendUnavailable: The last line has not come.
        """
        if not self.ended:
            raise BackendUnavailable("the answer broke off", hint="ask again")


def reindex(operator: str | None, *, check: bool, embed: bool) -> Call[bytes]:
    """Return the call that compares what is in memory with the graph.

    Raises:
        InvalidInput: The operator's name is not acceptable, or both are asked for.
    """
    request = read_model(ReindexRequest, {"operator": operator, "check": check, "embed": embed})
    body = request.model_dump_json(exclude_defaults=True).encode()
    return Call("POST", "/v1/reindex", bytes, body, timeout=_SILENCE_SECONDS)


class AsyncReindex:
    """The part of the asynchronous client that checks what is in memory."""

    endpoint: Endpoint
    _http: httpx.AsyncClient
    _timeout: float

    async def reindex(
        self, operator: str | None = None, *, check: bool = False, embed: bool = False
    ) -> AsyncIterator[GroupIndex]:
        """Compare what the daemon has in memory with the graph, and have it read anew.

        Args:
            operator: Whose memory; default: all of it.
            check: Compare only.
            embed: Make the vectors that are missing or of another embedder, too.

        Yields:
            How far it is; a group is done when `done` says so.

        Raises:
            NotFound: The operator has no memories.
            GralkorError: It is not acceptable, or broke off.
        """
        call = reindex(operator, check=check, embed=embed)
        lines = Lines()
        try:
            async with self._http.stream(**request_options(call, self._timeout)) as answer:
                body = b"" if answer.is_success else await answer.aread()
                if failure := failure_of(answer.status_code, answer.headers, body):
                    raise failure.error
                async for line in answer.aiter_lines():
                    if (group := lines.take(line)) is not None:
                        yield group
        except httpx.RequestError as error:
            raise broken(call, self.endpoint, error).error from error
        lines.close()


class Reindex:
    """The part of the synchronous client that checks what is in memory."""

    endpoint: Endpoint
    _http: httpx.Client
    _timeout: float

    def reindex(
        self, operator: str | None = None, *, check: bool = False, embed: bool = False
    ) -> Iterator[GroupIndex]:
        """Compare what the daemon has in memory with the graph, and have it read anew.

        Args:
            operator: Whose memory; default: all of it.
            check: Compare only.
            embed: Make the vectors that are missing or of another embedder, too.

        Yields:
            How far it is; a group is done when `done` says so.

        Raises:
            NotFound: The operator has no memories.
            GralkorError: It is not acceptable, or broke off.
        """
        call = reindex(operator, check=check, embed=embed)
        lines = Lines()
        try:
            with self._http.stream(**request_options(call, self._timeout)) as answer:
                body = b"" if answer.is_success else answer.read()
                if failure := failure_of(answer.status_code, answer.headers, body):
                    raise failure.error
                for line in answer.iter_lines():
                    if (group := lines.take(line)) is not None:
                        yield group
        except httpx.RequestError as error:
            raise broken(call, self.endpoint, error).error from error
        lines.close()
