"""Around every request: its id, its time, and an answer also when the daemon itself is at fault."""

from __future__ import annotations

import re
import time
import uuid
from typing import TYPE_CHECKING, Final

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect

from gralkord.errors import InternalError
from gralkord.rpc.errors import error_response, log_unexpected

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.types import Message as Event

REQUEST_ID: Final = "X-Request-Id"

# An id of the caller's is taken over only if it can stand in a header and a log line as it is.
_GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Trace:
    """ASGI middleware: each answer has an id and a time, each crash is an answer and a log line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _request_id(scope)
        answered = False

        async def sending(event: Event) -> None:
            nonlocal answered
            if event["type"] == "http.response.start":
                answered = True
                elapsed = (time.perf_counter() - started) * 1000
                headers = MutableHeaders(scope=event)
                headers[REQUEST_ID] = request_id
                headers["Server-Timing"] = f"total;dur={elapsed:.1f}"
            await send(event)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, sending)
            except ClientDisconnect:
                return
            except Exception as error:
                log_unexpected(error)
                if answered:
                    raise
                await error_response(
                    InternalError(
                        f"the daemon met an error of its own; its log has it as {request_id}",
                        hint="the request may be sent again if it carries a turn id",
                    )
                )(scope, receive, sending)


def _request_id(scope: Scope) -> str:
    sent = Headers(scope=scope).get(REQUEST_ID, "")
    return sent if _GOOD_ID.fullmatch(sent) else uuid.uuid4().hex
