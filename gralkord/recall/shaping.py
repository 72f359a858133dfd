"""How much of an answer is shown: what the request and the settings say, in time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from gralkord.config import RecallSettings
from gralkord.models import Memory
from gralkord.models.recall import Question
from gralkord.recall.cutting import Shaped, shape
from gralkord.recall.deadline import Deadline
from gralkord.recall.gathering import Shortfalls
from gralkord.recall.tokens import Counter, estimate, load_counter

log = structlog.get_logger(__name__)

TOKENS: Final = "tokens"
# A counter that was late so often in a row is not asked any more: each time it keeps a thread.
MAX_LATE: Final = 3


class Shaper:
    """Cuts answers to what was asked for.

    Args:
        settings: The limit of answers that ask for none, and what counts tokens.

    Raises:
        ConfigError: The counter cannot be used.
    """

    def __init__(self, settings: RecallSettings) -> None:
        self._max_tokens = settings.max_tokens
        self._counter = load_counter(settings.token_counter)
        self._late = 0

    async def shape(
        self,
        request: Question,
        memories: Sequence[Memory],
        deadline: Deadline,
        short: Shortfalls,
        *,
        by_lens: bool = False,
    ) -> Shaped:
        """Return an answer as it is shown.

        Args:
            request: The question.
            memories: What was found, in its order.
            deadline: When the answer is due; a counter that is late counts no more.
            short: What the answer is without; it is added to.
            by_lens: Whether memories stand under the names of their lenses. What is left is then
                the best of each lens, not the first lens.
        """
        budget = request.max_tokens or self._max_tokens
        counter = self._counter

        def cut(count: Counter) -> Shaped:
            return shape(
                memories, request.tier, budget, count, by_lens=by_lens, query=request.query
            )

        if counter is not None and self._late >= MAX_LATE:
            short.add(TOKENS, "the token counter is too slow; tokens are estimated", failed=False)
        elif counter is not None:
            try:
                async with asyncio.timeout(deadline.left()):
                    shaped = await asyncio.to_thread(cut, counter)
            except TimeoutError:
                self._late += 1
                short.add(TOKENS, "tokens were not counted in time; they are estimated", late=True)
            except Exception as error:  # noqa: BLE001 - it is not our code
                log.warning("tokens_not_counted", reason=type(error).__name__)
                short.add(TOKENS, "the token counter fails; tokens are estimated", failed=False)
            else:
                self._late = 0
                return shaped
        return cut(estimate)
