"""What a daemon may ask models for that nobody waits for."""

from __future__ import annotations

import pytest
from test_ledger import ANN, BOB, STRANGER, budgets
from test_ledger import call as model_call

from gralkord.clock import SystemClock
from gralkord.daemon.allowance import Allowance
from gralkord.errors import BudgetSpent
from gralkord.groups import Group
from gralkord.mailbox.ledger import SpendBook
from gralkord.turns.ledger import SharedLedger


@pytest.mark.parametrize(
    ("limits", "over"), [({"operators": {"ann": {"tokens": 100}}}, "operator"), ({"tenant": {"tokens": 100}}, "tenant")]
)  # fmt: skip
async def test_nothing_is_asked_once_a_budget_is_spent(queue, keys, limits, over):
    """The operator's or the tenant's; others have theirs."""
    book, clock = SpendBook(queue, keys), SystemClock()
    allowance = Allowance(book, budgets(**limits), clock)
    await allowance.permit(ANN)
    ledger = SharedLedger(book, None, clock)
    await ledger.record(model_call(ANN, tokens=100))
    with pytest.raises(BudgetSpent, match=over):
        await allowance.permit(ANN)
    await allowance.permit(STRANGER)
    if over == "operator":
        await allowance.permit(BOB)
        await allowance.permit(Group("default"))
