"""The move of memories to another embedder, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gralkord.client.calls import Call
from gralkord.client.lines import SILENCE_SECONDS, lines_of, lines_of_sync
from gralkord.models.reembed import GroupMove, ReembedRequest
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx

    from gralkord.client.discovery import Endpoint


def reembed(operator: str | None, *, dry_run: bool) -> Call[bytes]:
    """Return the call that moves memories to the daemon's embedder.

    Raises:
        InvalidInput: The operator's name is not acceptable.
    """
    request = read_model(ReembedRequest, {"operator": operator, "dry_run": dry_run})
    body = request.model_dump_json(exclude_defaults=True).encode()
    return Call("POST", "/v1/reembed", bytes, body, timeout=SILENCE_SECONDS)


class AsyncReembed:
    """The part of the asynchronous client that moves memories to another embedder."""

    endpoint: Endpoint
    _http: httpx.AsyncClient
    _timeout: float

    async def reembed(
        self, operator: str | None = None, *, dry_run: bool = False
    ) -> AsyncIterator[GroupMove]:
        """Move memories to the daemon's embedder while they are used.

        Interrupted, it can be called again and goes on where it was.

        Args:
            operator: Whose memory; default: all of it.
            dry_run: Count only, and change nothing.

        Yields:
            How far it is; a group is done when `done` says so.

        Raises:
            NotFound: The operator has no memories.
            GralkorError: It is not acceptable, or broke off.
        """
        call = reembed(operator, dry_run=dry_run)
        lines = lines_of(self._http, call, GroupMove, self.endpoint, self._timeout)
        async for group in lines:
            yield group


class Reembed:
    """The part of the synchronous client that moves memories to another embedder."""

    endpoint: Endpoint
    _http: httpx.Client
    _timeout: float

    def reembed(self, operator: str | None = None, *, dry_run: bool = False) -> Iterator[GroupMove]:
        """Move memories to the daemon's embedder while they are used.

        Interrupted, it can be called again and goes on where it was.

        Args:
            operator: Whose memory; default: all of it.
            dry_run: Count only, and change nothing.

        Yields:
            How far it is; a group is done when `done` says so.

        Raises:
            NotFound: The operator has no memories.
            GralkorError: It is not acceptable, or broke off.
        """
        call = reembed(operator, dry_run=dry_run)
        yield from lines_of_sync(self._http, call, GroupMove, self.endpoint, self._timeout)
