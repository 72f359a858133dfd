"""The ``gralkord`` command.

Each command's module is imported here, so none of them may import more than typer at its top.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gralkord import __version__
from gralkord.cli import (
    admin,
    backup,
    capture,
    config,
    costs,
    dead,
    demo,
    doctor,
    erase,
    eval,  # noqa: A004 - a command's name
    export,
    flush,
    generalise,
    import_,
    ingest,
    jobs,
    lenses,
    memories,
    observe,
    ontology,
    recall,
    reembed,
    reindex,
    search,
    serve,
    sources,
    status,
    testing,
    triples,
    up,
    worker,
)
from gralkord.cli.options import help_alone
from gralkord.cli.output import EXIT_CODES, OK, complain, complain_of_usage
from gralkord.errors import GralkorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer.models import CommandInfo

# In the order of `--help`: start, use, look after.
COMMANDS: Final = (
    up,
    serve,
    worker,
    capture,
    ingest,
    flush,
    recall,
    search,
    observe,
    memories,
    sources,
    triples,
    generalise,
    import_,
    export,
    status,
    jobs,
    dead,
    costs,
    erase,
    backup,
    reindex,
    reembed,
    admin,
    config,
    lenses,
    ontology,
    doctor,
    eval,
    demo,
    testing,
)

# The mark keeps the lines as they are.
_EPILOG: Final = "\b\nExit codes:\n" + "\n".join(
    f"  {code:<4}{meaning}" for code, meaning in EXIT_CODES.items()
)


def build(wanted: str | None = None) -> typer.Typer:
    """Return the command with all its subcommands.

    Args:
        wanted: The subcommand that is asked for: where it is one, no other is made, since making
            all of them takes a tenth of a second.
    """
    app = typer.Typer(
        name="gralkord", epilog=_EPILOG, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    app.callback(invoke_without_command=True)(_root)
    for command in COMMANDS:
        command.register(app)
    commands = [each for each in app.registered_commands if _name(each) == wanted]
    groups = [each for each in app.registered_groups if each.name == wanted]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups
    return app


def _name(command: CommandInfo) -> str | None:
    return command.name or (command.callback.__name__ if command.callback else "")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; return its exit code.

    Args:
        arguments: Words after the command's name; default: those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in words
    try:
        wanted = next((word for word in words if not word.startswith("-")), None)
        code = build(wanted)(args=words, prog_name="gralkord", standalone_mode=False)
        sys.stdout.flush()
    except GralkorError as error:
        return complain(error, as_json=as_json)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        usage = context.get_usage() if context else None
        # Part of it is pydantic's wording.
        message = error.format_message().replace("Value error, ", "")
        complain_of_usage(message, usage, as_json=as_json)
        return error.exit_code
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit as end:
        # What typer makes of a broken pipe.
        if isinstance(end.__context__, BrokenPipeError):
            return _reader_gone()
        raise
    return code if isinstance(code, int) else OK


def _reader_gone() -> int:
    """End quietly: whoever reads standard output has seen enough."""
    # Python would complain once more when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run())


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gralkord {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Long-term memory for AI agents: a daemon that loses nothing and recalls in milliseconds.

    Start it with `gralkord up`; every other command finds it by itself.
    """
    help_alone(context)


if __name__ == "__main__":
    main()
