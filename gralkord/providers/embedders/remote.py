"""Vectors from a provider's server, over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import httpx
import numpy as np
import structlog

from gralkord import __version__
from gralkord.clock import SystemClock
from gralkord.errors import MalformedOutput, ModelOutage
from gralkord.providers.calls import Calls
from gralkord.providers.embedders.embedder import together
from gralkord.providers.embedders.formats import UNREADABLE, Google, Wanted, format_of
from gralkord.providers.formats.base import merged
from gralkord.providers.http import shaped
from gralkord.providers.ledger import Call, Ledger, NoLedger
from gralkord.providers.limiter import Limiter, LocalLimiter
from gralkord.providers.refusals import Hiccup, refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gralkord.clock import Clock
    from gralkord.providers.embedders.embedder import Purpose
    from gralkord.providers.endpoint import Endpoint

CONNECT_SECONDS: Final = 10.0
# Shorter than the five seconds after which common servers close an idle connection.
IDLE_SECONDS: Final = 3.0
MOST_CHARACTERS: Final = 100_000
# Where an answer does not say how many tokens were read.
CHARACTERS_PER_TOKEN: Final = 4

log = structlog.get_logger(__name__)


class RemoteSource:
    """Implements `gralkord.providers.embedders.embedder.Source` over HTTP.

    Belongs to the event loop that first uses it, as its connections do.

    Args:
        endpoint: The model and its address.
        slots: Limits the calls under way, together with whoever else holds it.
        dimension: Length of vectors to ask for; None leaves it to the model.
        tasks: Whether the request tells questions from what is remembered.
        clock: For a Retry-After that names a date.
        limiter: Gives turns; default: one that knows this process only.
        ledger: Keeps account of the calls; default: nobody does.
    """

    most_characters = MOST_CHARACTERS

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        slots: asyncio.Semaphore,
        dimension: int | None = None,
        tasks: bool = False,
        clock: Clock | None = None,
        limiter: Limiter | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._format = format_of(endpoint)
        self._calls = Calls(endpoint, limiter or LocalLimiter(), slots, lane=False)
        self._dimension = dimension
        self._tasks = tasks
        self._clock = clock or SystemClock()
        self._ledger = ledger or NoLedger()
        self._client: httpx.AsyncClient | None = None

    @property
    def most_texts(self) -> int:
        """How many texts it takes at once."""
        return self._format.most_texts

    async def vectors(self, texts: Sequence[str], purpose: Purpose) -> NDArray[np.float32]:
        """Return one row per text.

        Raises:
            MalformedOutput: The answer has no vectors.
            GralkorError: As `gralkord.providers.base.Embedder.embed`.
        """
        rows = await self._ask(texts, purpose)
        if len(rows) != len(texts) and isinstance(self._format, Google) and len(texts) > 1:
            log.info("embedder_takes_single_texts", model=self.endpoint.model)
            self._format.single = True
            each = await together([self._ask([text], purpose) for text in texts])
            return np.concatenate(each)
        return rows

    async def close(self) -> None:
        """Close the connections."""
        await self._calls.close()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _ask(self, texts: Sequence[str], purpose: Purpose) -> NDArray[np.float32]:
        wanted = Wanted(texts, self._dimension, purpose.query if self._tasks else None)
        path, body = self._format.request(self.endpoint, wanted)
        payload = self._adapted(body)
        guess = sum(map(len, texts)) // CHARACTERS_PER_TOKEN + 1
        response = await self._calls.make(
            lambda: self._post(path, payload), tokens=guess, used=self._used
        )
        seconds = response.elapsed.total_seconds()
        await self._record(self._used(response) or guess, purpose, seconds)
        try:
            return self._format.vectors(response.json())
        except UNREADABLE:
            raise MalformedOutput(f"{self.endpoint.spec}: the answer has no vectors") from None

    def _used(self, response: httpx.Response) -> int:
        try:
            return self._format.tokens(response.json()) or 0
        except UNREADABLE:
            return 0

    def _adapted(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return a request as this server wants it."""
        return shaped(merged(body, self.endpoint.options), self.endpoint)

    async def _post(self, path: str, payload: dict[str, Any]) -> httpx.Response:
        seconds = self.endpoint.timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                response = await self._connected().post(
                    f"{self.endpoint.base_url}{path}", json=payload
                )
        except (TimeoutError, httpx.TimeoutException) as error:
            raise ModelOutage(
                f"{self.endpoint.spec} did not answer within {seconds:g} s"
            ) from error
        except httpx.RequestError as error:
            kind = ModelOutage if isinstance(error, httpx.ConnectError) else Hiccup
            raise kind(
                f"{self.endpoint.spec} cannot be reached: {type(error).__name__}",
                hint=f"is a server running at {self.endpoint.base_url}?",
            ) from error
        if response.status_code != httpx.codes.OK:
            raise refusal(self.endpoint, response, self._clock)
        return response

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            key = self.endpoint.key
            self._client = httpx.AsyncClient(
                headers={"User-Agent": f"gralkord/{__version__}"}
                | (self._format.headers(key) if key else {}),
                timeout=httpx.Timeout(self.endpoint.timeout_seconds, connect=CONNECT_SECONDS),
                limits=httpx.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS),
                follow_redirects=False,
                trust_env=not self.endpoint.loopback,
            )
        return self._client

    async def _record(self, tokens: int, purpose: Purpose, seconds: float) -> None:
        await self._ledger.record(
            Call(
                role="embedder",
                model=self.endpoint.ledger_name,
                stage=purpose.stage,
                group=purpose.group,
                prompt_tokens=tokens,
                cached_tokens=0,
                completion_tokens=0,
                seconds=seconds,
                price=self.endpoint.price,
            )
        )
