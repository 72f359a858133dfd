"""A network between one process and one server that can be cut, silenced and healed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

CHUNK: Final = 256 * 1024


class Proxy:
    """Hands bytes on from one Unix socket to another.

    Attributes:
        used: Set once there was a connection.
        carried: How many bytes there were.
    """

    def __init__(self, socket: Path, target: Path) -> None:
        self.socket = socket
        self.used = asyncio.Event()
        self.carried = 0
        self._target = target
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._accept, str(self.socket))

    @property
    def connections(self) -> int:
        """How many connections it has."""
        return len(self._tasks)

    def cut(self) -> None:
        """Reset all connections, and every new one, until it is healed."""
        self._refusing = True
        for writer in self._writers:
            writer.transport.abort()

    def silence(self) -> None:
        """Hold back all bytes of both directions and tell nobody.

        What was sent in the meantime arrives when it is healed, also from those who have given up
        by then: as after a partition, commands come late.
        """
        self._flowing.clear()

    def heal(self) -> None:
        """Be a good network again."""
        self._refusing = False
        self._flowing.set()

    async def close(self) -> None:
        """End all connections."""
        if self._server:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.used.set()
        ends = [writer]
        self._writers.add(writer)
        try:
            await self._flowing.wait()
            if self._refusing:
                return
            there, back = await asyncio.open_unix_connection(str(self._target))
            ends.append(back)
            self._writers.add(back)
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._hand_on(reader, back))
                ways.create_task(self._hand_on(there, writer))
        except* OSError:  # one of the ends is gone, so both are
            pass
        finally:
            for end in ends:
                self._writers.discard(end)
                end.transport.abort()

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._flowing.wait()
            self.carried += len(data)
            writer.write(data)
            await writer.drain()
        await self._flowing.wait()
        with suppress(OSError, RuntimeError):  # the other end may be closed already
            writer.write_eof()
        raise ConnectionResetError
