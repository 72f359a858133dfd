"""What model calls have cost, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from gralkord.client.calls import Call, reader
from gralkord.models.costs import Costs, CostsBy, CostsQuery
from gralkord.wire import read_model

if TYPE_CHECKING:
    from datetime import date

Answer = TypeVar("Answer")


def costs(**query: Any) -> Call[Costs]:
    """Return the call that asks what model calls have cost.

    Raises:
        InvalidInput: A part of the question is not acceptable.
    """
    given = {name: value for name, value in query.items() if value is not None}
    asked = read_model(CostsQuery, given)
    values = asked.model_dump(mode="json", exclude_none=True)
    return Call("GET", f"/v1/costs?{urlencode(values)}", reader(Costs))


class AsyncCosting:
    """The part of the asynchronous client that asks for costs."""

    async def costs(
        self,
        by: CostsBy = "stage",
        *,
        operator: str | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
    ) -> Costs:
        """Return what model calls have used and cost, and how far daily budgets are spent.

        Args:
            by: What a row of the answer is about.
            operator: Only calls on this one's account; default: all.
            since: The first day, UTC; default: 30 days up to the last.
            until: The last day, UTC; default: today.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(costs(by=by, operator=operator, since=since, until=until))

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Costing:
    """The part of the synchronous client that asks for costs."""

    def costs(
        self,
        by: CostsBy = "stage",
        *,
        operator: str | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
    ) -> Costs:
        """Return what model calls have used and cost, and how far daily budgets are spent.

        Args:
            by: What a row of the answer is about.
            operator: Only calls on this one's account; default: all.
            since: The first day, UTC; default: 30 days up to the last.
            until: The last day, UTC; default: today.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(costs(by=by, operator=operator, since=since, until=until))

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
