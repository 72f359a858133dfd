"""Options that many commands share, and the connection they lead to."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gralkord.errors import InvalidInput, TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gralkord.client.sync import Client

MAX_STDIN_BYTES: Final = 2 * 1024 * 1024


def directory(text: str) -> Path:
    """Return the path that an option names.

    Raises:
        BadParameter: It is blank, as of a variable that is not set.
    """
    if not text.strip():
        raise typer.BadParameter("must not be blank")
    return Path(text)


# The environment is read by the client, which knows that a flag of one goes before a variable of
# the other.
Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of the daemon. [env: GRALKORD_URL]", metavar="URL"),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        parser=directory,
        help="Data directory of the daemon. [env: GRALKORD_DATA_DIR]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, errors too.")]
Operator = Annotated[
    str | None,
    typer.Option(
        "--operator", "-o", metavar="OPERATOR", help="Whose memory.", envvar="GRALKORD_OPERATOR"
    ),
]
Lenses = Annotated[
    list[str] | None,
    typer.Option("--lens", metavar="LENS", help="A lens besides `default`; may be repeated."),
]
LensesOfTurn = Annotated[
    list[str] | None,
    typer.Option(
        "--lens",
        metavar="LENS",
        help="A lens that it goes through, instead of its agent's or `default`; may be repeated.",
    ),
]
AskingAgent = Annotated[
    str | None,
    typer.Option("--agent", metavar="AGENT", help="Who asks; an agent may have lenses of its own."),
]
AsOf = Annotated[
    str | None,
    typer.Option(help="What was valid then, ISO 8601; UTC if without a zone. Default: now."),
]
KnownAt = Annotated[str | None, typer.Option(help="Only what was known then, ISO 8601.")]
Invalidated = Annotated[
    bool, typer.Option("--include-invalidated", help="Also what does not hold any more.")
]
Zone = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE",
        help="Where the asker is, such as `Europe/Berlin`: when `yesterday` begins and ends.",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Only `passage`, `fact`, `learning`, `generalisation` or `memory`; may be repeated.",
    ),
]


@contextmanager
def connected(url: str | None, data_dir: Path | None) -> Iterator[Client]:
    """Connect to the daemon that the options or the environment name, or the one that runs."""
    from gralkord.client.sync import Client
    from gralkord.client.transport import Retry

    with Client(url, data_dir=data_dir, retry=Retry(retries=2)) as client:
        yield client


def required(**options: str | None) -> None:
    """Check that options were given.

    Raises:
        BadParameter: Some were not; all are named.
    """
    missing = [f"--{name}" for name, value in options.items() if value is None]
    if missing:
        raise typer.BadParameter(f"missing {', '.join(missing)}")


def read_text(argument: str, name: str) -> str:
    """Return *argument*, or what standard input holds if it is ``-``, without the last line feed.

    Raises:
        InvalidInput: Standard input is too long or not UTF-8.
    """
    if argument != "-":
        return argument
    try:
        return read_bytes(Path("-")).decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{name}: byte {error.start + 1} is not valid UTF-8", field=name
        ) from None


def read_bytes(path: Path) -> bytes:
    """Return what is in the file at *path*, or in standard input if that is ``-``.

    Raises:
        TooLarge: It is more than a request can hold.
        BadParameter: The file cannot be read.
    """
    try:
        if str(path) == "-":
            content = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MAX_STDIN_BYTES + 1)
    except OSError as error:
        raise typer.BadParameter(f"cannot read {path}: {error.strerror}") from error
    if len(content) > MAX_STDIN_BYTES:
        raise TooLarge(
            f"the input is too large, the limit is {MAX_STDIN_BYTES} bytes", limit=MAX_STDIN_BYTES
        )
    return content


def help_alone(context: typer.Context) -> None:
    """Print the help of a group of commands that is called without one of them."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@contextmanager
def usage() -> Iterator[None]:
    """Let what is wrong with a file that the command line names count as wrong usage.

    Raises:
        BadParameter: What is done within raised InvalidInput.
    """
    try:
        yield
    except InvalidInput as error:
        raise typer.BadParameter(error.message) from error
