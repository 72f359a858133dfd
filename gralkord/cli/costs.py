"""``gralkord costs``: what model calls have used and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gralkord.cli.options import AsJson, DataDir, Url, connected

if TYPE_CHECKING:
    from rich.table import Table

    from gralkord.models.costs import BudgetState, Costs, Spending

_EPILOG = """
Examples:

  gralkord costs

  gralkord costs --by model --since 2026-05-01 --until 2026-05-31

  gralkord costs --operator ada --by day --json

Days are days in UTC. Prices are those of `models.options."SPEC".price` at the time of each call;
calls without one are counted, but not in the dollars.

Prints a table on a terminal; piped, one line a row and one for the total: name, calls, prompt
tokens, cached tokens, completion tokens, seconds, dollars and unpriced calls, between tabs. Daily
budgets, if there are any, stand on standard error.
"""
_HEADS = ("calls", "prompt", "cached", "completion", "seconds", "USD", "unpriced")


def register(app: typer.Typer) -> None:
    """Add the command ``costs`` to *app*."""
    app.command(epilog=_EPILOG)(costs)


def costs(
    *,
    # No variable of the environment, unlike elsewhere: it would hide costs silently.
    operator: Annotated[
        str | None,
        typer.Option("--operator", "-o", metavar="OPERATOR", help="Only calls on its account."),
    ] = None,
    by: Annotated[
        Literal["stage", "lens", "operator", "model", "role", "day"],
        typer.Option("--by", help="What a row is about."),
    ] = "stage",
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DAY", help="First day. Default: 30 days up to the last."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DAY", help="Last day. Default: today.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Print what model calls have used and cost, and how far daily budgets are spent."""
    from gralkord.cli.output import draw, emit, on_terminal, printable, say

    with connected(url, data_dir) as client:
        found = client.costs(by, operator=operator, since=since, until=until)
    if as_json:
        emit(found.model_dump())
        return
    if on_terminal():
        draw(_table(found))
    else:
        for row in found.rows:
            say("\t".join((printable(row.key or "-", one_line=True), *_cells(row))))
        say("\t".join(("total", *_cells(found.total))))
    for line in _notes(found):
        typer.echo(printable(line, one_line=True), err=True)


def _cells(one: Spending) -> tuple[str, ...]:
    return (
        str(one.calls),
        str(one.prompt_tokens),
        str(one.cached_tokens),
        str(one.completion_tokens),
        f"{one.seconds:.1f}",
        f"{one.usd:.6f}",
        str(one.unpriced_calls),
    )


def _table(found: Costs) -> Table:
    from rich.table import Table
    from rich.text import Text

    from gralkord.cli.output import printable

    table = Table(title=f"{found.since} to {found.until}", box=None, title_justify="left")
    table.add_column(found.by)
    for head in _HEADS:
        table.add_column(head, justify="right")
    for row in found.rows:
        # As a text, for a name may look like markup.
        table.add_row(Text(printable(row.key or "-", one_line=True)), *_cells(row))
    table.add_section()
    table.add_row("total", *_cells(found.total))
    return table


def _notes(found: Costs) -> list[str]:
    lines = [_budget(state) for state in found.budgets]
    if found.days_without_operators:
        lines.append(
            f"{found.days_without_operators} days do not tell operators apart any more; their "
            "calls are in the costs of all, not in those of one"
        )
    return lines


def _budget(state: BudgetState) -> str:
    whose = "the tenant" if state.operator is None else state.operator
    parts: list[str] = []
    if state.usd is not None:
        parts.append(f"{state.spent_usd:.2f} of {state.usd:.2f} USD")
    if state.tokens is not None:
        parts.append(f"{state.spent_tokens} of {state.tokens} tokens")
    line = f"budget of {whose} today: {', '.join(parts)}"
    return f"{line}; spent until {state.resets_at}" if state.state == "spent" else line
