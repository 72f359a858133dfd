"""``gralkord eval``: measure what recall finds."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gralkord.cli.options import AsJson, directory, help_alone, usage

if TYPE_CHECKING:
    from gralkord.evaluation.run import Evaluated

_EPILOG = """
Examples:

  gralkord eval retrieval conversation.json --format locomo

  gralkord eval retrieval conversations/*.json --format locomo --json

Without --url and --data-dir it starts a daemon of its own, without a model, and stops it again.

Exit codes: 0 measured, 1 failed, 2 a file or the command line is wrong.
"""


class Format(StrEnum):
    """What a file holds."""

    LOCOMO = "locomo"


def register(app: typer.Typer) -> None:
    """Add the command ``eval`` with its measurements to *app*."""
    group = typer.Typer(help="Measure what recall finds.")
    group.callback(invoke_without_command=True)(help_alone)
    group.command(epilog=_EPILOG)(retrieval)
    app.add_typer(group, name="eval")


def retrieval(
    *,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Files of conversations and questions."),
    ],
    file_format: Annotated[Format, typer.Option("--format", help="`locomo`.")] = Format.LOCOMO,
    as_json: AsJson = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the temporary data directory and name it.")
    ] = False,
    url: Annotated[
        str | None, typer.Option("--url", help="Measure this running daemon.", metavar="URL")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            metavar="DIR",
            parser=directory,
            help="Measure the daemon of this data directory.",
        ),
    ] = None,
) -> None:
    """Score which share of the evidence of each question recall returns."""
    import asyncio

    from gralkord import log
    from gralkord.cli.output import emit
    from gralkord.cli.progress import progress
    from gralkord.evaluation.run import evaluate, read_conversations
    from gralkord.evaluation.stack import until_signal

    log.configure(level="warning")
    with usage():
        conversations = read_conversations(files)
    steps = sum(conversation.turns + conversation.questions for conversation in conversations)

    def kept(path: Path) -> None:
        typer.echo(f"kept {path}", err=True)

    with progress(f"{file_format} retrieval", steps) as advance:
        run = evaluate(
            conversations,
            url=url,
            data_dir=data_dir,
            on_progress=advance,
            on_kept=kept if keep else None,
        )
        evaluated = asyncio.run(until_signal(run))
    if evaluated.left_out:
        typer.echo(f"{evaluated.left_out} questions without readable evidence left out", err=True)
    if as_json:
        emit(evaluated.summary)
    else:
        _show(evaluated)


def _show(evaluated: Evaluated) -> None:
    from rich.table import Table

    from gralkord.cli.output import draw, say

    summary = evaluated.summary
    rows: dict[str, dict[str, Any]] = {"all": summary["overall"]}
    rows |= {f"category {number}": means for number, means in summary["by_category"].items()}
    table = Table(title=f"Evidence found, {summary['questions']} questions")
    table.add_column("")
    for rank in summary["overall"]["at"]:
        table.add_column(f"@{rank}", justify="right")
    for budget in summary["overall"]["tokens"]:
        table.add_column(f"{int(budget):,} tokens", justify="right")
    for name, means in rows.items():
        shares = [*means["at"].values(), *means["tokens"].values()]
        table.add_row(name, *(f"{share:.3f}" for share in shares))
    latency = summary["latency_ms"]
    draw(table)
    say(f"recall p50 {latency['p50']:.1f} ms, p95 {latency['p95']:.1f} ms")
