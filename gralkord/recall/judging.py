"""What models have to say of an answer, as far as there is time and money for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from gralkord.config import RecallSettings
from gralkord.errors import BudgetSpent, GralkorError, InterpretParseFailed, NoModel
from gralkord.graph.rows import PassageRow
from gralkord.groups import Group
from gralkord.models import Memory
from gralkord.models.recall import InterpretMode
from gralkord.providers.base import LanguageModel, Ranked, Reranker
from gralkord.recall.deadline import Deadline
from gralkord.recall.gathering import Shortfalls
from gralkord.recall.interpret import Interpreted, interpret

log = structlog.get_logger(__name__)

INTERPRET: Final = "interpret"
RERANK: Final = "rerank"

# Share of the whole time that is kept for what comes after a model.
AFTER_MODEL: Final = 0.05
# A reranker may take this share of the time that is left.
RERANK_SHARE: Final = 0.4
# A model that is not asked for, likewise.
UNASKED_SHARE: Final = 0.5
# With less time no model is begun with unless it is asked for.
LEAST_SECONDS: Final = 1.0

Permit = Callable[[Group], Awaitable[None]]


async def _anything(_: Group) -> None:
    """Let a model be asked on anybody's account."""


@dataclass(frozen=True, slots=True)
class Judges:
    """The models that look at what was found.

    Attributes:
        model: Interprets; None: nobody does.
        reranker: Puts in order; None: nobody does.
        permit: Raises BudgetSpent where an account has nothing left.
    """

    model: LanguageModel | None = None
    reranker: Reranker | None = None
    permit: Permit = _anything


@dataclass(frozen=True, slots=True)
class Looked:
    """An answer that is to be looked at.

    Attributes:
        query: The question.
        payer: On whose account.
        deadline: When the answer is due.
        short: What the answer is without; it is added to.
        lean: Whether there are so many recalls that models are left out.
    """

    query: str
    payer: Group
    deadline: Deadline
    short: Shortfalls
    lean: bool = False


class Judging:
    """Has models look at answers. What they fail to do leaves an answer as it was.

    Args:
        judges: The models.
        settings: How they are used.
    """

    def __init__(self, judges: Judges, settings: RecallSettings) -> None:
        self._judges = judges
        self._settings = settings

    def mode(self, wanted: InterpretMode | None) -> InterpretMode:
        """Return whether an answer is to be interpreted.

        Raises:
            NoModel: It is asked for, and there is no model.
        """
        mode = wanted or self._settings.interpret
        if self._judges.model is None:
            if mode == "on":
                raise NoModel(
                    "no language model is configured, so nothing can be interpreted",
                    field="interpret",
                    hint="set models.llm, or ask with `interpret` auto or off",
                )
            return "off"
        return mode

    def pool(self, limit: int) -> int:
        """Return how many memories to look for where *limit* are wanted."""
        if self._judges.reranker is None or self._settings.rerank == "off":
            return limit
        return max(limit, self._settings.rerank_items)

    async def rerank(self, looked: Looked, memories: list[Memory]) -> list[Memory]:
        """Return the memories in a reranker's order, all of them; at a failure in their own."""
        reranker = self._judges.reranker
        if reranker is None or self._settings.rerank == "off" or len(memories) < 2:
            return memories
        if looked.lean:
            looked.short.add(RERANK, "too many recalls at once; not reranked", failed=False)
            return memories
        some = memories[: self._settings.rerank_items]
        try:
            async with asyncio.timeout(looked.deadline.left(AFTER_MODEL) * RERANK_SHARE):
                await self._judges.permit(looked.payer)
                texts = [each.text for each in some]
                ranked = await reranker.rank(looked.query, texts, group=looked.payer)
        except TimeoutError:
            looked.short.add(
                RERANK, "the reranker was late; the order is recall's own", failed=False
            )
        except GralkorError as error:
            log.warning("recall_not_reranked", reason=error.message)
            note = _because(error, "the order is recall's own")
            looked.short.add(RERANK, note, failed=False)
        else:
            order = reordered(ranked, len(some), useful=self._settings.rerank == "relevant_only")
            return [*(memories[at] for at in order), *memories[len(some) :]]
        return memories

    async def interpret(
        self,
        looked: Looked,
        mode: InterpretMode,
        memories: list[Memory],
        conversation: Sequence[PassageRow],
    ) -> Interpreted | None:
        """Return what helps of the memories; None: they stay as they are.

        Raises:
            InterpretParseFailed: The answer is cut off or is none, and *mode* is ``on``.
        """
        model, asked = self._judges.model, mode == "on"
        if model is None or mode == "off" or not memories:
            return None
        seconds = self._seconds(looked, asked=asked)
        if seconds is None:
            return None
        try:
            async with asyncio.timeout(seconds):
                await self._judges.permit(looked.payer)
                found = await interpret(
                    looked.query,
                    memories,
                    conversation,
                    model,
                    payer=looked.payer,
                    max_tokens=self._settings.interpret_tokens,
                )
        except TimeoutError:
            note = "the model was late; not interpreted"
            looked.short.add(INTERPRET, note, late=asked, failed=asked)
            return None
        except GralkorError as error:
            log.warning("recall_not_interpreted", reason=error.message)
            if asked and isinstance(error, InterpretParseFailed):
                raise
            looked.short.add(INTERPRET, _because(error, "not interpreted"), failed=asked)
            return None
        looked.short.notes += _told(found, len(memories))
        return found

    def _seconds(self, looked: Looked, *, asked: bool) -> float | None:
        """Return how long a model may take to interpret; None: it is not asked."""
        if looked.lean:
            looked.short.add(INTERPRET, "too many recalls at once; not interpreted", failed=asked)
            return None
        left = looked.deadline.left(AFTER_MODEL)
        if asked:
            return left
        return left * UNASKED_SHARE if left >= LEAST_SECONDS else None


def _told(found: Interpreted, count: int) -> list[str]:
    """Return what is to be said of an interpretation of *count* memories."""
    if not found.memories:
        return [f"the model finds that none of {found.shown} memories helps"]
    if found.shown < count:
        return [f"only the first {found.shown} memories are interpreted"]
    return []


def reordered(ranked: Sequence[Ranked], count: int, *, useful: bool) -> list[int]:
    """Return the places 0 to *count* in a reranker's order, each once.

    What has no score, or of what is *useful* alone a score of no more than 0, follows in its own
    order.
    """
    first = dict.fromkeys(
        each.index for each in ranked if 0 <= each.index < count and (each.score > 0 or not useful)
    )
    return [*first, *(at for at in range(count) if at not in first)]


def _because(error: GralkorError, what: str) -> str:
    if isinstance(error, BudgetSpent):
        return f"the budget for models is spent; {what}"
    if isinstance(error, InterpretParseFailed):
        return f"the model's answer is of no use; {what}"
    return f"the model does not answer; {what}"
