"""One run of everything: locked, announced, supervised, and cleared away."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from gralkord import __version__
from gralkord.config import ENV_PREFIX
from gralkord.embedded.directory import DataDirectory
from gralkord.embedded.lock import DirectoryLock
from gralkord.embedded.port import bind_port, url_of
from gralkord.embedded.probes import DaemonProbe
from gralkord.embedded.stack import DAEMON, PARTS, Handed, Stack
from gralkord.embedded.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gralkord.config import Settings
    from gralkord.embedded.child import ChildSpec

_log = structlog.get_logger(__name__)

_IMPATIENT_SECONDS: Final = 5.0


# Takes a line for a person and the same as fields for a machine.
Show = Callable[[str, dict[str, Any]], None]

# While it is open, clients find the daemon of this directory, URL and token file.
Announced = Callable[["Path", str, "Path"], AbstractContextManager[None]]


def run(
    settings: Settings,
    *,
    data_dir: Path,
    config_file: Path | None,
    changes: Mapping[str, str],
    model: str,
    announced: Announced,
    show: Show,
) -> bool:
    """Run servers, daemon and worker until a signal.

    Args:
        settings: What is configured.
        data_dir: The data directory; made if it is missing.
        config_file: The file the settings come from, for the children; none: no file.
        changes: Settings that differ from that file, as environment variables for the children.
        model: The name of the language model, to be shown.
        announced: Lets clients find the daemon.
        show: Told when it is ready, and again when the graph is, should that take longer.

    Returns:
        Whether everything was stopped in order.

    Raises:
        StartError: It cannot start, or one of its parts cannot be kept running.
    """
    began = time.monotonic()
    directory = DataDirectory.prepare(data_dir)
    with ExitStack() as held:
        lock = held.enter_context(closing(_acquire(directory)))
        listener = held.enter_context(bind_port(settings.rpc.host, settings.rpc.port))
        url = url_of(listener)
        lock.publish(url)
        directory.token()
        # Children read the one end, which ends with this process, the only one to have the other.
        parent_end, our_end = os.pipe()
        held.callback(os.close, parent_end)
        held.callback(os.close, our_end)
        host, port = listener.getsockname()[:2]
        changes = {**changes, ENV_PREFIX + "RPC__PORT": str(port)}
        held.callback(directory.drop_sockets)
        parts = Stack(settings, directory, config_file, changes)
        probe = DaemonProbe(host, port)
        children = parts.children(Handed(listener.fileno(), lock.descriptor, parent_end), probe)
        held.enter_context(announced(directory.path, url, directory.token_file))
        reporter = _Reporter(parts=parts, url=url, model=model, probe=probe, show=show, began=began)
        return asyncio.run(_supervise(children, reporter))


def _acquire(directory: DataDirectory) -> DirectoryLock:
    return DirectoryLock.acquire(
        directory.path, waiting=lambda: _log.warning("waiting_for_earlier_processes")
    )


async def _supervise(children: Sequence[ChildSpec], reporter: _Reporter) -> bool:
    supervisor = Supervisor(children)
    return await supervisor.run(partial(reporter.follow, supervisor))


class _Reporter:
    """Tells when everything is ready."""

    def __init__(
        self,
        *,
        parts: Stack,
        url: str,
        model: str,
        probe: DaemonProbe,
        show: Show,
        began: float,
    ) -> None:
        self._parts = parts
        self._url = url
        self._model = model
        self._probe = probe
        self._show = show
        self._began = began

    async def follow(self, supervisor: Supervisor) -> None:
        """Report once the daemon answers, and once the graph does."""
        embedded = "graph" not in self._parts.remotes()
        await self._patiently(supervisor, DAEMON)
        loading = embedded and not supervisor.is_answering("graph")
        self._show(*self._ready(supervisor.pids(), loading=loading))
        if loading:
            await self._patiently(supervisor, "graph")
            seconds = self._seconds()
            self._show(
                f"gralkord graph ready after {seconds:.1f} s",
                {"event": "graph_ready", "seconds": seconds},
            )

    async def _patiently(self, supervisor: Supervisor, name: str) -> None:
        while True:
            try:
                async with asyncio.timeout(_IMPATIENT_SECONDS):
                    return await supervisor.wait_until_answering(name)
            except TimeoutError:
                _log.warning(
                    "still_waiting", child=name, seconds=self._seconds(), parts=self._probe.parts
                )

    def _ready(self, pids: Mapping[str, int], *, loading: bool) -> tuple[str, dict[str, Any]]:
        remotes = self._parts.remotes()
        places = {name: f"at {address}" for name, address in remotes.items()}
        places |= {name: f"pid {pid}" for name, pid in pids.items()}
        if loading:
            places["graph"] += " (still loading: captures are taken, recall waits)"
        seconds, path = self._seconds(), self._parts.directory.path
        words = [
            f"gralkord {__version__} ready in {seconds:.1f} s",
            self._url,
            *(f"{name} {places.get(name, 'starting')}" for name in PARTS),
            f"data {path}",
            f"model {self._model}",
        ]
        fields = {
            "event": "ready",
            "version": __version__,
            "seconds": seconds,
            "url": self._url,
            "pid": os.getpid(),
            "pids": dict(pids),
            "remotes": remotes,
            "data_dir": str(path),
            "model": self._model,
            "graph": "loading" if loading else "ready",
        }
        return " · ".join(words), fields

    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 3)
