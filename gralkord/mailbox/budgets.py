"""Daily budgets: what may be spent on the models for one group, and of whom that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gralkord.config import Budget, BudgetLimits
from gralkord.groups import Group

# Dollars are counted in billionths: to embed a question costs less than a millionth.
NANO: Final = 1_000_000_000
# An episode that is under way when a budget is spent may use so much more of it.
OVER: Final = 1.1


@dataclass(frozen=True, slots=True)
class Used:
    """What an account has used up on a day.

    Attributes:
        nano_usd: Billionths of a US dollar.
        tokens: Tokens, both ways.
    """

    nano_usd: int = 0
    tokens: int = 0

    @classmethod
    def read(cls, raw: bytes | None) -> Used:
        """Return what the queue keeps of an account."""
        return cls(*(int(number) for number in raw.split())) if raw else cls()


class Budgets:
    """The budgets that the settings name."""

    def __init__(self, settings: Budget) -> None:
        self._settings = settings

    def of_tenant(self, tenant: str) -> BudgetLimits:
        """Return what may be spent on a tenant in a day."""
        return self._settings.tenants.get(tenant, self._settings.tenant)

    def of_operator(self, operator: str) -> BudgetLimits:
        """Return what may be spent on an operator in a day."""
        return self._settings.operators.get(operator, self._settings.operator)

    @property
    def of_each(self) -> bool:
        """Whether every operator has a budget, not only those that are named."""
        return is_limited(self._settings.operator)

    def named(self) -> list[str]:
        """Return the operators that have a budget of their own."""
        return list(self._settings.operators)

    def of(self, group: Group) -> tuple[BudgetLimits, ...]:
        """Return the budgets of a group's accounts: the tenant's, and its operator's."""
        tenant = self.of_tenant(group.tenant)
        return (tenant,) if group.operator is None else (tenant, self.of_operator(group.operator))

    def limits(self, group: Group) -> tuple[int, ...]:
        """Return nano-dollars and tokens of each account of *group*, as scripts take them."""
        return tuple(number for each in self.of(group) for number in _numbers(each))


def is_limited(limits: BudgetLimits) -> bool:
    """Return whether there is a budget at all."""
    return limits.usd is not None or limits.tokens is not None


def is_spent(limits: BudgetLimits, used: Used, times: float = 1.0) -> bool:
    """Return whether *used* has reached *times* the budget."""
    usd, tokens = limits.usd, limits.tokens
    return (usd is not None and used.nano_usd >= usd * NANO * times) or (
        tokens is not None and used.tokens >= tokens * times
    )


def _numbers(limits: BudgetLimits) -> tuple[int, int]:
    usd = -1 if limits.usd is None else round(limits.usd * NANO)
    return usd, -1 if limits.tokens is None else limits.tokens
