"""``gralkord serve``: the daemon, for servers that are running already."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gralkord.cli.options import directory
from gralkord.cli.process import announced, process, require_servers

if TYPE_CHECKING:
    from gralkord.config import Settings
    from gralkord.embedded.directory import DataDirectory

_EPILOG = """
Examples:

  gralkord serve --config gralkord.toml

  GRALKORD_QUEUE__HOST=10.0.0.5 GRALKORD_GRAPH__HOST=10.0.0.6 gralkord serve --data-dir ./daemon

The token is in the file that GRALKORD_TOKEN_FILE names, else in the data directory.

Exit codes: 0 stopped, 1 failed, 2 wrong usage, 78 wrong configuration.
"""


def register(app: typer.Typer) -> None:
    """Add the command ``serve`` to *app*."""
    app.command(epilog=_EPILOG)(serve)


def serve(
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings.", envvar="GRALKORD_CONFIG")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=directory,
            help="Where the token is kept.",
            envvar="GRALKORD_DATA_DIR",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="HTTP port on the loopback address; 0 takes a free one.", min=0),
    ] = None,
    fd: Annotated[int | None, typer.Option(hidden=True)] = None,
    parent_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the daemon: HTTP port, router, index lane and recall."""
    from gralkord.config import load_settings

    with process(parent_fd):
        settings = load_settings(config, overrides={"rpc.port": port, "data_dir": data_dir})
        require_servers(settings)
        code = _serve(settings) if fd is None else _serve_inherited(settings, fd)
    raise typer.Exit(code)


def _serve_inherited(settings: Settings, fd: int) -> int:
    """Serve on the socket of a supervisor, which announces the daemon itself."""
    from gralkord.daemon import run

    os.set_inheritable(fd, False)
    _, token = _token(_directory(settings))
    return run(settings, fd=fd, token=token)


def _serve(settings: Settings) -> int:
    """Serve on a socket of our own, and say where."""
    from gralkord.daemon import run
    from gralkord.embedded.lock import DirectoryLock
    from gralkord.embedded.port import bind_port, url_of

    directory = _directory(settings)
    with (
        closing(DirectoryLock.acquire(directory.path)) as lock,
        bind_port(settings.rpc.host, settings.rpc.port) as listener,
    ):
        url = url_of(listener)
        lock.publish(url)
        token_file, token = _token(directory)
        rpc = settings.rpc.model_copy(update={"port": listener.getsockname()[1]})
        settings = settings.model_copy(update={"rpc": rpc})
        with announced(directory.path, url, token_file):
            return run(settings, fd=listener.detach(), token=token)


def _directory(settings: Settings) -> DataDirectory:
    from gralkord.client.discovery import default_data_dir
    from gralkord.embedded.directory import DataDirectory

    return DataDirectory.prepare(settings.data_dir or default_data_dir())


def _token(directory: DataDirectory) -> tuple[Path, str]:
    """Return the token and the file that holds it: the one named, else the directory's own."""
    from gralkord.client.discovery import read_token

    if named := os.environ.get("GRALKORD_TOKEN_FILE"):
        return Path(named), read_token(Path(named))
    return directory.token_file, directory.token()
