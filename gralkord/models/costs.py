"""What model calls have cost: wire models."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gralkord.models.base import Identifier, Wire

CostsBy = Literal["stage", "lens", "operator", "model", "role", "day"]
COSTS_BY: Final[tuple[str, ...]] = get_args(CostsBy)
# Of so many days the ledger keeps rows.
MOST_DAYS: Final = 400
_FIRST_DAY: Final = date(1970, 1, 1)


def _parse_day(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f"{value[:64]!r} is no date such as 2026-05-01") from None
    return value


def _of_our_time(day: date) -> date:
    """Refuse days with which nothing can be reckoned."""
    if day < _FIRST_DAY:
        raise ValueError(f"must not be before {_FIRST_DAY}")
    return day


Day = Annotated[date, BeforeValidator(_parse_day), AfterValidator(_of_our_time)]


class CostsQuery(Wire):
    """Which model calls, and how they are put together. Days are days in UTC."""

    operator: Identifier | None = Field(None, description="Only those on this one's account.")
    by: CostsBy = Field("stage", description="What a row of the answer is about.")
    since: Day | None = Field(
        None, description="The first day, as 2026-05-01; default: 30 days up to the last."
    )
    until: Day | None = Field(None, description="The last day; default: today.")

    @model_validator(mode="after")
    def _in_order(self) -> CostsQuery:
        if self.since and self.until:
            if self.since > self.until:
                raise ValueError("since: must not be after `until`")
            if (self.until - self.since).days >= MOST_DAYS:
                raise ValueError(f"since: more days than are kept, the limit is {MOST_DAYS}")
        return self


class Spending(Wire):
    """What some model calls have used."""

    calls: int = 0
    prompt_tokens: int = Field(0, description="Tokens sent, the cached ones included.")
    cached_tokens: int = Field(0, description="Of them, what the provider had cached.")
    completion_tokens: int = Field(0, description="Tokens written.")
    seconds: float = Field(0.0, description="How long they took, all together.")
    usd: float = Field(0.0, description="US dollars, at the prices of the time of each call.")
    unpriced_calls: int = Field(0, description="Calls whose price was not known.")


class CostRow(Spending):
    """The calls that have one thing in common."""

    key: str | None = Field(
        description="The stage, lens, operator, model, role or day; nothing: of none, or of "
        "operators that are not told apart any more."
    )


class BudgetState(Wire):
    """A daily budget, and what of it is spent today."""

    operator: str | None = Field(description="Whose; nothing: of the whole tenant.")
    usd: float | None = Field(description="US dollars a day; nothing: not limited.")
    tokens: int | None = Field(description="Tokens a day, both ways; nothing: not limited.")
    spent_usd: float
    spent_tokens: int
    state: Literal["ok", "spent"] = Field(
        description="`spent`: nothing new is understood on this account until `resets_at`, or "
        "until the budget is raised."
    )
    resets_at: str = Field(description="Midnight UTC, ISO 8601.")


class Costs(Wire):
    """What model calls have used and cost."""

    since: str
    until: str
    by: CostsBy
    total: Spending
    rows: list[CostRow] = Field(description="The most expensive first; days in their order.")
    days_without_operators: int = Field(
        0,
        description="Days that do not tell operators apart any more: an operator's own calls of "
        "those days are not in the answer.",
    )
    budgets: list[BudgetState] = Field(
        default_factory=list, description="Budgets that there are, those of operators in use only."
    )
