"""The two processes of the HTTP measurement: a server, with or without a queue, and the load.

``serve validate`` answers with a canned receipt, ``serve SOCKET`` stores in the queue at that
socket; both print their port. ``load ROUNDS SECONDS PORT …`` prints for each port how many captures
were answered a second in each round.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop
from words import Dialogue

from gralkord import log
from gralkord.clock import SystemClock
from gralkord.config import Queue
from gralkord.daemon.run import HttpServer
from gralkord.intake.producer import Producer
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.durability import Durability
from gralkord.mailbox.keys import Keys
from gralkord.models import CaptureReceipt
from gralkord.rpc.app import create_app

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gralkord.models import Capture

TOKEN = "a-token-for-the-measurement"
CONNECTIONS = 32
VALIDATE = "validate"
SESSIONS = 64
TEXTS = 512

_LENGTH = re.compile(rb"content-length: (\d+)")


class Canned:
    """Answers a capture without storing it."""

    receipt = CaptureReceipt(receipt="1714555800123-0", turn_id="4f7c", durability="always")

    async def capture(self, _tenant: str, captures: Sequence[Capture]) -> list[CaptureReceipt]:
        """Answer each capture."""
        return [self.receipt for _ in captures]


async def serve(place: str) -> None:
    """Serve the app as the daemon does."""
    services: Any = Canned()
    if place != VALIDATE:
        queue = open_queue(Queue(socket=place))
        durability = Durability(queue, "always")
        services = Producer(queue, Keys(), LensRegistry({}), SystemClock(), durability)
    config = uvicorn.Config(
        create_app(services, token=TOKEN),
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
    )
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    await HttpServer(config).serve(sockets=[listener])


class Connection(asyncio.Protocol):
    """Sends one request after the other; the next when the one before is answered."""

    def __init__(self, requests: Iterator[bytes], done: asyncio.Event) -> None:
        self._requests = requests
        self._done = done
        self._buffer = b""
        self._transport: Any = None
        self.answered = 0
        self.idle = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        """Send the next request once the answer is whole."""
        self._buffer += data
        head, gap, body = self._buffer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not gap or length is None or len(body) < int(length[1]):
            return
        if not head.startswith(b"HTTP/1.1 202"):
            raise RuntimeError(f"refused: {self._buffer[:500]!r}")
        self._buffer = b""
        self.answered += 1
        if self._done.is_set():
            self.idle.set()
        else:
            self._next()

    def _next(self) -> None:
        self._transport.write(next(self._requests))


async def load(ports: list[int], rounds: int, seconds: float) -> dict[int, list[float]]:
    """Return for each port the captures answered a second, round by round, the ports in turn."""
    rates: dict[int, list[float]] = {port: [] for port in ports}
    texts = _texts()
    for number in range(-1, rounds):  # the first one is for warming up
        for port in ports:
            rate = await _load_one(port, _requests(texts, f"r{number}"), seconds)
            if number >= 0:
                rates[port].append(rate)
    return rates


async def _load_one(port: int, requests: Iterator[bytes], seconds: float) -> float:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    opened = [
        await loop.create_connection(lambda: Connection(requests, done), "127.0.0.1", port)
        for _ in range(CONNECTIONS)
    ]
    connections = [protocol for _, protocol in opened]
    before, began = sum(one.answered for one in connections), time.perf_counter()
    await asyncio.sleep(seconds)
    answered, elapsed = sum(one.answered for one in connections), time.perf_counter() - began
    done.set()
    for transport, connection in opened:
        await connection.idle.wait()
        transport.close()
    return (answered - before) / elapsed


def _texts() -> list[bytes]:
    """Return captures without their last fields, as JSON without its end."""
    captures = Dialogue().captures(TEXTS, "http bench")
    outside = {"turn_id", "session"}
    return [
        turn.model_dump_json(exclude_none=True, exclude=outside).encode()[:-1] for turn in captures
    ]


def _requests(texts: list[bytes], mark: str) -> Iterator[bytes]:
    for number in itertools.count():
        body = b'%b,"turn_id":"%b:%d","session":"%b-%d"}' % (
            *(texts[number % TEXTS], mark.encode(), number),
            *(mark.encode(), number % SESSIONS),
        )
        yield (
            b"POST /v1/capture HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %b\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (TOKEN.encode(), len(body), body)
        )


if __name__ == "__main__":
    log.configure(level="warning")
    if sys.argv[1] == "serve":
        uvloop.run(serve(sys.argv[2]))
    else:
        rounds, seconds, *ports = sys.argv[2:]
        rates = uvloop.run(load([int(port) for port in ports], int(rounds), float(seconds)))
        print(json.dumps(list(rates.values())))
