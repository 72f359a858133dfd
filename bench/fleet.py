"""Worker processes beside the one of `up`, for measurements."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gralkord.embedded.servers import die_with_parent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gralkord.evaluation.stack import Stack

STOP_SECONDS = 20.0


def command(what: str) -> list[str]:
    """Return the command line of ``gralkord <what>``."""
    return [sys.executable, "-P", "-m", "gralkord.cli.app", what]


def environment(stack: Stack, config: Path) -> dict[str, str]:
    """Return what makes a process part of *stack*, started with *config*."""
    foreign = ("GRALKORD_", "OPENAI_")
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    return inherited | {
        "GRALKORD_CONFIG": str(config),
        "GRALKORD_QUEUE__SOCKET": str(stack.queue_socket),
        "GRALKORD_GRAPH__SOCKET": str(stack.graph_socket),
        "GRALKORD_TOKEN_FILE": str(stack.data_dir / "token"),
        "XDG_STATE_HOME": str(stack.data_dir / "state"),
    }


@contextlib.asynccontextmanager
async def started(
    count: int, what: list[str], environ: dict[str, str], log: Path
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Start *count* processes that log to ``<log>.<number>``; end them in the end."""
    processes: list[asyncio.subprocess.Process] = []
    try:
        for number in range(count):
            with Path(f"{log}.{number}").open("ab") as file:  # noqa: ASYNC230
                processes.append(
                    await asyncio.create_subprocess_exec(
                        *what,
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=file,
                        stderr=file,
                        env=environ,
                        preexec_fn=die_with_parent(os.getpid()),
                    )
                )
        yield processes
    finally:
        for process in processes:
            if process.returncode is None:
                process.terminate()
        for process in processes:
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
