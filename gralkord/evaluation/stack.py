"""A whole gralkord of one's own: started for a measurement or a demo, stopped whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import orjson
import structlog

from gralkord.client.discovery import find_endpoint
from gralkord.embedded.directory import DataDirectory
from gralkord.embedded.servers import die_with_parent
from gralkord.errors import StartError, rebuild_error

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence
    from types import TracebackType

    from gralkord.client.discovery import Endpoint

Outcome = TypeVar("Outcome")

log = structlog.get_logger(__name__)

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 30.0

# Settings and keys of the user's own daemon must not reach this one.
_FOREIGN: Final = ("GRALKORD_", "OPENAI_")
_LOG_LINES: Final = 15


class Stack:
    """``gralkord up`` on a data directory, as a child process.

    It is no daemon that other clients of this user find: it registers itself in *data_dir* only.

    Args:
        data_dir: Its data directory; made if it is missing.
        options: Further options of ``gralkord up``.
        environ: Environment to derive the child's from; default: that of this process.
    """

    def __init__(
        self,
        data_dir: Path,
        options: Sequence[str] = (),
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir
        self._options = options
        self._environ = os.environ if environ is None else environ
        self._process: asyncio.subprocess.Process | None = None
        self._log = data_dir / "up.log"
        self._loading = False

    async def __aenter__(self) -> Self:
        try:
            await self.start()
            await self.wait_graph()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def endpoint(self) -> Endpoint:
        """Where its daemon listens.

        Raises:
            BackendUnavailable: It does not run.
        """
        return find_endpoint(data_dir=self.data_dir, environ=self._environment())

    @property
    def pid(self) -> int:
        """The process of ``gralkord up``.

        Raises:
            StartError: It was not started.
        """
        if self._process is None:
            raise StartError("gralkord up was not started")
        return self._process.pid

    @property
    def graph_socket(self) -> Path:
        """The Unix socket of its FalkorDB, for measurements beside the daemon."""
        return DataDirectory(self.data_dir.absolute()).sockets() / "graph.sock"

    @property
    def queue_socket(self) -> Path:
        """The Unix socket of its queue Redis, for measurements beside the daemon."""
        return DataDirectory(self.data_dir.absolute()).sockets() / "queue.sock"

    async def start(self) -> dict[str, Any]:
        """Start it and return what it says when it is ready to take captures.

        Raises:
            StartError: It ended before, or is not ready within a minute.
        """
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._log.open("ab") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "gralkord.cli.app", "up", "--json"),
                *("--data-dir", str(self.data_dir), "--port", "0"),
                *self._options,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C is this process's to handle
                preexec_fn=die_with_parent(os.getpid()),
            )
        try:
            report = await self._said("ready")
        except BaseException:
            await self.stop()
            raise
        self._loading = report.get("graph") == "loading"
        log.debug("stack_started", data_dir=str(self.data_dir), pid=self.pid)
        return report

    async def wait_graph(self) -> None:
        """Return when recall can be asked too.

        Raises:
            StartError: It ended before, or is not ready within a minute.
        """
        if self._loading:
            await self._said("graph_ready")
            self._loading = False

    async def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """Stop it and return when it has ended; nothing happens if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal_number)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await _drained(process)
        except TimeoutError:
            log.warning("stack_killed", pid=process.pid, seconds=STOP_SECONDS)
            process.kill()
            await process.wait()

    async def _said(self, event: str) -> dict[str, Any]:
        """Return the line of *event* on its standard output."""
        stdout = self._process.stdout if self._process else None
        try:
            async with asyncio.timeout(START_SECONDS):
                while stdout and (line := await stdout.readline()):
                    said: dict[str, Any] = orjson.loads(line)
                    if said.get("event") == event:
                        return said
                    if failure := rebuild_error(said.get("error")):
                        raise failure
        except TimeoutError:
            raise StartError(
                f"gralkord up is not ready after {START_SECONDS:g} s: {self._last_words()}"
            ) from None
        except orjson.JSONDecodeError as error:
            raise StartError(f"gralkord up said what is no JSON: {error}") from error
        raise StartError(f"gralkord up did not start: {self._last_words()}")

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value for name, value in self._environ.items() if not name.startswith(_FOREIGN)
        }
        return inherited | {"XDG_STATE_HOME": str((self.data_dir / "state").absolute())}

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-_LOG_LINES:]) or "it said nothing"


@contextlib.contextmanager
def temporary_data_dir(*, keep: bool = False) -> Iterator[Path]:
    """Make a data directory with a short path, and remove it in the end unless *keep*."""
    path = Path(tempfile.mkdtemp(prefix="gralkord-"))
    try:
        yield path
    except StartError as error:
        if not keep:  # the hint names a file in it
            error.hint = "keep the data directory to read its logs"
        raise
    finally:
        if not keep:
            shutil.rmtree(path, ignore_errors=True)


async def until_signal(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Return what *work* returns; SIGTERM cancels it as Ctrl-C does, so that it clears away.

    Raises:
        KeyboardInterrupt: It was told to stop.
    """
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        task.cancel()

    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def _drained(process: asyncio.subprocess.Process) -> None:
    # A child that writes to a full pipe does not end, so what it still says is read away.
    await process.communicate()
