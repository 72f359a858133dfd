"""Whether a call may be made that nobody waits for to recall: not where a budget is spent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from gralkord.errors import BudgetSpent
from gralkord.mailbox.budgets import Budgets, is_spent

if TYPE_CHECKING:
    from gralkord.clock import Clock
    from gralkord.groups import Group
    from gralkord.mailbox.ledger import SpendBook


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may still be spent today."""

    book: SpendBook
    budgets: Budgets
    clock: Clock

    async def permit(self, group: Group) -> None:
        """Let a model be asked on the account of *group*.

        Raises:
            BudgetSpent: The tenant, or the operator, has nothing left for today.
            BackendUnavailable: The queue does not answer.
        """
        today = self.clock.now().astimezone(UTC).date()
        names = [] if group.operator is None else [group.operator]
        whole, *own = await self.book.used(group.tenant, today, names)
        over = "tenant" if is_spent(self.budgets.of_tenant(group.tenant), whole) else None
        for name, used in zip(names, own, strict=True):
            if is_spent(self.budgets.of_operator(name), used):
                over = "operator"
        if over is not None:
            raise BudgetSpent(
                f"what may be spent on the {over} today is spent",
                field=f"budget.{over}",
                hint="it goes on at midnight UTC, or when the budget is raised",
            )
