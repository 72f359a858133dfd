"""Requests to a model's server, and what to make of the answers that are no answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx

from gralkord import __version__
from gralkord.clock import Clock, SystemClock
from gralkord.errors import ModelOutage
from gralkord.providers.endpoint import Endpoint
from gralkord.providers.refusals import (
    Hiccup,
    Unanswered,
    inner_refusal,
    is_of_the_request,
    refusal,
)

CONNECT_SECONDS: Final = 10.0
# Shorter than the five seconds after which common servers close an idle connection: a request
# written to one that is just being closed is lost.
IDLE_SECONDS: Final = 3.0
COMPLAINT_CHARACTERS: Final = 2_000
# Where the body of an answer holds one, an error in it is of no account.
_ANSWERS: Final = ("choices", "candidates", "content", "message", "data", "embeddings", "results")


class ModelServer:
    """The server of one model.

    Belongs to the event loop that first uses it, as its connections do.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout_seconds: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Prepare for requests; nothing is sent yet.

        Args:
            endpoint: The model and its address.
            timeout_seconds: Limit of one request, from sending to the last byte; default: that of
                the endpoint.
            clock: For a Retry-After that names a date.
        """
        self._endpoint = endpoint
        self._timeout_seconds = timeout_seconds or endpoint.timeout_seconds
        self._clock = clock or SystemClock()
        self._client: httpx.AsyncClient | None = None

    async def post(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Return an answer, or a refusal of the request itself.

        Args:
            path: Put behind the base URL.
            body: The request; renamed and left out is what the settings say.

        Raises:
            RateLimited: The provider asks for fewer requests.
            ModelOutage: The provider does not answer.
            ConfigError: The provider refuses key, model or address.
        """
        url = f"{self._endpoint.base_url}{path}"
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await self._connected().post(url, json=shaped(body, self._endpoint))
        except (TimeoutError, httpx.TimeoutException) as error:
            raise Unanswered(
                f"{self._endpoint.spec} did not answer within {self._timeout_seconds:g} s"
            ) from error
        except httpx.RequestError as error:
            # A connection that breaks off may be of one request; one that is not there is not.
            kind = ModelOutage if isinstance(error, httpx.ConnectError) else Hiccup
            raise kind(
                f"{self._endpoint.spec} cannot be reached: {what_is_wrong(error)}",
                hint=f"is a server running at {self._endpoint.base_url}?",
            ) from error
        if response.status_code != httpx.codes.OK and not is_of_the_request(response):
            raise refusal(self._endpoint, response, self._clock)
        if response.status_code == httpx.codes.OK and (inner := _inner_error(response)):
            raise inner_refusal(self._endpoint, response, inner, self._clock)
        return response

    def raise_refusal(self, response: httpx.Response) -> None:
        """Raise what *response* stands for unless it is a 200.

        Raises:
            GralkorError: As `post`; Permanent where the provider refuses the request itself.
        """
        if response.status_code != httpx.codes.OK:
            raise refusal(self._endpoint, response, self._clock)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers={"User-Agent": f"gralkord/{__version__}"} | key_headers(self._endpoint),
                timeout=httpx.Timeout(self._timeout_seconds, connect=CONNECT_SECONDS),
                limits=httpx.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS),
                follow_redirects=False,
                trust_env=not self._endpoint.loopback,
                verify=self._endpoint.certificates(),
            )
        return self._client


def what_is_wrong(error: httpx.RequestError) -> str:
    """Return why a server cannot be reached, as a certificate that nobody has signed."""
    # Errors that are not of the network may repeat what was sent.
    said = str(error) if isinstance(error, httpx.NetworkError) else ""
    return said[:200] or type(error).__name__


def complaint_of(response: httpx.Response) -> str:
    """Return what a refusal says, without what it repeats of the request."""
    try:
        said = " ".join(_texts(response.json()))
    except (ValueError, RecursionError):
        said = response.text
    return said[:COMPLAINT_CHARACTERS]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name != "input":  # so FastAPI's servers call what they were sent
                yield from _texts(item)


def key_headers(endpoint: Endpoint) -> dict[str, str]:
    """Return the headers that carry the key; with no key, none that would."""
    key = endpoint.key
    match endpoint.provider:
        case "anthropic":
            version = {"anthropic-version": "2023-06-01"}
            return version | ({"x-api-key": key} if key else {})
        case "google":
            return {"x-goog-api-key": key} if key else {}
        case _:
            return {"Authorization": f"Bearer {key}"} if key else {}


def shaped(body: Mapping[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    """Return *body* with the fields renamed and left out that this server wants so.

    A field inside another is named with dots, as in ``options.num_predict``.
    """
    shape = dict(body)
    for name in endpoint.drop:
        _take(shape, name)
    for name, other in endpoint.rename.items():
        taken = _take(shape, name)
        if taken is not _MISSING:
            _put(shape, other, taken)
    return shape


_MISSING: Final = object()


def _take(fields: dict[str, Any], name: str) -> Any:
    """Take a field out; objects on the way are copied, as they may be shared."""
    head, dot, rest = name.partition(".")
    if name in fields or not dot:
        return fields.pop(name, _MISSING)
    inner = fields.get(head)
    if not isinstance(inner, dict):
        return _MISSING
    fields[head] = dict(inner)
    return _take(fields[head], rest)


def _put(fields: dict[str, Any], name: str, value: Any) -> None:
    head, dot, rest = name.partition(".")
    if not dot:
        fields[name] = value
        return
    inner = fields.get(head)
    fields[head] = dict(inner) if isinstance(inner, dict) else {}
    _put(fields[head], rest, value)


def _inner_error(response: httpx.Response) -> Any:
    """Return the error in a 200: so gateways report how the provider behind them failed."""
    try:
        body = response.json()
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    answers = [body.get(name) for name in _ANSWERS]
    return (
        None
        if any(isinstance(each, list | dict) and each for each in answers)
        else body.get("error")
    )
