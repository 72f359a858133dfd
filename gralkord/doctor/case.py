"""What is looked at: the settings, and where everything is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gralkord.client.discovery import (
    default_data_dir,
    default_instance,
    read_instance,
    start_command,
)
from gralkord.client.sockets import own_socket
from gralkord.doctor.samples import AROUND_CHARACTERS
from gralkord.errors import BackendUnavailable, ConfigError
from gralkord.providers.build import Builder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gralkord.clock import Clock
    from gralkord.config import Graph, Queue, Settings
    from gralkord.groups import Group
    from gralkord.providers.ledger import Call

Kind = Literal["queue", "graph"]


@dataclass(slots=True)
class Tally:
    """Implements `gralkord.providers.ledger.Ledger`: counts what the samples have used.

    Attributes:
        calls: The calls so far.
        whole: Another tally in which they count too.
    """

    calls: list[Call] = field(default_factory=list)
    whole: Tally | None = None

    async def permit(self, group: Group | None) -> None:
        """Let everything pass: samples are of nobody's account."""

    async def record(self, call: Call) -> None:
        """Count *call*."""
        self.calls.append(call)
        if self.whole is not None:
            await self.whole.record(call)

    def to_dict(self) -> dict[str, Any]:
        """Return calls, tokens and cost; the cost is of the calls whose price is known."""
        costs = [call.cost_usd for call in self.calls]
        return {
            "calls": len(self.calls),
            "prompt_tokens": sum(call.prompt_tokens for call in self.calls),
            "completion_tokens": sum(call.completion_tokens for call in self.calls),
            "cost_usd": round(sum(cost for cost in costs if cost is not None), 6),
            "unpriced": sum(cost is None for cost in costs),
        }


@dataclass(frozen=True, slots=True)
class Case:
    """One installation, as it can be looked at from here.

    Attributes:
        settings: What is configured.
        environ: Environment variables.
        data_dir: The data directory.
        clock: The clock of this machine.
        running: Whether a daemon has announced itself there and still runs.
        offline: Whether no model may be asked.
        long: Whether models are also sent a prompt as long as that of the longest session.
        url: Address of the daemon, if one was named.
        config_file: The file that the settings are from, if any.
        token_file: The file that holds the daemon's token, where it is not the one it announced.
        tally: What the samples have used.
    """

    settings: Settings
    environ: Mapping[str, str]
    data_dir: Path
    clock: Clock
    running: bool = False
    offline: bool = False
    long: bool = False
    url: str | None = None
    config_file: Path | None = None
    token_file: Path | None = None
    tally: Tally = field(default_factory=Tally)

    def builder(self, tally: Tally | None = None) -> Builder:
        """Return a builder of the models, whose calls are counted in *tally*."""
        return Builder.of(self.settings.models, self.environ, ledger=tally or self.tally)

    def queue(self) -> Queue | None:
        """Return how to reach the queue; None: it is embedded, and does not run."""
        settings = self.settings.queue
        if settings.remote:
            return settings
        socket = self._socket("queue")
        return settings.model_copy(update={"socket": socket}) if socket else None

    def graph(self) -> Graph | None:
        """Return how to reach the graph; None: it is embedded, and does not run."""
        settings = self.settings.graph
        if settings.remote:
            return settings
        socket = self._socket("graph")
        return settings.model_copy(update={"socket": socket}) if socket else None

    def _socket(self, kind: Kind) -> Path | None:
        # A socket may be left of servers that were killed.
        return own_socket(self.data_dir, f"{kind}.sock", self.environ) if self.running else None

    @property
    def longest(self) -> int:
        """How many characters the prompt of the longest session has, about."""
        return self.settings.capture.flush_bytes + AROUND_CHARACTERS

    def not_running(self) -> BackendUnavailable:
        """Return the error that says so."""
        return BackendUnavailable(
            f"nothing runs on {self.data_dir}", hint=f"start it with {start_command(self.data_dir)}"
        )


def data_directory(settings: Settings, environ: Mapping[str, str]) -> tuple[Path, bool]:
    """Return the data directory to look at, and whether a daemon runs on it.

    Args:
        settings: What is configured; where it names no directory, that of a daemon that runs.
        environ: Environment variables.
    """
    if settings.data_dir is None:
        try:
            return default_instance(environ).data_dir, True
        except (BackendUnavailable, ConfigError):
            return default_data_dir(environ), False
    directory = settings.data_dir.expanduser().absolute()
    instance = read_instance(directory)
    return directory, instance is not None and instance.alive()
