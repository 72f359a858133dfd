"""Tell the service manager how this process is: the protocol of ``sd_notify(3)``.

It is one datagram to the Unix socket that ``NOTIFY_SOCKET`` names. Where nobody listens, nothing is
sent, and nothing that goes wrong here is of any consequence to the process.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Final, Self

# Pings come so many times in the interval that the service manager allows.
_PINGS: Final = 3
_SEND_SECONDS: Final = 0.5


class Notifier:
    """Sends the state of this process to its service manager.

    Attributes:
        pause: Seconds between two pings of the watchdog; none: it does not watch us.
    """

    def __init__(self, address: str | None = None, pause: float | None = None) -> None:
        self.pause = pause
        self._address = "\0" + address[1:] if address and address[0] == "@" else address
        self._status = ""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Return the notifier that the environment asks for; it may be one that sends nothing."""
        usec = environ.get("WATCHDOG_USEC", "")
        ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        pause = int(usec) / 1_000_000 / _PINGS if usec.isdecimal() and int(usec) and ours else None
        return cls(environ.get("NOTIFY_SOCKET"), pause)

    def ready(self, status: str) -> None:
        """Say that the start is over."""
        self._status = status
        self._send("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """Say in a few words what goes on; the same words again are not sent."""
        if status != self._status:
            self._status = status
            self._send(f"STATUS={status}")

    def alive(self) -> None:
        """Say that the work goes on. Without it the service manager ends the process."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that the process is about to end."""
        self._send("STOPPING=1", "STATUS=stopping")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out,
        ):
            out.settimeout(_SEND_SECONDS)
            out.sendto("\n".join(lines).encode(), self._address)
