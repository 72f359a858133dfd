"""Servers on a machine whose power can be cut: what was not synced is lost with the process."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gralkord.embedded.probes import wait_for_server
from gralkord.embedded.servers import ServerSpec, die_with_parent

SOURCE = Path(__file__).with_suffix(".c")
START_SECONDS = 20.0


def build(folder: Path) -> Path:
    """Compile the library into *folder*; the test is skipped where there is no C compiler."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the fault-injecting library is written for Linux")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to build the fault-injecting library with")
    library = folder / "powerless.so"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SOURCE))
    subprocess.run([compiler, *flags, "-ldl", "-lpthread"], check=True)
    return library


class PowerlessServer:
    """The real server of a spec, whose syncs are slow and whose power can be cut.

    Args:
        spec: The server.
        library: What `build` returned.
        sync_ms: How much longer each sync takes.
    """

    def __init__(self, spec: ServerSpec, library: Path, sync_ms: int) -> None:
        self.spec = spec
        self._extra = {"LD_PRELOAD": str(library), "POWERLESS_SYNC_MS": str(sync_ms)}
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start it, and return when it answers."""
        self.spawn()
        asyncio.run(self.answers())

    async def answers(self) -> None:
        """Return when it answers."""
        async with asyncio.timeout(START_SECONDS):
            await wait_for_server(self.spec.socket)

    def spawn(self) -> None:
        """Start it."""
        self.spec.prepare()
        with (self.spec.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.spec.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.spec.environment() | self._extra,
                preexec_fn=die_with_parent(os.getpid()),  # noqa: PLW1509
            )

    def cut_power(self) -> None:
        """End it at once, with all that was not synced."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log(self) -> str:
        """Return what it has logged."""
        return (self.spec.directory / "server.log").read_text(errors="replace")
