"""One supervised process: how it is started, that it ended, and how it is ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gralkord.embedded.servers import die_with_parent
from gralkord.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

MAX_LOG_BYTES: Final = 16 * 1024 * 1024

_TAIL_BYTES: Final = 4096
_TAIL_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A process to be supervised.

    Attributes:
        name: What people call it: ``queue``, ``graph``, ``daemon`` or ``worker``.
        command: Its command line, which everybody on the machine can read.
        log: File that its output is appended to.
        environ: Its whole environment; default: that of this process.
        keep_fds: Open files that it inherits.
        needs: The child that must answer before this one is started for the first time.
        answers: Returns once the process answers; without it, it counts as answering at once.
        prepare: Called before each start.
        stop_phase: Children of a lower phase are stopped first.
        stop_seconds: How long it may take to end after SIGTERM.
    """

    name: str
    command: tuple[str, ...]
    log: Path
    environ: Mapping[str, str] | None = field(default=None, repr=False)
    keep_fds: tuple[int, ...] = ()
    needs: str | None = None
    answers: Callable[[], Awaitable[None]] | None = None
    prepare: Callable[[], None] | None = None
    stop_phase: int = 0
    stop_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended.

    Attributes:
        code: Its exit code; negative: minus the number of the signal that ended it.
        seconds: How long it answered before; 0 if it never did.
    """

    code: int
    seconds: float

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exit code {self.code}"
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"


class Child:
    """A supervised process and its successors, of which one runs at a time."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.answering = asyncio.Event()
        self.failures = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: asyncio.Future[Ending] | None = None
        self._answering_since: float | None = None
        self._log_start = 0
        self._watch: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process in a session of its own; it ends with the calling thread.

        Raises:
            StartError: It cannot be started, for example because its program is missing.
        """
        spec = self.spec
        try:
            if spec.prepare:
                spec.prepare()
            with spec.log.open("ab") as log:
                self._log_start = log.tell()
                self._process = subprocess.Popen(
                    spec.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=spec.environ,
                    pass_fds=spec.keep_fds,
                    start_new_session=True,
                    preexec_fn=die_with_parent(os.getpid()),  # noqa: PLW1509
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise StartError(f"cannot start the {spec.name}: {error}") from error
        self._ended = asyncio.get_running_loop().create_future()
        self._answering_since = None
        self._watch = asyncio.create_task(self._wait_for_answer())

    async def ended(self) -> Ending:
        """Return how the process ended, once it has."""
        assert self._ended is not None, "it was never started"
        return await asyncio.shield(self._ended)

    def poll(self) -> None:
        """Notice the end of the process. Called when the kernel says that some child ended."""
        process = self._process
        if process is None or process.poll() is None:
            return
        self._process = None
        self.answering.clear()
        if self._watch:
            self._watch.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it started and left behind
        since = self._answering_since
        seconds = 0.0 if since is None else time.monotonic() - since
        if self._ended and not self._ended.done():
            self._ended.set_result(Ending(process.returncode, seconds))

    def terminate(self) -> None:
        """Ask the process to end."""
        if self._process:
            self._process.terminate()

    def kill(self) -> None:
        """End the process and all that it started."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def last_lines(self) -> list[str]:
        """Return the last lines that the process wrote, whether or not it still runs."""
        try:
            with self.spec.log.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                start = self._log_start if self._log_start <= end else 0  # it was trimmed since
                log.seek(max(start, end - _TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        return [line for line in text.splitlines() if line.strip()][-_TAIL_LINES:]

    def trim_log(self, limit: int = MAX_LOG_BYTES) -> None:
        """Move a log longer than *limit* bytes aside, over the one moved aside before.

        The process keeps the file open for appending, so it is copied and emptied, not renamed.
        """
        log = self.spec.log
        with contextlib.suppress(FileNotFoundError):
            if log.stat().st_size > limit:
                shutil.copyfile(log, log.with_name(log.name + ".1"))
                os.truncate(log, 0)

    async def _wait_for_answer(self) -> None:
        if self.spec.answers:
            await self.spec.answers()
        self._answering_since = time.monotonic()
        self.answering.set()

    def to_fields(self) -> dict[str, Any]:
        """Return what a log event says about this child."""
        return {"child": self.spec.name, "pid": self.pid}
