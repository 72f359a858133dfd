"""The gate before every request: who may call, and what may be sent.

A daemon on loopback can be reached by every web page that its user opens. The Host check stops DNS
rebinding, the Origin check stops foreign pages, and the token stops other users of the machine.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from email.message import Message
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from gralkord.errors import Forbidden, GralkorError, TooLarge, Unauthorized, WrongMediaType
from gralkord.rpc.errors import error_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.types import Message as Event

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
MAX_BODY_BYTES: Final = 2 * 1024 * 1024
# What may hold 1 MB of text, of which JSON makes up to three times as much.
LARGER: Final = {"/v1/ingest": 4 * 1024 * 1024, "/v1/memory_add": 4 * 1024 * 1024}

# They say nothing about anybody's memory; health probes and browsers have no token.
PUBLIC_PATHS: Final = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs"})

_METHODS: Final = "GET, POST, PATCH"
_SENT_HEADERS: Final = "Authorization, X-API-Key, Content-Type, Idempotency-Key, X-Request-Id"
_SHOWN_HEADERS: Final = "Retry-After, Server-Timing, X-Request-Id"


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may call, and how much may be sent.

    Attributes:
        token: The secret that a request has to carry.
        allowed_hosts: Host names, besides the loopback ones, that a request may be meant for.
        allowed_origins: Web origins, besides the daemon's own, whose pages may call.
        max_body_bytes: Largest body, but for paths that take larger ones.
    """

    token: str = field(repr=False)
    allowed_hosts: frozenset[str] = frozenset()
    allowed_origins: frozenset[str] = frozenset()
    max_body_bytes: int = MAX_BODY_BYTES


class Gate:
    """ASGI middleware that lets through what the policy allows and answers the rest."""

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, in this order: host, origin, token, media type, size."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        try:
            check_host(headers, self._policy)
            check_origin(headers, scope["scheme"], self._policy)
        except Forbidden as error:
            await error_response(error)(scope, receive, send)
            return
        if origin in self._policy.allowed_origins:
            send = _with_cors(send, origin)
            if scope["method"] == "OPTIONS":
                await _preflight()(scope, receive, send)
                return
        try:
            if scope["path"] not in PUBLIC_PATHS:
                check_token(headers, self._policy)
            most = max(self._policy.max_body_bytes, LARGER.get(scope["path"], 0))
            check_body(headers, most)
        except GralkorError as error:
            await error_response(error)(scope, receive, send)
            return
        await self._app(scope, _counted(receive, most), send)


def check_host(headers: Headers, policy: Policy) -> None:
    """Check that the request is meant for this daemon.

    Raises:
        Forbidden: The Host header is missing, doubled or names another host.
    """
    values = headers.getlist("host")
    if len(values) == 1:
        name = host_name(values[0])
        if name in LOOPBACK or name in policy.allowed_hosts:
            return
    raise Forbidden(
        "the Host header must name 127.0.0.1, localhost or [::1]",
        field="Host",
        hint="call the daemon by its loopback address",
    )


def check_origin(headers: Headers, scheme: str, policy: Policy) -> None:
    """Check that no foreign web page sends the request.

    Raises:
        Forbidden: It has an Origin that is neither the daemon's own nor an allowed one.
    """
    origin = headers.get("origin")
    if origin is None or origin in policy.allowed_origins:
        return
    if origin.lower() != f"{scheme}://{headers['host'].lower()}":
        raise Forbidden(
            "pages of this web origin may not call",
            field="Origin",
            hint="add it to rpc.allowed_origins in the configuration",
        )


def check_token(headers: Headers, policy: Policy) -> None:
    """Check the token, in a time that does not tell how much of it is right.

    Raises:
        Unauthorized: There is none, or it is another.
    """
    sent = headers.get("x-api-key")
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if sent is None and scheme.lower() == "bearer":
        sent = value.strip()
    if sent is None:
        raise Unauthorized(
            "the request carries no token",
            hint="send Authorization: Bearer TOKEN; `gralkord up` writes the token's file",
        )
    if not hmac.compare_digest(sent.encode(), policy.token.encode()):
        raise Unauthorized("the token is not valid", hint="the daemon may have been set up anew")


def check_body(headers: Headers, most: int) -> None:
    """Check what the headers say about the body.

    Args:
        headers: Of the request.
        most: Bytes that it may have.

    Raises:
        WrongMediaType: There is a body that is not plain JSON.
        TooLarge: It says that it is too large.
    """
    length = headers.get("content-length", "0")
    if length == "0" and "transfer-encoding" not in headers:
        return
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    media = Message()
    media["content-type"] = headers.get("content-type", "")
    if "content-type" not in headers or media.get_content_type() != "application/json":
        raise WrongMediaType(
            "the body must be sent as Content-Type: application/json", field="Content-Type"
        )
    if (media.get_content_charset() or "utf-8") != "utf-8":
        raise WrongMediaType("the body must be in UTF-8", field="Content-Type")
    if headers.get("content-encoding", "identity") != "identity":
        raise WrongMediaType("the body must not be compressed", field="Content-Encoding")


def host_name(value: str) -> str:
    """Return the name in a Host header, without the port, in lower case."""
    if value.startswith("["):
        return value.partition("]")[0].lower() + "]"
    return value.partition(":")[0].lower()


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"the body is too large, the limit is {limit} bytes", limit=limit)


def _counted(receive: Receive, limit: int) -> Receive:
    """Return *receive* with a limit: a chunked body does not say its size in advance."""
    seen = 0

    async def counting() -> Event:
        nonlocal seen
        event = await receive()
        seen += len(event.get("body", b""))
        if seen > limit:
            raise _too_large(limit)
        return event

    return counting


def _with_cors(send: Send, origin: str | None) -> Send:
    async def sending(event: Event) -> None:
        if event["type"] == "http.response.start":
            headers = MutableHeaders(scope=event)
            headers["Access-Control-Allow-Origin"] = origin or ""
            headers["Access-Control-Expose-Headers"] = _SHOWN_HEADERS
            headers.add_vary_header("Origin")
        await send(event)

    return sending


def _preflight() -> Response:
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": _SENT_HEADERS,
            "Access-Control-Max-Age": "600",
        },
    )
