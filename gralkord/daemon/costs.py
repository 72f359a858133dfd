"""What the ledger of model calls tells: reports, budgets, metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from gralkord.clock import Clock, to_iso
from gralkord.config import BudgetLimits
from gralkord.errors import GralkorError
from gralkord.mailbox.budgets import NANO, Budgets, Used, is_limited, is_spent
from gralkord.mailbox.ledger import Counts, LedgerRow, SpendBook
from gralkord.models.costs import (
    MOST_DAYS,
    BudgetState,
    CostRow,
    Costs,
    CostsQuery,
    Spending,
)

REPORTED_DAYS: Final = 30
# The budgets of more operators are not listed.
MOST_BUDGETS: Final = 100


@dataclass(frozen=True, slots=True)
class CostReports:
    """Implements `gralkord.rpc.costs.CostOperations`."""

    book: SpendBook
    budgets: Budgets
    clock: Clock

    async def report(self, tenant: str, query: CostsQuery) -> Costs:
        """Return what model calls have used and cost.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        until = query.until or max(query.since or self._today(), self._today())
        since = query.since or until - timedelta(days=REPORTED_DAYS - 1)
        since = max(since, until - timedelta(days=MOST_DAYS - 1))
        named = query.by == "operator" or query.operator is not None
        sums: dict[str | None, Counts] = {}
        unnamed_days = 0
        async for day, kept in self.book.days(tenant, since, until, by_operator=named):
            unnamed_days += kept is None
            rows = await self._without_operators(tenant, day) if kept is None else kept
            for row in rows:
                if query.operator in {None, row.operator}:
                    key = _key(row, query.by)
                    sums[key] = sums.get(key, Counts()) + row.counts
        total = sum(sums.values(), Counts())
        return Costs(
            since=since.isoformat(),
            until=until.isoformat(),
            by=query.by,
            total=Spending(**_spending(total)),
            rows=_rows(sums, by_day=query.by == "day"),
            days_without_operators=unnamed_days,
            budgets=(await self._states(tenant, query.operator))[: MOST_BUDGETS + 1],
        )

    async def state(self, tenant: str) -> dict[str, Any]:
        """Return how far the budgets of a tenant are spent, for `status`."""
        try:
            states = await self._states(tenant, None)
        except GralkorError as error:
            return {"state": error.message}
        if not states:
            return {"state": "none"}
        spent = [state for state in states if state.state == "spent"]
        whole = next((state for state in states if state.operator is None), None)
        return {
            "state": "spent" if whole in spent else "ok",
            "spent_usd": whole.spent_usd if whole else None,
            "spent_tokens": whole.spent_tokens if whole else None,
            "operators_spent": sum(state.operator is not None for state in spent),
            "resets_at": states[0].resets_at,
        }

    async def metrics(self, tenant: str) -> str:
        """Return counters of model calls in the text format of Prometheus.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        rows = await self.book.all_time(tenant)
        return "".join(_metrics(rows, await self._states(tenant, None)))

    async def _without_operators(self, tenant: str, day: date) -> list[LedgerRow]:
        days = self.book.days(tenant, day, day, by_operator=False)
        return [row async for _, rows in days for row in rows or ()]

    async def _states(self, tenant: str, operator: str | None) -> list[BudgetState]:
        today = self._today()
        names = self.budgets.named() if operator is None else [operator]
        whole, *own = await self.book.used(tenant, today, names)
        others = dict(zip(names, own, strict=True))
        if operator is None and self.budgets.of_each:
            others |= await self.book.used_by_all(tenant, today)
        accounts: list[tuple[str | None, BudgetLimits, Used]] = [
            (None, self.budgets.of_tenant(tenant), whole),
            *((name, self.budgets.of_operator(name), used) for name, used in others.items()),
        ]
        midnight = to_iso(datetime.combine(today + timedelta(days=1), time(), UTC))
        states = [_state(*each, resets_at=midnight) for each in accounts if is_limited(each[1])]
        return sorted(states, key=lambda each: (each.operator is not None, -each.spent_tokens))

    def _today(self) -> date:
        return self.clock.now().astimezone(UTC).date()


def _key(row: LedgerRow, by: str) -> str | None:
    if by == "day":
        return row.day.isoformat() if row.day else None
    value: str | None = getattr(row, by)
    return value or None


def _spending(counts: Counts) -> dict[str, Any]:
    return {
        "calls": counts.calls,
        "prompt_tokens": counts.prompt_tokens,
        "cached_tokens": counts.cached_tokens,
        "completion_tokens": counts.completion_tokens,
        "seconds": counts.milliseconds / 1000,
        "usd": counts.nano_usd / NANO,
        "unpriced_calls": counts.unpriced,
    }


def _rows(sums: Mapping[str | None, Counts], *, by_day: bool) -> list[CostRow]:
    def weight(each: tuple[str | None, Counts]) -> tuple[Any, ...]:
        key, counts = each
        if by_day:
            return (key or "",)
        return (-counts.nano_usd, -counts.prompt_tokens - counts.completion_tokens, key or "")

    return [
        CostRow(key=key, **_spending(counts)) for key, counts in sorted(sums.items(), key=weight)
    ]


def _state(
    operator: str | None, limits: BudgetLimits, used: Used, *, resets_at: str
) -> BudgetState:
    return BudgetState(
        operator=operator,
        usd=limits.usd,
        tokens=limits.tokens,
        spent_usd=used.nano_usd / NANO,
        spent_tokens=used.tokens,
        state="spent" if is_spent(limits, used) else "ok",
        resets_at=resets_at,
    )


_COUNTERS: Final[tuple[tuple[str, str, Callable[[Counts], float]], ...]] = (
    ("calls_total", "Model calls that were answered.", lambda one: one.calls),
    ("prompt_tokens_total", "Tokens sent, cached ones included.", lambda one: one.prompt_tokens),
    ("cached_tokens_total", "Tokens sent that were cached.", lambda one: one.cached_tokens),
    ("completion_tokens_total", "Tokens written.", lambda one: one.completion_tokens),
    ("seconds_total", "Seconds that calls took.", lambda one: one.milliseconds / 1000),
    ("cost_usd_total", "US dollars that calls cost.", lambda one: one.nano_usd / NANO),
    ("unpriced_calls_total", "Calls whose price was not known.", lambda one: one.unpriced),
)


def _metrics(rows: Iterable[LedgerRow], budgets: Iterable[BudgetState]) -> Iterator[str]:
    """Yield metrics; lenses and operators are left out, for there may be very many."""
    sums: dict[tuple[str, str, str], Counts] = {}
    for row in rows:
        kind = (row.role, row.model, row.stage)
        sums[kind] = sums.get(kind, Counts()) + row.counts
    for name, meaning, read in _COUNTERS:
        yield f"# HELP gralkord_model_{name} {meaning}\n# TYPE gralkord_model_{name} counter\n"
        for (role, model, stage), counts in sorted(sums.items()):
            labels = _labels(role=role, model=model, stage=stage)
            yield f"gralkord_model_{name}{labels} {read(counts)}\n"
    yield "# HELP gralkord_budgets_spent Daily budgets that are spent.\n"
    yield "# TYPE gralkord_budgets_spent gauge\n"
    spent = [state.operator is None for state in budgets if state.state == "spent"]
    yield f'gralkord_budgets_spent{{whose="tenant"}} {spent.count(True)}\n'
    yield f'gralkord_budgets_spent{{whose="operator"}} {spent.count(False)}\n'


def _labels(**labels: str) -> str:
    escaped = {
        name: value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
