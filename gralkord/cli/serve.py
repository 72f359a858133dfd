"""``gralkord serve``: the daemon, for servers that are running already."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gralkord.cli.options import directory
from gralkord.cli.process import (
    announced,
    credential,
    load,
    log_contents,
    process,
    require_parts,
)

if TYPE_CHECKING:
    from gralkord.config import Settings
    from gralkord.embedded.directory import DataDirectory

_EPILOG = """
Examples:

  gralkord serve --config gralkord.toml

  GRALKORD_QUEUE__HOST=10.0.0.5 GRALKORD_GRAPH__HOST=10.0.0.6 gralkord serve --data-dir ./daemon

The token is in the file that GRALKORD_TOKEN_FILE names, else in the data directory. Under systemd
it serves on the sockets of its socket unit, and takes credentials named token, queue-password,
graph-password and those of models: see docs/how-to/models.md.

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
    with process(parent_fd):
        settings = load(config, {"rpc.port": port, "data_dir": data_dir})
        log_contents(settings)
        require_parts(settings)
        code = _serve(settings) if fd is None else _serve_inherited(settings, fd)
    raise typer.Exit(code)


def _serve_inherited(settings: Settings, fd: int) -> int:
    """Serve on the socket of a supervisor, which announces the daemon itself."""
    from gralkord.daemon import run

    os.set_inheritable(fd, False)
    _, token = _token(_directory(settings))
    return run(settings, listeners=[socket.socket(fileno=fd)], token=token)


def _serve(settings: Settings) -> int:
    """Serve on sockets of the service manager, else on one of our own, and say where."""
    from gralkord.daemon import run
    from gralkord.embedded.lock import DirectoryLock
    from gralkord.embedded.port import bind_port, handed_over, url_of

    directory = _directory(settings)
    with (
        closing(DirectoryLock.acquire(directory.path)) as lock,
        ExitStack() as open_sockets,
    ):
        listeners = handed_over(os.environ) or [bind_port(settings.rpc.host, settings.rpc.port)]
        for listener in listeners:
            open_sockets.enter_context(listener)
        url = url_of(listeners[0])
        lock.publish(url)
        token_file, token = _token(directory)
        with announced(directory.path, url, token_file):
            return run(settings, listeners=listeners, token=token)


def _directory(settings: Settings) -> DataDirectory:
    from gralkord.client.discovery import default_data_dir
    from gralkord.embedded.directory import DataDirectory

    return DataDirectory.prepare(settings.data_dir or default_data_dir())


def _token(directory: DataDirectory) -> tuple[Path, str]:
    """Return the token and the file that holds it: the one named, else the directory's own."""
    from gralkord.client.discovery import read_token

    if named := credential("token") or os.environ.get("GRALKORD_TOKEN_FILE"):
        return Path(named), read_token(Path(named))
    return directory.token_file, directory.token()
