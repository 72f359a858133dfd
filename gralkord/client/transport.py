"""How the client reaches the daemon: over TCP or a Unix socket, and again after a failure."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx

from gralkord import __version__
from gralkord.client.answers import Failure
from gralkord.client.discovery import start_command
from gralkord.errors import BackendUnavailable, ConfigError, GralkorError

if TYPE_CHECKING:
    from gralkord.client.calls import Call
    from gralkord.client.discovery import Endpoint

DEFAULT_TIMEOUT: Final = 30.0

_CONNECT_SECONDS: Final = 5.0
_UNIX: Final = "unix:"

# The request has not left this machine, so nothing can have been done.
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True)
class Retry:
    """When a call is tried again.

    Attributes:
        retries: Tries after the first.
        base: Longest pause before the second try, in seconds; it doubles from try to try.
        cap: Longest pause of all.
        patience: Seconds that all pauses of one call may take together; a daemon that asks for
            more is given up at once.
    """

    retries: int = 4
    base: float = 0.1
    cap: float = 5.0
    patience: float = 30.0

    def pause(self, failure: Failure, *, tried: int, waited: float) -> float | None:
        """Return how long to wait before the next try, or nothing to give up.

        Args:
            failure: How the last try ended.
            tried: Tries so far.
            waited: Seconds waited so far.
        """
        if not failure.again or tried > self.retries:
            return None
        # Jitter keeps clients that failed together from coming back together.
        pause = random.uniform(0, min(self.cap, self.base * 2 ** (tried - 1)))  # noqa: S311
        pause += failure.error.retry_after or 0
        return pause if waited + pause <= self.patience else None


def connection(endpoint: Endpoint) -> tuple[dict[str, Any], str | None]:
    """Return the settings of an HTTP client for *endpoint*, and the Unix socket if it has one.

    Raises:
        ConfigError: The URL is not one of a daemon.
    """
    socket = None
    url = endpoint.url
    if url.startswith(_UNIX):
        socket = url.removeprefix(_UNIX).removeprefix("//")
        url = "http://localhost"
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or socket == "":
        raise ConfigError(
            f"{endpoint.url!r} is not the URL of a daemon",
            field="url",
            hint="write http://127.0.0.1:PORT or unix:/path/of/socket",
        )
    headers = {"User-Agent": f"gralkord/{__version__}"}
    if endpoint.token:
        headers["Authorization"] = f"Bearer {endpoint.token}"
    # The environment's proxies are not asked: they would be shown the token and every memory.
    options: dict[str, Any] = {"base_url": url, "headers": headers, "trust_env": False}
    if parts.scheme == "http":
        # The system's certificates take 40 ms to read; without TLS nobody has to be trusted.
        options["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return options, socket


def request_options(call: Call[Any], timeout: float) -> dict[str, Any]:
    """Return the arguments of the HTTP request that makes *call*.

    Args:
        call: What to send.
        timeout: Seconds to wait for an answer, where the call itself does not say.
    """
    options: dict[str, Any] = {
        "method": call.method,
        "url": call.path,
        "timeout": httpx.Timeout(call.timeout or timeout, connect=_CONNECT_SECONDS),
    }
    if call.body:
        options |= {"content": call.body, "headers": {"Content-Type": "application/json"}}
    return options


def broken(call: Call[Any], endpoint: Endpoint, cause: httpx.RequestError) -> Failure:
    """Return the failure of a try that got no answer."""
    if isinstance(cause, _UNSENT):
        error: GralkorError = BackendUnavailable(
            f"no daemon answers at {endpoint.url}",
            hint=f"start it with {start_command(endpoint.data_dir)}",
        )
        return Failure(error, again=True)
    if isinstance(cause, httpx.TimeoutException):
        error = BackendUnavailable(f"the daemon at {endpoint.url} did not answer in time")
    else:
        error = BackendUnavailable(f"the connection to the daemon at {endpoint.url} broke")
    return Failure(error, again=call.repeatable)
