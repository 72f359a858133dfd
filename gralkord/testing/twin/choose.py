"""The client that the environment asks for: one of a daemon, or a twin and nothing else."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from gralkord.client.client import AsyncClient
from gralkord.client.sync import Client
from gralkord.testing.twin.clients import InMemoryClient, SyncInMemoryClient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gralkord.testing.twin.shelves import LensSettings

MEMORY_URL: Final = "memory:"


def connect(
    url: str | None = None,
    *,
    lenses: Mapping[str, LensSettings] | None = None,
    agents: Mapping[str, Mapping[str, Any]] | None = None,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncClient:
    """Return an `AsyncClient`: with the URL ``memory:`` a twin, and nothing is looked for.

    Args:
        url: Its address; default: ``GRALKORD_URL``.
        lenses: The lenses of a twin; a daemon knows its own.
        agents: Likewise, agents that have lenses of their own.
        environ: Where that is looked up; default: the environment of this process.
        options: Other arguments of `AsyncClient`, for a daemon's.

    Raises:
        GralkorError: As `AsyncClient`, where it is no twin.
    """
    if _chosen(url, environ) == MEMORY_URL:
        return InMemoryClient(lenses, agents=agents)
    return AsyncClient(url, **options)


def connect_sync(
    url: str | None = None,
    *,
    lenses: Mapping[str, LensSettings] | None = None,
    agents: Mapping[str, Mapping[str, Any]] | None = None,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> Client:
    """Return a `Client`: with the URL ``memory:`` a twin, and nothing is looked for.

    Args:
        url: Its address; default: ``GRALKORD_URL``.
        lenses: The lenses of a twin; a daemon knows its own.
        agents: Likewise, agents that have lenses of their own.
        environ: Where that is looked up; default: the environment of this process.
        options: Other arguments of `Client`, for a daemon's.

    Raises:
        GralkorError: As `Client`, where it is no twin.
    """
    if _chosen(url, environ) == MEMORY_URL:
        return SyncInMemoryClient(lenses, agents=agents)
    return Client(url, **options)


def _chosen(url: str | None, environ: Mapping[str, str] | None) -> str | None:
    return url or (os.environ if environ is None else environ).get("GRALKORD_URL")
