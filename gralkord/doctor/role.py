"""What all roles have in common: the spec, the key, the address."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

import httpx

from gralkord import __version__
from gralkord.doctor.findings import Finding, of_error
from gralkord.doctor.server import skew_finding
from gralkord.errors import ConfigError
from gralkord.providers.http import what_is_wrong

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gralkord.clock import Clock
    from gralkord.doctor.case import Case
    from gralkord.providers.build import Builder
    from gralkord.providers.endpoint import Endpoint
    from gralkord.providers.specs import ModelSpec, Role

ADDRESS_SECONDS: Final = 10.0
VISITS: Final = 3
# Some tell the time of an answer that was made before.
BEARABLE_SECONDS: Final = 10.0
# All that a role is checked for before it is asked anything.
BASICS: Final = ("settings", "address", "clock")
# These may name the language model as ``llm``.
_BORROWERS: Final = ("reranker", "vision")


def named(builder: Builder, role: Role) -> ModelSpec | None:
    """Return the model that has *role*, also where that is the language model; None: nobody has.

    Raises:
        ConfigError: It is no spec, or of a language model that is not there.
    """
    if role not in _BORROWERS or builder.written(role)[0].strip() != "llm":
        return builder.spec(role)
    spec = builder.spec("llm")
    if spec is None:
        raise ConfigError(
            f"models.{role} is 'llm', but models.llm names none", field=f"models.{role}"
        )
    return spec


async def basics(case: Case, role: Role) -> AsyncIterator[Finding]:
    """Yield settings, address and clock; where the last is missing, nobody can be asked."""
    found, endpoint = settings(case, role)
    yield found
    if endpoint is not None:
        async for found in reach(case, role, endpoint):
            yield found


def settings(case: Case, role: Role) -> tuple[Finding, Endpoint | None]:
    """Return what the settings say of *role*, and its endpoint if it has one."""
    name = f"{role}.settings"
    builder = case.builder()
    try:
        spec = named(builder, role)
        if spec is None:
            return Finding(name, "skip", NOBODY[role]), None
        endpoint = builder.endpoint(spec)
    except ConfigError as error:
        return of_error(name, error), None
    key = f"with the key of {endpoint.key_source}" if endpoint.key else "without a key"
    known = {
        "spec": endpoint.spec,
        "base_url": endpoint.base_url,
        "key": endpoint.key_source if endpoint.key else None,
    }
    found = f"{endpoint.model} at {endpoint.base_url}, {key}"
    if endpoint.key and endpoint.base_url.startswith("http:") and not endpoint.loopback:
        return Finding(name, "warn", f"{found}, sent unencrypted", "use https", known), endpoint
    return Finding(name, "ok", found, facts=known), endpoint


NOBODY: Final[dict[Role, str]] = {
    "llm": "no language model: what is captured can be recalled, and is not understood",
    "llm_small": "the same as llm",
    "embedder": "no embedder: memory is searched by words alone",
    "reranker": "no reranker",
    "vision": "no model for images",
}


async def reach(case: Case, role: Role, endpoint: Endpoint) -> AsyncIterator[Finding]:
    """Yield whether the provider can be reached, and its clock; nothing is asked of a model."""
    name = f"{role}.address"
    if case.offline:
        yield Finding(name, "skip", "no model is asked when offline")
        return
    try:
        seconds, status, said = await _visit(endpoint)
    except httpx.RequestError as error:
        yield Finding(
            name,
            "fail",
            f"{endpoint.base_url} cannot be reached: {what_is_wrong(error)}",
            "is a server running there? Does a proxy or firewall stand between?",
        )
        return
    known = {"milliseconds": round(seconds * 1000, 1), "status": status}
    yield Finding(
        name, "ok", f"{endpoint.base_url} answers in {seconds * 1000:.0f} ms", facts=known
    )
    yield clock(f"{role}.clock", said, seconds, case.clock)


async def _visit(endpoint: Endpoint) -> tuple[float, int, httpx.Headers]:
    options = {
        "headers": {"User-Agent": f"gralkord/{__version__}"},
        "timeout": ADDRESS_SECONDS,
        "trust_env": not endpoint.loopback,
    }
    async with httpx.AsyncClient(**options) as client:  # type: ignore[arg-type]
        # Without the key: any answer will do, also a refusal. The first one makes the connection.
        fastest = float("inf")
        for _ in range(VISITS):
            began = time.perf_counter()
            async with client.stream("GET", endpoint.base_url) as answer:
                fastest = min(fastest, time.perf_counter() - began)
                await answer.aread()
        return fastest, answer.status_code, answer.headers


def clock(name: str, said: httpx.Headers, seconds: float, ours: Clock) -> Finding:
    """Judge our clock by the one of a provider.

    Args:
        name: The check's.
        said: The headers of an answer of the provider.
        seconds: How long the answer took.
        ours: Our clock.
    """
    try:
        told = parsedate_to_datetime(said.get("Date", ""))
    except (TypeError, ValueError):
        return Finding(name, "skip", "the provider does not tell its time")
    if "Age" in said:
        return Finding(name, "skip", "the answer was not fresh")
    # It tells whole seconds, of a moment between request and answer.
    skew = (told - ours.now()).total_seconds() + 0.5 + seconds / 2
    doubt = 1.0 + seconds / 2
    skew = 0.0 if abs(skew) <= doubt else skew
    found = skew_finding(name, skew, BEARABLE_SECONDS)
    if found.state != "ok":
        return Finding(
            name, "warn", found.found, "let this machine set its clock by NTP", found.facts
        )
    return found
