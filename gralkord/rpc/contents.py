"""For tests of an installation: what is asked and answered, in the log of the daemon."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
    from starlette.types import Message as Event

log = structlog.get_logger(__name__)

# Of each body; what is longer is cut.
MOST_BYTES: Final = 16_384


class LogContents:
    """ASGI middleware: logs the bodies of requests and answers at level ``debug``.

    They hold what people say, so it is there only where the settings say ``test``. Headers, which
    hold the token, are not logged, and neither is what carries no valid one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked, answered = bytearray(), bytearray()
        status = 0

        async def receiving() -> Event:
            event = await receive()
            _keep(asked, event)
            return event

        async def sending(event: Event) -> None:
            nonlocal status
            status = event.get("status", status)
            _keep(answered, event)
            await send(event)

        try:
            await self._app(scope, receiving, sending)
        finally:
            if status not in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                log.debug(
                    "contents",
                    method=scope["method"],
                    path=scope["path"],
                    query=scope["query_string"].decode(errors="replace"),
                    status=status,
                    asked=asked.decode(errors="replace"),
                    answered=answered.decode(errors="replace"),
                )


def _keep(kept: bytearray, event: Event) -> None:
    kept += event.get("body", b"")[: MOST_BYTES - len(kept)]
