"""Ask servers and the daemon whether they are ready, without loading any client library."""

from __future__ import annotations

import asyncio
import contextlib
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

_POLL_SECONDS: Final = 0.02
_ANSWER_SECONDS: Final = 5.0


async def wait_for_server(socket: Path) -> None:
    """Return once the Redis at *socket* answers PING, having loaded its data."""
    while True:
        if await _answers_ping(socket):
            return
        await asyncio.sleep(_POLL_SECONDS)


class DaemonProbe:
    """Asks the daemon at *host* and *port* whether it is ready.

    Attributes:
        parts: What it said last about its parts; empty if it did not answer.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.parts: dict[str, Any] = {}

    async def wait(self) -> None:
        """Return once the daemon is ready."""
        while True:
            if await self.ask():
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def ask(self) -> bool:
        """Return whether the daemon answers that it takes captures."""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                status, body = await self._get("/readyz")
        except (OSError, TimeoutError, ValueError, EOFError):
            self.parts = {}
            return False
        self.parts = body.get("parts", {}) if isinstance(body, dict) else {}
        return status == HTTPStatus.OK

    async def _get(self, path: str) -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        host = f"[{self._host}]" if ":" in self._host else self._host
        try:
            writer.write(
                f"GET {path} HTTP/1.1\r\nHost: {host}:{self._port}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.read()
        finally:
            writer.close()
        status = int(head.split(None, 2)[1])
        return status, json.loads(body)


async def _answers_ping(socket: Path) -> bool:
    try:
        reader, writer = await asyncio.open_unix_connection(str(socket))
    except OSError:
        return False
    try:
        writer.write(b"PING\r\n")
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await reader.readline() == b"+PONG\r\n"
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
