"""The check of what a daemon has in memory, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gralkord.client.calls import Call
from gralkord.client.lines import SILENCE_SECONDS, lines_of, lines_of_sync
from gralkord.models.reindex import GroupIndex, ReindexRequest
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx

    from gralkord.client.discovery import Endpoint


def reindex(operator: str | None, *, check: bool) -> Call[bytes]:
    """Return the call that compares what is in memory with the graph.

    Raises:
        InvalidInput: The operator's name is not acceptable.
    """
    request = read_model(ReindexRequest, {"operator": operator, "check": check})
    body = request.model_dump_json(exclude_defaults=True).encode()
    return Call("POST", "/v1/reindex", bytes, body, timeout=SILENCE_SECONDS)


class AsyncReindex:
    """The part of the asynchronous client that checks what is in memory."""

    endpoint: Endpoint
    _http: httpx.AsyncClient
    _timeout: float

    async def reindex(
        self, operator: str | None = None, *, check: bool = False
    ) -> AsyncIterator[GroupIndex]:
        """Compare what the daemon has in memory with the graph, and have it read anew.

        Args:
            operator: Whose memory; default: all of it.
            check: Compare only.

        Yields:
            What was found in each group.

        Raises:
            NotFound: The operator has no memories.
            GralkorError: It is not acceptable, or broke off.
        """
        call = reindex(operator, check=check)
        lines = lines_of(self._http, call, GroupIndex, self.endpoint, self._timeout)
        async for group in lines:
            yield group


class Reindex:
    """The part of the synchronous client that checks what is in memory."""

    endpoint: Endpoint
    _http: httpx.Client
    _timeout: float

    def reindex(self, operator: str | None = None, *, check: bool = False) -> Iterator[GroupIndex]:
        """Compare what the daemon has in memory with the graph, and have it read anew.

        Args:
            operator: Whose memory; default: all of it.
            check: Compare only.

        Yields:
            What was found in each group.

        Raises:
            NotFound: The operator has no memories.
            GralkorError: It is not acceptable, or broke off.
        """
        call = reindex(operator, check=check)
        yield from lines_of_sync(self._http, call, GroupIndex, self.endpoint, self._timeout)
