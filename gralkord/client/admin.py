"""Operations for whoever runs the daemon, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from gralkord.client.calls import Call, reader
from gralkord.client.lines import SILENCE_SECONDS, lines_of, lines_of_sync
from gralkord.models.admin import (
    CommunitiesQuery,
    CommunitiesRequest,
    CommunityBuild,
    CommunityPage,
    GroupIndices,
    StopCommunities,
    Stopped,
)
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import httpx

    from gralkord.client.discovery import Endpoint

Answer = TypeVar("Answer")


def build_indices() -> Call[bytes]:
    """Return the call that makes the indices that groups lack."""
    return Call("POST", "/v1/admin/indices", bytes, timeout=SILENCE_SECONDS)


def build_communities(operator: str, **wanted: Any) -> Call[bytes]:
    """Return the call that finds the communities of a group.

    Raises:
        InvalidInput: It is not acceptable.
    """
    request = read_model(CommunitiesRequest, {"operator": operator, **wanted})
    body = request.model_dump_json(exclude_defaults=True).encode()
    path = "/v1/admin/communities"
    # Sent again it would begin anew, and pay anew.
    return Call("POST", path, bytes, body, timeout=SILENCE_SECONDS, repeatable=False)


def stop_communities(operator: str, lens: str) -> Call[Stopped]:
    """Return the call that stops a build of communities.

    Raises:
        InvalidInput: It is not acceptable.
    """
    request = read_model(StopCommunities, {"operator": operator, "lens": lens})
    body = request.model_dump_json().encode()
    return Call("POST", "/v1/admin/communities/stop", reader(Stopped), body)


def communities(operator: str, lens: str, limit: int) -> Call[CommunityPage]:
    """Return the call that lists the communities of a group.

    Raises:
        InvalidInput: It is not acceptable.
    """
    asked = {"operator": operator, "lens": lens, "limit": limit}
    values = read_model(CommunitiesQuery, asked).model_dump(mode="json")
    path = f"/v1/admin/communities?{urlencode(values)}"
    return Call("GET", path, reader(CommunityPage))


class AsyncAdmin:
    """The part of the asynchronous client for whoever runs the daemon."""

    endpoint: Endpoint
    _http: httpx.AsyncClient
    _timeout: float

    async def build_indices(self) -> AsyncIterator[GroupIndices]:
        """Make the indices that groups lack, in all of them.

        For people who run the memory; an agent must never do this by itself.

        Yields:
            Each group, once all its indices are usable.

        Raises:
            GralkorError: It broke off; done again it goes on.
        """
        call = build_indices()
        lines = lines_of(self._http, call, GroupIndices, self.endpoint, self._timeout)
        async for each in lines:
            yield each

    async def build_communities(
        self,
        operator: str,
        *,
        lens: str = "default",
        summaries: bool = False,
        max_communities: int = 100,
        dry_run: bool = False,
    ) -> AsyncIterator[CommunityBuild]:
        """Find which entities of a group belong together; those found before stay until the end.

        For people who run the memory; an agent must never do this by itself.

        Args:
            operator: Whose memory.
            lens: The lens whose memory it is.
            summaries: Have the model name and sum up each community.
            max_communities: Only so many, the largest.
            dry_run: Count and estimate only.

        Yields:
            What was found and what it takes, then how far it is; `done` with the last. Who stops
            reading stops it.

        Raises:
            NotFound: The operator has no memories there.
            NoModel: Summaries are wanted, and no model is configured.
            GralkorError: It is not acceptable, or broke off; nothing has changed then.
        """
        call = build_communities(
            operator,
            lens=lens,
            summaries=summaries,
            max_communities=max_communities,
            dry_run=dry_run,
        )
        lines = lines_of(self._http, call, CommunityBuild, self.endpoint, self._timeout)
        async for each in lines:
            yield each

    async def stop_communities(self, operator: str, *, lens: str = "default") -> Stopped:
        """Stop a build of communities that is under way; those from before it stay.

        Args:
            operator: Whose memory.
            lens: The lens whose memory it is.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(stop_communities(operator, lens))

    async def communities(
        self, operator: str, *, lens: str = "default", limit: int = 100
    ) -> CommunityPage:
        """Return the communities of a group, the largest first.

        Args:
            operator: Whose memory.
            lens: The lens whose memory it is.
            limit: How many at most.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(communities(operator, lens, limit))

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Admin:
    """The part of the synchronous client for whoever runs the daemon."""

    endpoint: Endpoint
    _http: httpx.Client
    _timeout: float

    def build_indices(self) -> Iterator[GroupIndices]:
        """Make the indices that groups lack, in all of them.

        For people who run the memory; an agent must never do this by itself.

        Yields:
            Each group, once all its indices are usable.

        Raises:
            GralkorError: It broke off; done again it goes on.
        """
        call = build_indices()
        yield from lines_of_sync(self._http, call, GroupIndices, self.endpoint, self._timeout)

    def build_communities(
        self,
        operator: str,
        *,
        lens: str = "default",
        summaries: bool = False,
        max_communities: int = 100,
        dry_run: bool = False,
    ) -> Iterator[CommunityBuild]:
        """Find which entities of a group belong together; those found before stay until the end.

        For people who run the memory; an agent must never do this by itself.

        Args:
            operator: Whose memory.
            lens: The lens whose memory it is.
            summaries: Have the model name and sum up each community.
            max_communities: Only so many, the largest.
            dry_run: Count and estimate only.

        Yields:
            What was found and what it takes, then how far it is; `done` with the last. Who stops
            reading stops it.

        Raises:
            NotFound: The operator has no memories there.
            NoModel: Summaries are wanted, and no model is configured.
            GralkorError: It is not acceptable, or broke off; nothing has changed then.
        """
        call = build_communities(
            operator,
            lens=lens,
            summaries=summaries,
            max_communities=max_communities,
            dry_run=dry_run,
        )
        yield from lines_of_sync(self._http, call, CommunityBuild, self.endpoint, self._timeout)

    def stop_communities(self, operator: str, *, lens: str = "default") -> Stopped:
        """Stop a build of communities that is under way; those from before it stay.

        Args:
            operator: Whose memory.
            lens: The lens whose memory it is.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(stop_communities(operator, lens))

    def communities(
        self, operator: str, *, lens: str = "default", limit: int = 100
    ) -> CommunityPage:
        """Return the communities of a group, the largest first.

        Args:
            operator: Whose memory.
            lens: The lens whose memory it is.
            limit: How many at most.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(communities(operator, lens, limit))

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
