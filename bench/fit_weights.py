"""Fit the weights of passages to conversations whose evidence is known, and tell what they find.

FILES are of the LoCoMo format. Nothing is started: the conversations are held in memory, and are
read, searched and scored by the code that `gralkord eval retrieval` runs. All questions are asked
on one fixed day.

A passage of a conversation is drawn for a question with probability p, the softmax of its score
s = w . x over all passages, where x are its parts. The weights w minimise the mean over questions
of the cross entropy between p and the evidence, of which each passage has an even share, plus
PENALTY / 2 times the squared length of w with each part measured in its standard deviations. The
loss is that of Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise Approach".

Leave-one-out: each conversation is searched with weights that were fitted to all others.

Exit codes: 0 measured, 2 a file or the command line is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from gralkord import log
from gralkord.errors import GralkorError, InvalidInput
from gralkord.evaluation.retrieval import MAX_RESULTS, RANKS, TOKEN_BUDGETS, score
from gralkord.evaluation.summary import summarize
from gralkord.evaluation.talks import PARTS, Case, Matrix, Talk, read_talks
from gralkord.recall.fusion import Weights
from gralkord.recall.search import Searched, search

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gralkord.evaluation.retrieval import Score

PENALTY: Final = 0.01
STEPS: Final = 100
# It is done when the next step would lower the loss by no more than about half of this.
PRECISION: Final = 1e-12


class _Point(NamedTuple):
    """The loss at some weights, its gradient and its Hessian."""

    loss: float
    slope: Matrix
    bend: Matrix


def main() -> None:
    """Read the files, fit, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILES")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    log.configure(level="warning")
    try:
        report = measure(asyncio.run(read_talks(options.files)))
    except GralkorError as error:
        parser.error(error.message)
    if options.json:
        print(json.dumps(report))
    else:
        _show(report)


def measure(talks: Sequence[Talk]) -> dict[str, Any]:
    """Return the weights, and the evidence found with those in use and leave-one-out.

    Raises:
        InvalidInput: There is only one conversation.
    """
    if len(talks) < 2:
        raise InvalidInput("one conversation is not enough: none would be left to fit to")
    used, fitted = Weights(), fit(talks)
    with_used = {talk.name: _scores(talk, used) for talk in talks}
    with_others = {
        talk.name: _scores(talk, fit(other for other in talks if other is not talk))
        for talk in talks
    }
    return {
        "questions": sum(len(talk.cases) for talk in talks),
        "weights": {
            part: {"in_use": getattr(used, part), "fitted": round(getattr(fitted, part), 3)}
            for part in PARTS
        },
        "in_use": _summary(with_used),
        "leave_one_out": _summary(with_others),
    }


def fit(talks: Iterable[Talk]) -> Weights:
    """Return the weights that make the evidence in *talks* likeliest, by Newton's method.

    The loss is convex, and strictly so with the penalty: there is one best point.

    Raises:
        ArithmeticError: It is not reached.
    """
    cases: list[Case] = [case for talk in talks for case in talk.cases]
    tables = [case.parts() for case in cases]
    deviation = np.concatenate(tables).std(axis=0)
    unit = np.where(deviation > 0, deviation, 1.0)
    lists = [(table / unit, case.share) for table, case in zip(tables, cases, strict=True)]
    weights = np.zeros(len(PARTS))
    at = _point(lists, weights)
    for _ in range(STEPS):
        step = np.linalg.solve(at.bend, at.slope)
        if step @ at.slope <= PRECISION:
            return replace(Weights(), **dict(zip(PARTS, (weights / unit).tolist(), strict=True)))
        while (there := _point(lists, weights - step)).loss > at.loss:
            step /= 2
        weights, at = weights - step, there
    raise ArithmeticError(f"no best weights within {STEPS} steps")


def _point(lists: Sequence[tuple[Matrix, Matrix]], weights: Matrix) -> _Point:
    """Return the loss at *weights* over questions, each with its parts and shares of evidence."""
    loss, slope, bend = 0.0, np.zeros(len(weights)), np.zeros((len(weights), len(weights)))
    for table, share in lists:
        scores = table @ weights
        scores -= scores.max()
        chance = np.exp(scores)
        total = chance.sum()
        chance /= total
        mean = chance @ table
        loss += float(np.log(total) - share @ scores)
        slope += mean - share @ table
        bend += (table.T * chance) @ table - np.outer(mean, mean)
    count = len(lists)
    return _Point(
        loss / count + PENALTY / 2 * float(weights @ weights),
        slope / count + PENALTY * weights,
        bend / count + PENALTY * np.eye(len(weights)),
    )


def _scores(talk: Talk, weights: Weights) -> list[Score]:
    found = []
    for case in talk.cases:
        where = [Searched(talk.group, talk.cache, case.vector)]
        memories = search(case.query, where, MAX_RESULTS, case.view, weights)
        found.append(score(case.question, memories, 0.0))
    return found


def _summary(scores: Mapping[str, Sequence[Score]]) -> dict[str, Any]:
    whole = summarize([one for some in scores.values() for one in some])
    return {
        "overall": whole["overall"],
        "by_conversation": {name: summarize(some)["overall"] for name, some in scores.items()},
        "by_category": whole["by_category"],
    }


def _show(report: Mapping[str, Any]) -> None:
    weights = Table("weight", title="Weights of passages")
    for name in ("in use", "fitted"):
        weights.add_column(name, justify="right")
    for part, pair in report["weights"].items():
        weights.add_row(part, f"{pair['in_use']:.2f}", f"{pair['fitted']:.2f}")
    found = f"Evidence found, {report['questions']} questions"
    console = Console()
    console.print(
        weights,
        _found(f"{found}, weights in use", report["in_use"]),
        _found(f"{found}, leave-one-out", report["leave_one_out"]),
    )


def _found(title: str, summary: Mapping[str, Any]) -> Table:
    table = Table("", title=title, caption="t: tokens")
    for head in (*(f"@{rank}" for rank in RANKS), *(f"{budget:,} t" for budget in TOKEN_BUDGETS)):
        table.add_column(head, justify="right")
    rows = {"all": summary["overall"]} | summary["by_conversation"]
    rows |= {f"category {number}": means for number, means in summary["by_category"].items()}
    for name, means in rows.items():
        shares = [*means["at"].values(), *means["tokens"].values()]
        table.add_row(name, *(f"{share:.3f}" for share in shares))
    return table


if __name__ == "__main__":
    main()
