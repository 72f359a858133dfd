"""The ledger in the queue: what model calls were made on whose account, day by day."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import date, timedelta
from typing import Any, Final

import orjson
from redis.asyncio import Redis

from gralkord.groups import escape, unescape
from gralkord.mailbox.budgets import Used
from gralkord.mailbox.connection import queue_errors
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.scripts import Scripts

KEPT_DAYS: Final = 400
# What a ledger may take: rows have some 150 bytes, and the queue holds what is captured as well.
MOST_ROWS: Final = 1_000
MOST_NAMED_ROWS: Final = 10_000
MOST_NAMED_KEPT: Final = 100_000
_STAGE_CHARS: Final = 64
_EPOCH: Final = date(1970, 1, 1)
_NOBODY: Final = "-"
_OTHERS: Final = "*"
_SCANNED: Final = 1_000
_DAYS_AT_ONCE: Final = 31


@dataclass(frozen=True, slots=True)
class Account:
    """What a row of the ledger is about.

    Attributes:
        tenant: Who pays.
        operator: Of whom; None: what all share.
        lens: Of which lens; None: of none in particular.
        role: What the model was used for.
        model: Its spec without the address.
        stage: What was being done.
        day: The day, UTC.
    """

    tenant: str
    operator: str | None
    lens: str | None
    role: str
    model: str
    stage: str
    day: date

    def row(self) -> list[Any]:
        """Return it as the script takes it."""
        parts = (self.role, self.model, self.stage[:_STAGE_CHARS], self.lens)
        return [
            escape(self.tenant),
            _named(self.operator),
            " ".join(_named(part) for part in parts),
            day_number(self.day),
        ]


@dataclass(frozen=True, slots=True)
class Counts:
    """What calls have used.

    Attributes:
        calls: How many there were.
        prompt_tokens: Sent, the cached ones included.
        cached_tokens: Of them, what the provider had cached.
        completion_tokens: Written.
        milliseconds: How long they took, all together.
        nano_usd: What they cost, in billionths of a US dollar, as far as that is known.
        unpriced: How many of the calls have no known price.
    """

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: int = 0
    nano_usd: int = 0
    unpriced: int = 0

    def __add__(self, other: Counts) -> Counts:
        both = zip(astuple(self), astuple(other), strict=True)
        return Counts(*(one + more for one, more in both))


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One row of a day.

    Attributes:
        day: The day; None: of all time.
        operator: Of whom; None: shared, or not told apart.
        others: Whether operators are no longer told apart in it.
        role: What the models were used for.
        model: Spec without the address.
        stage: What was being done.
        lens: Of which lens.
        counts: What was used.
    """

    day: date | None
    operator: str | None
    others: bool
    role: str
    model: str
    stage: str
    lens: str
    counts: Counts


@dataclass(frozen=True, slots=True)
class Spent:
    """Of one row's accounts what is used up: of the tenant's day and of the operator's."""

    tenant: Used
    operator: Used


class SpendBook:
    """Reads and writes the ledger in the queue Redis."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._scripts = Scripts(client, keys.prefix)

    async def add(
        self, writer: str, number: int, rows: Sequence[tuple[Account, Counts]]
    ) -> list[Spent]:
        """Add to rows, once for each *number*; return what the accounts of each have used up.

        Args:
            writer: Name of this process's ledger.
            number: Of this delivery; larger than the one before, or the same to send it again.
            rows: What was used, on whose account.

        Raises:
            BackendUnavailable: The queue does not answer; the rows may have been added.
        """
        written = [[*account.row(), *astuple(counts)] for account, counts in rows]
        answers = await self._scripts.call(
            "spend",
            writer,
            number,
            orjson.dumps(written),
            KEPT_DAYS,
            MOST_ROWS,
            MOST_NAMED_ROWS,
            MOST_NAMED_KEPT,
        )
        return [Spent(Used.read(tenant), Used.read(operator)) for tenant, operator in answers]

    async def used(self, tenant: str, day: date, operators: Sequence[str] = ()) -> list[Used]:
        """Return what was used up on a day, of a tenant and then of some of its operators.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        key = self._keys.spent(tenant, day_number(day))
        with queue_errors():
            raw: Any = await self._client.hmget(key, [_OTHERS, *map(escape, operators)])
        return [Used.read(each) for each in raw]

    async def used_by_all(self, tenant: str, day: date) -> dict[str, Used]:
        """Return what each operator of a tenant has used up on a day.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        key = self._keys.spent(tenant, day_number(day))
        with queue_errors():
            raw: Any = await self._client.hgetall(key)
        read = {name.decode(): Used.read(value) for name, value in raw.items()}
        return {unescape(name): used for name, used in read.items() if name != _OTHERS}

    async def days(
        self, tenant: str, since: date, until: date, *, by_operator: bool
    ) -> AsyncIterator[tuple[date, list[LedgerRow] | None]]:
        """Yield the rows of each day that has some, in order.

        Args:
            tenant: Whose.
            since: The first day.
            until: The last day.
            by_operator: Whether operators are told apart. Days of which that is not kept any more
                have None.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        name = "spenders" if by_operator else "spend"
        days = [since + timedelta(days=offset) for offset in range((until - since).days + 1)]
        for start in range(0, len(days), _DAYS_AT_ONCE):
            some = days[start : start + _DAYS_AT_ONCE]
            with queue_errors():
                pipe = self._client.pipeline(transaction=False)
                for day in some:
                    pipe.hgetall(self._keys.ledger(name, tenant, day_number(day)))
                    pipe.exists(self._keys.ledger("spend", tenant, day_number(day)))
                found = await pipe.execute()
            for day, raw, known in zip(some, found[::2], found[1::2], strict=True):
                if raw or known:
                    yield day, _rows(raw, day, named=by_operator) if raw else None

    async def all_time(self, tenant: str) -> list[LedgerRow]:
        """Return what was used since the ledger began, without operators.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        with queue_errors():
            raw: Any = await self._client.hgetall(self._keys.ledger("spend", tenant, "all"))
        return _rows(raw, None, named=False)

    async def budget_held(self, tenant: str, flush: str) -> bool:
        """Return whether a flush waits for what is not begun, because a budget is spent.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        return bool(await self._scripts.call("budget_held", f"{escape(tenant)}:{flush}"))

    async def forget(self, tenant: str, operator: str | None) -> int:
        """Forget who an operator is, or all of a tenant's; what was spent stays with the tenant.

        Returns:
            How many rows named them.

        Raises:
            BackendUnavailable: The queue does not answer.
        """
        head = self._keys.named(f"spenders:{escape(tenant)}:")
        taken = 0
        with queue_errors():
            found = [key async for key in self._client.scan_iter(f"{head}*", count=_SCANNED)]
        for key in found:
            day = key.decode().removeprefix(head)
            whose = "" if operator is None else escape(operator)
            taken += await self._scripts.call("spend_forget", escape(tenant), day, whose)
        return taken


def day_number(day: date) -> int:
    """Return *day* as keys name it: days since 1970."""
    return (day - _EPOCH).days


def _named(part: str | None) -> str:
    return escape(part) if part else _NOBODY


def _rows(raw: Mapping[bytes, bytes], day: date | None, *, named: bool) -> list[LedgerRow]:
    rows: list[LedgerRow] = []
    for field, value in raw.items():
        who, *parts = field.decode().split(" ") if named else ("-", *field.decode().split(" "))
        role, model, stage, lens = ("" if part == _NOBODY else unescape(part) for part in parts)
        rows.append(
            LedgerRow(
                day=day,
                operator=None if who in {_NOBODY, _OTHERS} else unescape(who),
                others=who == _OTHERS,
                role=role,
                model=model,
                stage=stage,
                lens=lens,
                counts=Counts(*(int(number) for number in value.split())),
            )
        )
    return rows
