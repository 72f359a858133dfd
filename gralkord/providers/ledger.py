"""What every model call is reported to, and asked before it is made: who pays, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from gralkord.config import Price
    from gralkord.groups import Group

CalledRole = Literal["llm", "embedder", "reranker", "vision"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a provider has answered, whether or not its answer was of use.

    Attributes:
        role: What the model is used for.
        model: Its spec without the address, as in ``openai:gpt-5``.
        stage: What was being done.
        group: On whose account; None: nobody's in particular.
        prompt_tokens: Sent, the cached ones included.
        cached_tokens: Of them, what the provider had cached.
        completion_tokens: Written, thinking included.
        seconds: From sending to the last byte.
        price: What the model costs, if that is known.
    """

    role: CalledRole
    model: str
    stage: str
    group: Group | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    seconds: float
    price: Price | None = None

    @property
    def cost_usd(self) -> float | None:
        """What it cost; None where the price is not known."""
        if self.price is None:
            return None
        cached = self.price.input if self.price.cached is None else self.price.cached
        fresh = max(self.prompt_tokens - self.cached_tokens, 0)
        millionths = (
            fresh * self.price.input
            + self.cached_tokens * cached
            + self.completion_tokens * self.price.output
        )
        return millionths / 1e6


class Ledger(Protocol):
    """Keeps account of model calls."""

    async def permit(self, group: Group | None) -> None:
        """Let a language model be asked on this account.

        Raises:
            BudgetSpent: Nothing is left for today.
        """
        ...

    async def record(self, call: Call) -> None:
        """Keep account of *call*. It never fails: what was paid is not thrown away for that."""
        ...


class NoLedger:
    """Implements `Ledger` where nobody keeps account."""

    async def permit(self, group: Group | None) -> None:
        """Let everything pass."""

    async def record(self, call: Call) -> None:
        """Forget it."""
