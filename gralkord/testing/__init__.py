"""Stand-ins that ship with the product: for tests, demonstrations and trials without a key."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gralkord.testing.twin.choose import connect, connect_sync
    from gralkord.testing.twin.clients import InMemoryClient, SyncInMemoryClient
    from gralkord.testing.twin.script import LoggedCall
    from gralkord.testing.twin.shelves import Shelves

__all__ = [
    "InMemoryClient",
    "LoggedCall",
    "Shelves",
    "SyncInMemoryClient",
    "connect",
    "connect_sync",
]

# Loaded when they are first used: the scripted model server needs no client.
_PLACES = {
    "InMemoryClient": "gralkord.testing.twin.clients",
    "LoggedCall": "gralkord.testing.twin.script",
    "Shelves": "gralkord.testing.twin.shelves",
    "SyncInMemoryClient": "gralkord.testing.twin.clients",
    "connect": "gralkord.testing.twin.choose",
    "connect_sync": "gralkord.testing.twin.choose",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value
