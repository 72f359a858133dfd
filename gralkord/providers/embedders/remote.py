"""Vectors from a provider's server, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import structlog

from gralkord.errors import MalformedOutput
from gralkord.providers.calls import Calls
from gralkord.providers.embedders.embedder import together
from gralkord.providers.embedders.formats import UNREADABLE, Google, Wanted, format_of
from gralkord.providers.formats.base import merged
from gralkord.providers.http import ModelServer
from gralkord.providers.ledger import Call, Ledger, NoLedger
from gralkord.providers.limiter import Limiter, LocalLimiter

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    import httpx
    from numpy.typing import NDArray

    from gralkord.clock import Clock
    from gralkord.providers.embedders.embedder import Purpose
    from gralkord.providers.endpoint import Endpoint

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
        self._server = ModelServer(endpoint, clock=clock)
        self._ledger = ledger or NoLedger()

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
        await self._server.close()

    async def _ask(self, texts: Sequence[str], purpose: Purpose) -> NDArray[np.float32]:
        wanted = Wanted(texts, self._dimension, purpose.query if self._tasks else None)
        path, request = self._format.request(self.endpoint, wanted)
        body = merged(request, self.endpoint.options)
        guess = sum(map(len, texts)) // CHARACTERS_PER_TOKEN + 1
        response = await self._calls.make(
            lambda: self._post(path, body), tokens=guess, used=self._used
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

    async def _post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        response = await self._server.post(path, body)
        self._server.raise_refusal(response)
        return response

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
