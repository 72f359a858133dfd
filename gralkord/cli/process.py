"""What ``gralkord serve`` and ``gralkord worker`` share: logs, exit code, parent."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from gralkord.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gralkord.config import Settings


_CREDENTIALS: Final = {
    "queue.password_file": "queue-password",
    "graph.password_file": "graph-password",
    "models.api_key_file": "llm-api-key",
    "models.embedder_api_key_file": "embedder-api-key",
    "models.reranker_api_key_file": "reranker-api-key",
    "models.vision_api_key_file": "vision-api-key",
}


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


def load(config: Path | None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings, with the secrets that the service manager hands over.

    Args:
        config: The settings' file, if any.
        overrides: Dotted key to value, as given by flags.

    Raises:
        ConfigError: As `gralkord.config.load_settings`.
    """
    from gralkord.config import load_settings

    files = {key: credential(name) for key, name in _CREDENTIALS.items()}
    return load_settings(config, overrides={**files, **(overrides or {})})


def credential(name: str) -> Path | None:
    """Return the file that holds a secret of the service manager's, ``None`` if it gives none."""
    from gralkord.providers.secrets import credential_file

    return credential_file(name, os.environ)


@contextmanager
def announced(data_dir: Path, url: str, token_file: Path) -> Iterator[None]:
    """Let clients find the daemon of *data_dir* for as long as this is open."""
    from gralkord.client.discovery import announce, withdraw

    announce(data_dir, url, token_file)
    try:
        yield
    finally:
        withdraw(data_dir)


def log_contents(settings: Settings) -> None:
    """Where the settings say ``test``, log at ``debug`` from now on, and say so."""
    import structlog

    from gralkord import log

    if not settings.test:
        return
    log.configure(level="debug")
    structlog.get_logger(__name__).warning(
        "test_mode", reason="`test` is set: what is said and asked is logged at level debug"
    )


def require_parts(settings: Settings) -> None:
    """Check that the settings say where both servers are, and that every model can be had.

    Lenses are checked by what is built of them.

    Raises:
        ConfigError: A server is missing, or as `gralkord.providers.check.check_roles`.
        StartError: A package that a model needs is missing.
    """
    from gralkord.providers.check import check_roles

    for name, server in (("queue", settings.queue), ("graph", settings.graph)):
        if not server.remote:
            raise ConfigError(
                f"{name}.host or {name}.socket is missing",
                field=f"{name}.host",
                hint="`gralkord up` starts both servers by itself",
            )
    check_roles(settings, os.environ)
