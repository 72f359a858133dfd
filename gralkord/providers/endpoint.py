"""Where a language model is reached and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from gralkord.groups import escape

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at an address.

    Attributes:
        spec: How the settings name it, for messages.
        model: The name the server knows it by.
        base_url: Where ``/chat/completions`` is appended.
        key: The bearer token; None sends no Authorization header.
        key_source: Where a wrong key is to be corrected.
        options: Fields sent with each request as long as the server takes them.
        limit_name: What the server calls the limit of an answer's length.
    """

    spec: str
    model: str
    base_url: str
    key: str | None = field(default=None, repr=False)
    key_source: str = "models.api_key"
    options: Mapping[str, Any] = field(default_factory=dict)
    limit_name: str = "max_tokens"

    @property
    def name(self) -> str:
        """How holds call it: models at one address share a limit."""
        return escape(self.base_url)

    @property
    def loopback(self) -> bool:
        """Whether the server runs on this machine, where no proxy is of use."""
        return urlsplit(self.base_url).hostname in LOOPBACK
