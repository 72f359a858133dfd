"""The ledger that all processes share: in the queue, for the model calls of this one."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from datetime import UTC, date
from typing import Final

import structlog

from gralkord.clock import Clock
from gralkord.errors import BudgetSpent, GralkorError
from gralkord.groups import DEFAULT_LENS, DEFAULT_TENANT, Group
from gralkord.mailbox.budgets import NANO, OVER, Budgets, Used, is_spent
from gralkord.mailbox.ledger import Account, Counts, SpendBook
from gralkord.providers.ledger import Call

# So much later a call is answered at most, if the queue does not answer, ...
_WAIT_SECONDS: Final = 0.5
# ... and so long it is not told again.
_PAUSE_SECONDS: Final = 2.0
# More kinds of calls than any queue's outage should bring; what is beyond is not told apart.
MOST_PENDING: Final = 10_000
# Of so many accounts it is known what they have used up; of others nothing is refused here.
MOST_KNOWN: Final = 10_000

log = structlog.get_logger(__name__)


class SharedLedger:
    """Implements `gralkord.providers.ledger.Ledger` for any number of processes.

    While the queue does not answer, what is to be told is kept here and told later: no call fails
    for it. What a process that is killed has not told by then is lost.

    Args:
        book: The ledger in the queue.
        budgets: What may be spent; None: nothing is refused here, as in a daemon, whose calls serve
            those who recall.
        clock: Says which day it is.
        new_id: Makes the name under which this process writes.
    """

    def __init__(
        self,
        book: SpendBook,
        budgets: Budgets | None,
        clock: Clock,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._book = book
        self._budgets = budgets
        self._clock = clock
        self._writer = new_id()
        self._number = 0
        self._pending: dict[Account, Counts] = {}
        self._sent: dict[Account, Counts] = {}
        self._spent: dict[tuple[str, str | None], tuple[date, Used]] = {}
        self._silent_until = 0.0
        self._lock = asyncio.Lock()
        self._later: asyncio.Task[None] | None = None

    async def permit(self, group: Group | None) -> None:
        """Let a model be asked for an episode that is under way.

        A new one is not begun once a budget is spent (see ``lua/acquire.lua``); one that was begun
        may use a tenth more of it. Calls that are under way together are let pass together.

        Raises:
            BudgetSpent: That is used up as well.
        """
        if self._budgets is None or group is None or self._over(group) is None:
            return
        with contextlib.suppress(GralkorError, TimeoutError):
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._look(group)
        over = self._over(group)
        if over is not None:
            raise BudgetSpent(
                f"what may be spent on the {over} today is spent",
                field=f"budget.{over}",
                hint="it goes on at midnight UTC, or when the budget is raised",
            )

    async def record(self, call: Call) -> None:
        """Keep account of *call*; it never fails."""
        group = call.group or Group(DEFAULT_TENANT)
        shared = call.group is not None and group.operator is None
        account = Account(
            tenant=group.tenant,
            operator=group.operator,
            lens="global" if shared else group.lens or (DEFAULT_LENS if group.operator else None),
            role=call.role,
            model=call.model,
            stage=call.stage,
            day=self._clock.now().astimezone(UTC).date(),
        )
        self._note(account, _counts(call))
        await self._tell()

    async def close(self) -> None:
        """Tell what is left, as far as the queue answers."""
        if self._later is not None:
            self._later.cancel()
            await asyncio.gather(self._later, return_exceptions=True)
            self._later = None
        self._silent_until = 0.0
        if not await self._told():
            left = sum(counts.calls for counts in (*self._pending.values(), *self._sent.values()))
            log.warning("model_calls_not_accounted", calls=left)

    def _note(self, account: Account, counts: Counts) -> None:
        if account not in self._pending and len(self._pending) >= MOST_PENDING:
            account = Account(account.tenant, None, None, account.role, "", "", account.day)
        self._pending[account] = self._pending.get(account, Counts()) + counts

    async def _tell(self) -> None:
        """Tell what waits to be told; what cannot be told now is told later."""
        try:
            told = await self._told()
        except asyncio.CancelledError:
            self._come_back()
            raise
        if not told:
            self._come_back()

    def _come_back(self) -> None:
        if self._later is None or self._later.done():
            self._later = asyncio.create_task(self._go_on())

    async def _go_on(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            if await self._told():
                return

    async def _told(self) -> bool:
        """Tell what waits, in deliveries of one round trip; return whether nothing is left."""
        async with self._lock:
            while self._sent or self._pending:
                if self._clock.monotonic() < self._silent_until:
                    return False
                if not self._sent:
                    self._sent, self._pending = self._pending, {}
                    self._number += 1
                try:
                    await self._deliver()
                except (GralkorError, TimeoutError) as error:
                    log.debug("ledger_left_out", reason=str(error))
                    self._silent_until = self._clock.monotonic() + _PAUSE_SECONDS
                    return False
        return True

    async def _deliver(self) -> None:
        rows = list(self._sent.items())
        async with asyncio.timeout(_WAIT_SECONDS):
            spent = await self._book.add(self._writer, self._number, rows)
        # Where this is not reached they are sent again under the same number, and counted once.
        self._sent = {}
        if len(self._spent) > MOST_KNOWN:
            self._spent.clear()
        for (account, _), found in zip(rows, spent, strict=True):
            self._learn(account.tenant, None, account.day, found.tenant)
            if account.operator is not None:
                self._learn(account.tenant, account.operator, account.day, found.operator)

    def _learn(self, tenant: str, operator: str | None, day: date, used: Used) -> None:
        """Note what an account has used up; say it when its budget was spent just now."""
        known = self._spent.get((tenant, operator))
        self._spent[tenant, operator] = day, used
        if self._budgets is None or known is None or known[0] != day:
            return
        budgets = self._budgets
        limits = budgets.of_tenant(tenant) if operator is None else budgets.of_operator(operator)
        if is_spent(limits, used) and not is_spent(limits, known[1]):
            log.warning("budget_spent", tenant=tenant, operator=operator)

    def _over(self, group: Group) -> str | None:
        """Return of whom, as far as is known here, more is spent than an episode may use."""
        assert self._budgets is not None
        today = self._clock.now().astimezone(UTC).date()
        names = (("tenant", None), ("operator", group.operator))
        for limits, (name, whose) in zip(self._budgets.of(group), names, strict=False):
            day, used = self._spent.get((group.tenant, whose), (today, Used()))
            if day == today and is_spent(limits, used, OVER):
                return name
        return None

    async def _look(self, group: Group) -> None:
        today = self._clock.now().astimezone(UTC).date()
        operators = [] if group.operator is None else [group.operator]
        found = await self._book.used(group.tenant, today, operators)
        for whose, used in zip((None, *operators), found, strict=True):
            self._learn(group.tenant, whose, today, used)


def _counts(call: Call) -> Counts:
    cost = call.cost_usd
    return Counts(
        calls=1,
        prompt_tokens=call.prompt_tokens,
        cached_tokens=call.cached_tokens,
        completion_tokens=call.completion_tokens,
        milliseconds=round(call.seconds * 1000),
        nano_usd=round((cost or 0.0) * NANO),
        unpriced=int(cost is None),
    )
