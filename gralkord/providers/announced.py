"""What providers say of their own limits, in the headers of answers and in refusals."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Headers that tell the limit of a minute, each with the one that tells what is left of it.
_REQUESTS: Final = (
    ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests"),
    ("anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining"),
    ("x-ratelimit-limit-req-minute", "x-ratelimit-remaining-req-minute"),
)
_TOKENS: Final = (
    ("x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens"),
    ("anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining"),
    ("x-ratelimit-limit-tokens-minute", "x-ratelimit-remaining-tokens-minute"),
)
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)s")


class Announced(NamedTuple):
    """Limits of one minute, as a provider tells them; None: it does not.

    Attributes:
        requests: Calls a minute.
        requests_left: Of them, how many are left.
        tokens: Tokens a minute.
        tokens_left: Of them, how many are left.
    """

    requests: int | None = None
    requests_left: int | None = None
    tokens: int | None = None
    tokens_left: int | None = None


def announced_by(headers: Mapping[str, str]) -> Announced | None:
    """Return what *headers* say, if they say something; their names in any case."""
    requests, requests_left = _pair(headers, _REQUESTS)
    tokens, tokens_left = _pair(headers, _TOKENS)
    if requests is None and tokens is None:
        return None
    return Announced(requests, requests_left, tokens, tokens_left)


def _pair(
    headers: Mapping[str, str], names: tuple[tuple[str, str], ...]
) -> tuple[int | None, int | None]:
    for limit, left in names:
        known = _whole(headers.get(limit))
        if known:
            return known, _whole(headers.get(left))
    return None, None


class Refusal(NamedTuple):
    """What the body of a refusal says, in the words of Google's errors.

    Attributes:
        retry_after: Seconds to wait.
        announced: Limits that were met.
        of_the_day: Whether a limit of a whole day was met.
    """

    retry_after: float | None = None
    announced: Announced | None = None
    of_the_day: bool = False


def read_refusal(body: Any) -> Refusal:
    """Return what *body*, any JSON, says of limits."""
    wait: float | None = None
    requests: int | None = None
    tokens: int | None = None
    of_the_day = False
    for detail in _details(body):
        written = _DURATION.fullmatch(str(detail.get("retryDelay", "")))
        if written:
            wait = float(written[1])
        for violation in _dicts(detail.get("violations")):
            quota, value = str(violation.get("quotaId", "")), _whole(violation.get("quotaValue"))
            of_the_day = of_the_day or "PerDay" in quota
            if "PerMinute" in quota and value:
                if "Token" in quota:
                    tokens = value
                elif "Request" in quota:
                    requests = value
    known = Announced(requests=requests, tokens=tokens)
    return Refusal(wait, known if known != Announced() else None, of_the_day)


def _details(body: Any) -> Iterator[dict[str, Any]]:
    """Yield the details of an error, which may stand in a list."""
    for each in _dicts(body if isinstance(body, list) else [body]):
        error = each.get("error")
        if isinstance(error, dict):
            yield from _dicts(error.get("details"))


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


def _whole(written: object) -> int | None:
    text = str(written).strip() if written is not None else ""
    return int(text) if re.fullmatch(r"\d{1,15}", text) else None
