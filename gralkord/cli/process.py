"""What ``gralkord serve`` and ``gralkord worker`` share: logs, exit code, parent."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from gralkord.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gralkord.config import Settings


@contextmanager
def process(parent_fd: int | None) -> Iterator[None]:
    """Run a long-lived process: it logs, and ends when the parent that started it is gone.

    A configuration that is not acceptable ends it with exit code 78, which tells supervisors not to
    try again.

    Args:
        parent_fd: The read end of a pipe that ends with the parent; none: nobody supervises it.
    """
    from gralkord import log
    from gralkord.cli.output import complain
    from gralkord.embedded.parent import watch_parent
    from gralkord.embedded.supervisor import EXIT_CONFIG

    try:
        log.configure()
        if parent_fd is not None:
            watch_parent(parent_fd)
        yield
    except ConfigError as error:
        complain(error, as_json=False)
        raise typer.Exit(EXIT_CONFIG) from error


@contextmanager
def announced(data_dir: Path, url: str, token_file: Path) -> Iterator[None]:
    """Let clients find the daemon of *data_dir* for as long as this is open."""
    from gralkord.client.discovery import announce, withdraw

    announce(data_dir, url, token_file)
    try:
        yield
    finally:
        withdraw(data_dir)


def require_servers(settings: Settings) -> None:
    """Check that the settings say where both servers are.

    Raises:
        ConfigError: One is missing.
    """
    for name, server in (("queue", settings.queue), ("graph", settings.graph)):
        if not server.remote:
            raise ConfigError(
                f"{name}.host or {name}.socket is missing",
                field=f"{name}.host",
                hint="`gralkord up` starts both servers by itself",
            )
