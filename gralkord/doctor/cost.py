"""What the samples may cost, before they are asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gralkord.doctor import samples
from gralkord.doctor.role import named
from gralkord.errors import ConfigError
from gralkord.providers.ledger import Call
from gralkord.providers.specs import PROVIDERS, ROLES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from gralkord.doctor.case import Case
    from gralkord.providers.endpoint import Endpoint
    from gralkord.providers.specs import Role


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the samples take at most.

    Attributes:
        calls: How many calls.
        tokens: How many tokens, both ways.
        cost_usd: What they cost, as far as prices are known.
        unpriced: The models whose price is not known and that may cost something.
    """

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    unpriced: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.calls:
            return "no model is asked"
        words = f"models get at most {self.calls} calls of {self.tokens:,} tokens in all"
        if self.cost_usd:
            words += f", {self.cost_usd:.4f} USD"
        if self.unpriced:
            words += f", and the price of {', '.join(self.unpriced)} is not known"
        return f"{words}; --offline asks none"

    def to_dict(self) -> dict[str, Any]:
        """Return the form for machines."""
        return {
            "calls": self.calls,
            "tokens": self.tokens,
            "cost_usd": round(self.cost_usd, 6),
            "unpriced": list(self.unpriced),
        }


def estimate(case: Case, only: Collection[str]) -> Estimate:
    """Return what the samples take at most, without a repeat after a failure of the network.

    Args:
        case: What is looked at.
        only: Sections and checks that are wanted; empty: everything.
    """
    if case.offline:
        return Estimate()
    calls = list(_calls(case, only))
    return Estimate(
        calls=sum(number for number, _, _ in calls),
        tokens=sum(call.prompt_tokens + call.completion_tokens for _, call, _ in calls),
        cost_usd=sum(call.cost_usd or 0.0 for _, call, _ in calls),
        unpriced=tuple(
            dict.fromkeys(
                each.spec for _, call, each in calls if call.cost_usd is None and not each.loopback
            )
        ),
    )


def _calls(case: Case, only: Collection[str]) -> Iterator[tuple[int, Call, Endpoint]]:
    builder = case.builder()
    for role in ROLES:
        if only and not any(name.partition(".")[0] == role for name in only):
            continue
        if role == "embedder" and not _remote(builder.written("embedder")[0]):
            continue
        try:
            spec = named(builder, role)
            if spec is None:
                continue
            endpoint = builder.endpoint(spec)
        except ConfigError:
            continue  # told in the section of the role
        number, sent, written = _sample(role)
        yield number, _call(role, endpoint, sent, written), endpoint
        if case.long and role in {"llm", "llm_small"}:
            # Once more, should the answer have to be repaired.
            sent, written = samples.tokens_of_length(case.longest)
            yield 2, _call(role, endpoint, 2 * sent, 2 * written), endpoint


def _remote(written: str) -> bool:
    return written.partition(":")[0].strip() in PROVIDERS


def _sample(role: Role) -> tuple[int, int, int]:
    """Return calls, tokens sent and tokens written."""
    if role == "embedder":
        return 2, samples.tokens_of_texts(), 0
    if role == "reranker":
        return 1, samples.tokens_of_texts(), 0
    return 2, *samples.tokens_of_chat()


def _call(role: Role, endpoint: Endpoint, sent: int, written: int) -> Call:
    return Call(
        role="llm" if role == "llm_small" else role,
        model=endpoint.ledger_name,
        stage="doctor",
        group=None,
        prompt_tokens=sent,
        cached_tokens=0,
        completion_tokens=written,
        seconds=0.0,
        price=endpoint.price,
    )
