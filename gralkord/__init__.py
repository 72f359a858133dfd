"""gralkord: a long-term memory daemon for AI agents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gralkord.client.client import AsyncClient
    from gralkord.client.stream import StreamProducer
    from gralkord.client.stream_async import AsyncStreamProducer
    from gralkord.client.sync import Client
    from gralkord.client.transport import Retry

__all__ = ["AsyncClient", "AsyncStreamProducer", "Client", "Retry", "StreamProducer", "__version__"]

__version__ = "0.1.0"

# Loaded when they are first used: the command line must not wait for an HTTP client to show help.
_PLACES = {
    "AsyncClient": "gralkord.client.client",
    "AsyncStreamProducer": "gralkord.client.stream_async",
    "Client": "gralkord.client.sync",
    "Retry": "gralkord.client.transport",
    "StreamProducer": "gralkord.client.stream",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
