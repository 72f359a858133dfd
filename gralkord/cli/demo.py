"""``gralkord demo``: see it work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gralkord.cli.options import AsJson

if TYPE_CHECKING:
    from gralkord.demo.demo import DemoResult, Step

_EPILOG = """
Examples:

  gralkord demo

  gralkord demo --json

It needs no key and no network, and leaves nothing behind.

Exit codes: 0 every question was answered, 1 one was not, or a part does not work, 2 wrong usage.
"""


def register(app: typer.Typer) -> None:
    """Add the command ``demo`` to *app*."""
    app.command(epilog=_EPILOG)(demo)


def demo(
    as_json: AsJson = False,
    keep_dir: Annotated[
        bool, typer.Option("--keep-dir", help="Leave the data directory and name it.")
    ] = False,
) -> None:
    """Capture an invented history, understand it, restart everything, and ask about it."""
    import asyncio

    from gralkord import log
    from gralkord.cli.output import emit, say
    from gralkord.demo.demo import Demo
    from gralkord.evaluation.stack import temporary_data_dir, until_signal

    log.configure(level="warning")

    def show(step: Step) -> None:
        if not as_json:
            typer.echo(f"{step.seconds:6.2f} s  {step.what}")  # at once, also into a pipe

    with temporary_data_dir(keep=keep_dir) as path:
        result = asyncio.run(until_signal(Demo(path, show).run()))
    if as_json:
        kept = {"data_dir": str(path)} if keep_dir else {}
        emit(result.to_dict() | kept)
    else:
        _show(result)
        if keep_dir:
            say(f"kept {path}: try `gralkord up --data-dir {path}`")
    if not result.ok:
        raise typer.Exit(1)


def _show(result: DemoResult) -> None:
    from rich.table import Table
    from rich.text import Text

    from gralkord.cli.output import draw, printable, say

    table = Table(title="What was asked after the restart", show_lines=True)
    for name in ("question", "best memory", "when"):
        table.add_column(name)
    table.add_column("found at rank", justify="right")
    table.add_column("ms", justify="right")
    for one in result.found:
        table.add_row(
            one.question,
            Text(printable(one.memory)),
            (one.when or "")[:10],
            str(one.rank) if one.ok else f"[red]{one.rank or 'not found'}[/red]",
            f"{one.milliseconds:.1f}",
        )
    draw(table)
    good = sum(one.ok for one in result.found)
    say(f"{good} of {len(result.found)} questions found their memory in the top five")
