"""What was erased from an installation, as the queue of its data directory has noted it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gralkord.client.discovery import read_instance
from gralkord.client.sync import Client
from gralkord.embedded.aof import FOLDER, MANIFEST
from gralkord.embedded.lock import DirectoryLock
from gralkord.embedded.probes import wait_for_server
from gralkord.embedded.servers import ServerSpec
from gralkord.errors import InvalidInput, StartError

if TYPE_CHECKING:
    import subprocess

    from gralkord.models.erasure import Erasure

_LOAD_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.1


def erasures_of(data_dir: Path) -> list[Erasure]:
    """Return all erasures of a data directory that is used no more, or whose daemon runs.

    Raises:
        InvalidInput: There is no queue in it.
        StartError: It is in use, or its queue cannot be read.
        GralkorError: Its daemon refuses.
    """
    instance = read_instance(data_dir)
    if instance is not None and instance.alive():
        with Client(data_dir=data_dir) as client:
            return client.erasures()
    if not data_dir.is_dir():
        raise InvalidInput(f"there is no directory {data_dir}", field="data_dir")
    with closing(DirectoryLock.acquire(data_dir, seconds=0)):
        return erasures_in(data_dir / "queue")


def erasures_in(directory: Path) -> list[Erasure]:
    """Return all erasures that the queue noted whose files are in *directory*; nobody uses them.

    Raises:
        InvalidInput: There is no queue in it.
        StartError: The queue cannot be read.
    """
    if not (directory / FOLDER / MANIFEST).is_file():
        raise InvalidInput(f"there is no queue in {directory}", field="data_dir")
    home = Path(tempfile.mkdtemp(prefix="gralkord-"))
    process = None
    try:
        server = ServerSpec("queue", directory, home / "q.sock", durability="everysec")
        process = server.start()
        return asyncio.run(_read(server.socket, process))
    except TimeoutError:
        raise StartError(
            f"the queue in {directory} does not start", hint=f"see {directory / 'server.log'}"
        ) from None
    finally:
        if process is not None:
            process.terminate()
            process.wait()
        shutil.rmtree(home, ignore_errors=True)


async def _read(socket: Path, process: subprocess.Popen[bytes]) -> list[Erasure]:
    from gralkord.config import Queue  # noqa: PLC0415 - loads clients
    from gralkord.groups import DEFAULT_TENANT  # noqa: PLC0415
    from gralkord.mailbox.connection import open_queue  # noqa: PLC0415
    from gralkord.mailbox.erasures import Erasures  # noqa: PLC0415
    from gralkord.mailbox.keys import Keys  # noqa: PLC0415

    async with asyncio.timeout(_LOAD_SECONDS):
        waiting = asyncio.create_task(wait_for_server(socket))
        while not waiting.done():
            if process.poll() is not None:
                waiting.cancel()
                raise TimeoutError
            await asyncio.wait({waiting}, timeout=_POLL_SECONDS)
    queue = open_queue(Queue(socket=socket))
    try:
        return await Erasures(queue, Keys()).all(DEFAULT_TENANT)
    finally:
        await queue.aclose()
