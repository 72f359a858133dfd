"""What every model call is reported to, and asked before it is made: who pays, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from gralkord.config import Price
from gralkord.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gralkord.config import Budget
    from gralkord.groups import Group
    from gralkord.providers.endpoint import Endpoint

CalledRole = Literal["llm", "embedder", "reranker", "vision"]

# What runs on this machine costs nothing, unless the settings say otherwise.
FREE: Final = Price(input=0, output=0)


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


def check_prices(budget: Budget, endpoints: Iterable[Endpoint]) -> None:
    """Check that what is spent can be compared with a budget in dollars, if there is one.

    Args:
        budget: The budgets.
        endpoints: The models that are used.

    Raises:
        ConfigError: A price is not known; it names the setting.
    """
    if not budget.in_dollars:
        return
    for endpoint in endpoints:
        if endpoint.price is None:
            raise ConfigError(
                f"budget is in US dollars, but what {endpoint.spec} costs is not known",
                field=f'models.options."{endpoint.spec}".price',
                hint=f'set models.options."{endpoint.spec}".price, for instance '
                "{ input = 0.4, output = 1.6 } in dollars per million tokens, or a budget in "
                "tokens",
            )
