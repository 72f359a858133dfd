"""Where a model is reached and how."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from gralkord.groups import escape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gralkord.config import Price

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a provider allows, as far as the settings say.

    Attributes:
        requests: Calls a minute.
        tokens: Tokens a minute, both ways.
        concurrency: Calls at once.
    """

    requests: int | None = None
    tokens: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at an address.

    Attributes:
        spec: How the settings name it, for messages.
        model: The name the server knows it by.
        base_url: What the paths of requests are appended to.
        provider: Who speaks there, as `gralkord.providers.specs.PROVIDERS` names it.
        key: The key; None sends none.
        key_source: Where a wrong key is to be corrected.
        options: Fields sent with each request as long as the server takes them.
        rename: Fields of requests that this server names otherwise.
        drop: Fields of requests that this server refuses.
        thinking: Whether the model may think before it answers, where that can be chosen.
        limit_name: What the server calls the limit of an answer's length.
        timeout_seconds: Limit of one call, from sending to the last byte.
        limits: What the provider allows.
        price: What the model costs, if that is known.
    """

    spec: str
    model: str
    base_url: str
    provider: str = "openai-compatible"
    key: str | None = field(default=None, repr=False)
    key_source: str = "models.api_key"
    options: Mapping[str, Any] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()
    thinking: bool = False
    limit_name: str = "max_tokens"
    timeout_seconds: float = 120.0
    limits: Limits = field(default_factory=Limits)
    price: Price | None = None

    @property
    def name(self) -> str:
        """How holds call it: one model at one address has limits of its own."""
        return escape(f"{self.base_url} {self.model}")

    @property
    def ledger_name(self) -> str:
        """How the ledger calls it."""
        return f"{self.provider}:{self.model}"

    @property
    def loopback(self) -> bool:
        """Whether the server runs on this machine, where no proxy is of use."""
        return urlsplit(self.base_url).hostname in LOOPBACK

    def certificates(self) -> ssl.SSLContext | bool:
        """Whom to trust: nobody where there is no TLS, since the system's take 40 ms to read."""
        plain = self.loopback and self.base_url.startswith("http:")
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True
