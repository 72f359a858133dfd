"""What the settings say of models all in all: options, prices and budgets."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from gralkord.doctor.findings import Finding
from gralkord.doctor.role import named
from gralkord.errors import ConfigError
from gralkord.providers.check import idle_options
from gralkord.providers.ledger import FREE
from gralkord.providers.specs import ROLES, parse_spec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from gralkord.config import BudgetLimits
    from gralkord.doctor.case import Case
    from gralkord.providers.build import Builder
    from gralkord.providers.endpoint import Endpoint

CHECKS: Final = ("options", "prices", "budget")
OLD_DAYS: Final = 365


async def look(case: Case) -> AsyncIterator[Finding]:
    """Yield what is found in the settings."""
    builder = case.builder()
    endpoints = dict(_endpoints(builder))
    yield options(builder)
    yield prices(case, endpoints)
    yield budget(case, endpoints)


def _endpoints(builder: Builder) -> Iterable[tuple[str, Endpoint]]:
    """Yield the models that can be named, by their specs; what cannot is told in its section."""
    before = [
        partial(parse_spec, written, "models.embedders_before", "embedder", builder.environ)
        for written in builder.models.embedders_before
    ]
    for named_by in (*(partial(named, builder, role) for role in ROLES), *before):
        try:
            spec = named_by()
            if spec is not None:
                yield spec.written, builder.endpoint(spec)
        except ConfigError:
            continue


def options(builder: Builder) -> Finding:
    """Judge whether each entry of `models.options` is of a model that *builder* has named."""
    name = "settings.options"
    idle = idle_options(builder)
    if not idle:
        return Finding(name, "ok", f"{len(builder.models.options)} models have options")
    specs = [each.spec for each in builder.built]
    return Finding(
        name,
        "warn",
        f"models.options names {', '.join(map(repr, idle))}, which no role uses",
        "write the spec as the role has it: " + (", ".join(specs) or "no role names a model"),
    )


def prices(case: Case, endpoints: Mapping[str, Endpoint]) -> Finding:
    """Judge whether the prices of all models are known."""
    name = "settings.prices"
    paid = {spec: each for spec, each in endpoints.items() if each.price != FREE}
    if not paid:
        return Finding(name, "ok", "no model costs anything")
    unknown = [spec for spec, each in paid.items() if each.price is None]
    if unknown:
        return Finding(
            name,
            "warn",
            f"the price of {', '.join(unknown)} is not known: its tokens are counted, not its cost",
            f'set models.options."{unknown[0]}".price',
        )
    today = case.clock.now().date()
    for spec, each in paid.items():
        since = each.price.since if each.price else None
        if since is not None and since > today:
            return Finding(
                name,
                "warn",
                f"the price of {spec} holds from {since} only",
                f'check models.options."{spec}".price.since',
            )
        if since is not None and today - since > timedelta(days=OLD_DAYS):
            return Finding(
                name,
                "warn",
                f"the price of {spec} is of {since}",
                "compare it with the provider's list of prices",
            )
    return Finding(name, "ok", f"the prices of {', '.join(paid)} are known")


def budget(case: Case, endpoints: Mapping[str, Endpoint]) -> Finding:
    """Say what may be spent, and whether that can be kept to."""
    name = "settings.budget"
    settings = case.settings.budget
    all_limits = {
        "tenant": settings.tenant,
        "operator": settings.operator,
        **{f"tenant {each}": limits for each, limits in settings.tenants.items()},
        **{f"operator {each}": limits for each, limits in settings.operators.items()},
    }
    told = [f"{who}: {words}" for who, limits in all_limits.items() if (words := _words(limits))]
    if not told:
        found = "no budget: what models cost is not limited"
        return Finding(name, "ok", found if endpoints else "no budget, and no model to pay for")
    unknown = [spec for spec, each in endpoints.items() if each.price is None]
    if unknown and any(limits.usd is not None for limits in all_limits.values()):
        return Finding(
            name,
            "fail",
            f"a budget in USD cannot be kept to without the price of {', '.join(unknown)}",
            f'set models.options."{unknown[0]}".price, or a budget in tokens',
        )
    return Finding(name, "ok", f"a day: {'; '.join(told)}")


def _words(limits: BudgetLimits) -> str:
    parts = [
        f"{limits.usd:g} USD" if limits.usd is not None else "",
        f"{limits.tokens} tokens" if limits.tokens is not None else "",
    ]
    return " and ".join(part for part in parts if part)
