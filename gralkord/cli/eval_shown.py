"""The tables of ``gralkord eval``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gralkord.cli.output import draw, printable, say

if TYPE_CHECKING:
    from rich.table import Table

# Questions that differ, of each direction; --json has all of them.
SHOWN: Final = 10
# At so many results the measures of a whole answer are told.
OF_RESULTS: Final = "5"
# The numbers of results for which it is told what a part is worth: a terminal has 80 columns.
OF_PARTS: Final = ("5", "10", "20")


def show_run(summary: Mapping[str, Any]) -> None:
    """Print the figures of a run."""
    rows: dict[str, Mapping[str, Any]] = {"all": summary["overall"]}
    rows |= {_category(name): means for name, means in summary["by_category"].items()}
    draw(_found(f"Evidence found, {summary['questions']} questions", rows))
    _show_measures(summary["measures"])
    _show_abstention(summary["abstention"])
    latency = summary["latency_ms"]
    say(f"recall p50 {latency['p50']:.1f} ms, p95 {latency['p95']:.1f} ms")


def show_ablations(report: Mapping[str, Any]) -> None:
    """Print what each part is worth."""
    from rich.table import Table

    table = Table(title=f"Evidence found, {report['questions']} questions", pad_edge=False)
    heads = (*(f"@{rank}" for rank in OF_PARTS), "500 t", "1000 t", "2000 t", "@10 by")
    table.add_column("", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right")
    for name, figures in report["variants"].items():
        found = figures["overall"]
        shares = [*(found["at"][rank] for rank in OF_PARTS), *found["tokens"].values()]
        change = figures["difference"]["at"]["10"]
        table.add_row(
            name, *(f"{share:.3f}" for share in shares), f"{change:+.3f}" if change else ""
        )
    draw(table)


def show_comparison(report: Mapping[str, Any]) -> None:
    """Print how two runs differ."""
    from rich.table import Table

    table = Table(title=f"Evidence found {report['measure']}, {report['questions']} questions")
    table.add_column("")
    for name in ("before", "after", "difference"):
        table.add_column(name, justify="right")
    rows = {"all": report["overall"]}
    rows |= {_category(name): means for name, means in report["by_category"].items()}
    for name, means in rows.items():
        table.add_row(
            printable(name, one_line=True),
            f"{means['before']:.3f}",
            f"{means['after']:.3f}",
            f"{means['difference']:+.3f}",
        )
    draw(table)
    say(f"{report['better']} better, {report['worse']} worse; by chance: {report['chance']:.3f}")
    silent = report["answered_with_nothing"]
    if any(silent.values()):
        say(f"without an answer, answered with nothing: {silent['before']} -> {silent['after']}")
    for side in ("before", "after"):
        if alone := report[f"only_{side}"]:
            say(f"{alone} questions are in {side} only, and left out")
    rows_of = report["differences"]
    for row in (*rows_of[:SHOWN], *rows_of[max(SHOWN, len(rows_of) - SHOWN) :]):
        text = printable(f"{row['id']}  {row['question']}", one_line=True)
        say(f"{row['before']:.2f} -> {row['after']:.2f}  {text}")
    if (left := len(rows_of) - 2 * SHOWN) > 0:
        say(f"and {left} more between these; --json has all")


def _found(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(title=title, caption="t: tokens", pad_edge=False)
    table.add_column("", no_wrap=True)
    some = next(iter(rows.values()))
    for rank in some["at"]:
        table.add_column(f"@{rank}", justify="right")
    for budget in some["tokens"]:
        table.add_column(f"{budget} t", justify="right")
    for name, means in rows.items():
        shares = [*means["at"].values(), *means["tokens"].values()]
        table.add_row(printable(name, one_line=True), *(f"{share:.3f}" for share in shares))
    return table


def _show_measures(measures: Mapping[str, Any]) -> None:
    within = measures["within"][OF_RESULTS]
    say(
        f"among {OF_RESULTS} results: recall {_share(within['recall'])}, "
        f"precision {_share(within['precision'])}, hit rate {_share(within['hit_rate'])}, "
        f"near distractors {_share(within['near_distractors'])}, "
        f"contradictions whole {_share(within['whole'])}, repeats {_share(within['repeats'])}"
    )
    say(
        f"mean reciprocal rank {_share(measures['mrr'])}; "
        f"a distractor before the answer {_share(measures['misled'])}"
    )


def _show_abstention(abstention: Mapping[str, Any]) -> None:
    if not abstention["unanswerable"]:
        return
    say(
        f"{abstention['unanswerable']} questions without an answer: "
        f"nothing for {_share(abstention['answered_with_nothing'])} of them "
        f"(and for {_share(abstention['answerable_with_nothing'])} of the others); "
        f"told apart by score {_share(abstention['told_apart'])}"
    )
    for least, figures in abstention["thresholds"].items():
        say(
            f"  from a score of {least} on: nothing for {_share(figures['nothing'])}, "
            f"evidence @10 {_share(figures['at_10'])}"
        )


def _category(name: str) -> str:
    return f"category {name}" if name.isdigit() else name


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"
