"""``gralkord serve`` and ``gralkord worker`` as a service manager runs them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from up_process import ask, eventually, lives

COMMAND = [sys.executable, "-P", "-m", "gralkord.cli.app"]


class Service:
    """One process, its log in a file."""

    def __init__(self, what: str, home: Path, environ: dict[str, str], *, fds=(), **popen) -> None:
        self.what = what
        self.home = home
        self.log = home / f"{what}-{len(list(home.glob('*.log')))}.log"
        flags = ["--port", "0"] if what == "serve" else []
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*COMMAND, what, *flags],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=fds,
                **popen,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def said(self, event: str) -> list[dict]:
        """Return the lines of its log that tell of *event*."""
        lines = self.log.read_text().splitlines()
        parsed = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in parsed if line.get("event") == event]

    def send(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def end(self, number: int = 15, seconds: float = 30.0) -> int:
        """Send a signal; return the exit code."""
        self.send(number)
        return self.process.wait(seconds)

    def clear(self) -> None:
        """End it whatever its state."""
        self.process.kill()
        self.process.wait()
        eventually(lambda: not lives(self.pid))


class Daemon(Service):
    """A ``gralkord serve``; requests go to where it said that it listens."""

    def __init__(self, home: Path, environ: dict[str, str], **options) -> None:
        self.data_dir = Path(environ["GRALKORD_DATA_DIR"])
        super().__init__("serve", home, environ, **options)

    def request(self, path: str, body: dict | None = None, seconds: float = 20.0) -> dict:
        """Call it, once it has said where it listens."""
        file = self.data_dir / "daemon.json"
        eventually(file.exists)
        url = json.loads(file.read_text())["url"]
        token = (self.data_dir / "token").read_text().strip()
        request = urllib.request.Request(
            url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        return ask(request, seconds)

    def ready(self) -> dict:
        """Wait until it takes captures; return what it says of its parts."""
        return eventually(self._readiness)["parts"]

    def _readiness(self) -> dict | None:
        try:
            return self.request("/readyz")
        except urllib.error.URLError:
            return None


class NotifySocket:
    """The end of the notify protocol at which a service manager listens."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def next(self, seconds: float = 20.0) -> list[str]:
        """Return the lines of the next message."""
        self._socket.settimeout(seconds)
        return self._socket.recv(4096).decode().splitlines()

    def until(self, line: str, seconds: float = 20.0) -> list[str]:
        """Return the lines of the next message that has *line* in it."""
        deadline = time.monotonic() + seconds
        seen = []
        while line not in (lines := self.next(seconds)):
            seen.append(lines)
            assert time.monotonic() < deadline, f"no {line}, but {seen}"
        return lines

    def pings(self, seconds: float) -> int:
        """Count the pings that come within *seconds* of each other, until none does."""
        count = 0
        while True:
            try:
                count += "WATCHDOG=1" in self.next(seconds)
            except TimeoutError:
                return count

    def drain(self) -> None:
        """Forget what has come."""
        self._socket.setblocking(False)
        while True:
            try:
                self._socket.recv(4096)
            except BlockingIOError:
                return

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


def environ_of(home: Path, queue: Path, graph: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process that is to use these servers."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GRALKORD", "OPENAI", "NOTIFY", "WATCHDOG", "LISTEN"))
    }
    return {
        **kept,
        "XDG_STATE_HOME": str(home / "state"),
        "GRALKORD_DATA_DIR": str(home / "data"),
        "GRALKORD_QUEUE__SOCKET": str(queue),
        "GRALKORD_GRAPH__SOCKET": str(graph),
        **more,
    }
