"""What a provider's answer other than 200 means: wait, mend the settings, or give the work up."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import httpx
import structlog

from gralkord.errors import ConfigError, GralkorError, ModelOutage, Permanent, RateLimited

if TYPE_CHECKING:
    from gralkord.clock import Clock
    from gralkord.providers.endpoint import Endpoint

LONGEST_WAIT_SECONDS: Final = 3_600.0
QUOTA_WAIT_SECONDS: Final = 300.0
UNREADY: Final = frozenset({408, 409, 425})

log = structlog.get_logger(__name__)


class Hiccup(ModelOutage):
    """The provider failed at one request, and said nothing of the next."""


class QuotaSpent(RateLimited):
    """The provider's quota is spent: asking again soon is of no use."""


def refusal(endpoint: Endpoint, response: httpx.Response, clock: Clock) -> GralkorError:
    """Return the error that *response*, which is not a 200, stands for.

    The provider's own sentence is left out, because it may repeat what it was sent.

    Args:
        endpoint: Who answered.
        response: Read to its end.
        clock: For a Retry-After that names a date.
    """
    status = response.status_code
    code = _code(response)
    log.debug("model_refused", status=status, code=code, body=response.text[:500])
    if status == httpx.codes.TOO_MANY_REQUESTS:
        return _slow_down(endpoint, code, _retry_after(response.headers, clock))
    if status >= 500 or status in UNREADY:
        wait = _retry_after(response.headers, clock)
        kind = Hiccup if wait is None else ModelOutage
        return kind(f"{endpoint.spec}: the provider answers {status}", retry_after=wait)
    mend = _what_to_mend(endpoint, status)
    if mend is not None:
        problem, hint = mend
        return ConfigError(f"{endpoint.spec}: {problem} ({status})", hint=hint)
    return Permanent(
        f"{endpoint.spec}: the provider refuses the request ({f'{status} {code}'.rstrip()})"
    )


def inner_refusal(
    endpoint: Endpoint, response: httpx.Response, error: Any, clock: Clock
) -> GralkorError:
    """Return the error in a 200 of a gateway that reports how the provider behind it failed."""
    code = str(error.get("code")) if isinstance(error, dict) else ""
    status = int(code) if re.fullmatch(r"[345]\d\d", code) else httpx.codes.BAD_GATEWAY
    headers = {"Retry-After": response.headers.get("Retry-After", "")}
    return refusal(endpoint, httpx.Response(status, json={"error": error}, headers=headers), clock)


def _slow_down(endpoint: Endpoint, code: str, wait: float | None) -> RateLimited:
    if code == "insufficient_quota":
        return QuotaSpent(
            f"{endpoint.spec}: the provider's quota is spent",
            hint="add credit at the provider, or name another model in models.llm",
            retry_after=wait or QUOTA_WAIT_SECONDS,
        )
    return RateLimited(f"{endpoint.spec}: the provider asks for fewer requests", retry_after=wait)


def _what_to_mend(endpoint: Endpoint, status: int) -> tuple[str, str] | None:
    """Return the problem and the remedy where the settings are at fault."""
    if status in {401, 403}:
        return "the provider refuses the key", f"check {endpoint.key_source}"
    if status == httpx.codes.NOT_FOUND:
        return (
            "no such model or address",
            f"check the model's name and the base URL {endpoint.base_url}",
        )
    if 300 <= status < 400:
        return "the server redirects, which is not followed", "name the final base URL"
    return None


def _code(response: httpx.Response) -> str:
    try:
        error = response.json()["error"]
        code = str(error.get("code") or error.get("type") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    return code if re.fullmatch(r"[\w.-]{1,64}", code) else ""


def _retry_after(headers: httpx.Headers, clock: Clock) -> float | None:
    """Return how many seconds the provider asks to wait."""
    written = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", written):
        return min(float(written), LONGEST_WAIT_SECONDS)
    try:
        seconds = (parsedate_to_datetime(written) - clock.now()).total_seconds()
    except (ValueError, TypeError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)
