"""What a provider's answer other than 200 means: wait, mend the settings, or give the work up."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import httpx
import structlog

from gralkord.errors import ConfigError, GralkorError, ModelOutage, Permanent, RateLimited
from gralkord.providers.announced import Announced, Refusal, announced_by, read_refusal

if TYPE_CHECKING:
    from gralkord.clock import Clock
    from gralkord.providers.endpoint import Endpoint

LONGEST_WAIT_SECONDS: Final = 3_600.0
QUOTA_WAIT_SECONDS: Final = 300.0
UNREADY: Final = frozenset({408, 409, 425})

log = structlog.get_logger(__name__)


class Hiccup(ModelOutage):
    """The provider failed at one request, and said nothing of the next."""


class Unanswered(ModelOutage):
    """A request was sent, and its answer was not complete in time: it may be of this one alone."""


class SlowDown(RateLimited):
    """The provider asks for fewer requests.

    Attributes:
        announced: What it says of its limits.
    """

    announced: Announced | None = None


class QuotaSpent(SlowDown):
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
    if status == httpx.codes.TOO_MANY_REQUESTS or _unpaid(response):
        return _slow_down(endpoint, code, response, clock)
    if (status >= 500 and not _unread(response)) or status in UNREADY:
        wait = _retry_after(response.headers, clock)
        kind = Hiccup if wait is None else ModelOutage
        return kind(f"{endpoint.spec}: the provider answers {status}", retry_after=wait)
    mend = _what_to_mend(endpoint, 401 if refuses_key(response) else status)
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


def refuses_key(response: httpx.Response) -> bool:
    """Return whether *response* is about the key; Google says so with a 400."""
    return response.status_code in {401, 403} or "API_KEY_INVALID" in response.text


def is_of_the_request(response: httpx.Response) -> bool:
    """Return whether *response* refuses the request itself, which may be asked in another form."""
    unacceptable = response.status_code in {400, 422} or _unread(response)
    return unacceptable and not refuses_key(response) and not _unpaid(response)


def _unread(response: httpx.Response) -> bool:
    """Return whether the server could not read the request; llama-cpp-python says so with a 500."""
    return response.status_code == httpx.codes.INTERNAL_SERVER_ERROR and bool(
        re.search(r"\bvalidation errors?:", response.text)
    )


def _unpaid(response: httpx.Response) -> bool:
    """Return whether the account has no credit left; Anthropic says so with a 400."""
    return response.status_code == httpx.codes.PAYMENT_REQUIRED or (
        response.status_code == httpx.codes.BAD_REQUEST
        and "credit balance is too low" in response.text
    )


def _slow_down(
    endpoint: Endpoint, code: str, response: httpx.Response, clock: Clock
) -> RateLimited:
    said = _said(response)
    wait = _retry_after(response.headers, clock)
    if wait is None and said.retry_after is not None:
        wait = min(said.retry_after, LONGEST_WAIT_SECONDS)
    error: SlowDown
    if code == "insufficient_quota" or said.of_the_day or _unpaid(response):
        error = QuotaSpent(
            f"{endpoint.spec}: the provider's quota is spent",
            hint="add credit at the provider, or name another model in models.llm",
            retry_after=max(wait or QUOTA_WAIT_SECONDS, QUOTA_WAIT_SECONDS * said.of_the_day),
        )
    else:
        error = SlowDown(f"{endpoint.spec}: the provider asks for fewer requests", retry_after=wait)
    error.announced = announced_by(response.headers) or said.announced
    return error


def _said(response: httpx.Response) -> Refusal:
    try:
        return read_refusal(response.json())
    except ValueError:
        return Refusal()


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
        named = [str(error.get(name) or "") for name in ("code", "type", "status")]
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    # Google's code is the status once more.
    code = next((each for each in named if each not in {"", str(response.status_code)}), "")
    return code if re.fullmatch(r"[\w.-]{1,64}", code) else ""


def _retry_after(headers: httpx.Headers, clock: Clock) -> float | None:
    """Return how many seconds the provider asks to wait."""
    milliseconds = headers.get("Retry-After-Ms", "").strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", milliseconds):
        return min(float(milliseconds) / 1000, LONGEST_WAIT_SECONDS)
    written = headers.get("Retry-After", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", written):
        return min(float(written), LONGEST_WAIT_SECONDS)
    try:
        seconds = (parsedate_to_datetime(written) - clock.now()).total_seconds()
    except (ValueError, TypeError):
        return None
    return min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)
