"""Two runs, question by question: which of them finds more, where, and could it be chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any, Final

import orjson

from gralkord.errors import InvalidInput
from gralkord.evaluation.retrieval import RANKS, TOKEN_BUDGETS
from gralkord.wire import json_fault

MEASURES: Final = (*(f"@{rank}" for rank in RANKS), *(f"{budget}t" for budget in TOKEN_BUDGETS))
_SAME: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Run:
    """What a run has written.

    Attributes:
        name: Its file.
        records: What came of each question, by its id.
    """

    name: str
    records: Mapping[str, Mapping[str, Any]]


def read_run(path: Path) -> Run:
    """Return the run in the file at *path*, as ``--out`` of a measurement writes it.

    Raises:
        InvalidInput: It cannot be read, is not JSON, or holds no questions.
    """
    try:
        body = path.read_bytes()
        content = orjson.loads(body)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", field="file") from error
    except orjson.JSONDecodeError as error:
        raise InvalidInput(
            f"{path} is not JSON: {json_fault(body, error)}", field="file"
        ) from error
    records = content.get("records") if isinstance(content, dict) else None
    try:
        by_id = {record["id"]: record for record in records or ()}
        for record in by_id.values():
            for measure in MEASURES if record["answerable"] else ():
                _share(record, measure)
            _ = (record["question"], record["category"], record["within"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"{path}: a record lacks its shape: {type(error).__name__}", field="file"
        ) from error
    if not by_id:
        raise InvalidInput(
            f"{path} holds no records of questions; write one with --out", field="file"
        )
    return Run(str(path), by_id)


def compare(before: Run, after: Run, measure: str = "@10") -> dict[str, Any]:
    """Return how *after* differs from *before* in *measure*, and each question that differs.

    ``chance`` is the probability that so many of the questions that differ, or more, differ in
    one direction if both runs were equally good: the two-sided sign test.

    Args:
        before: A run.
        after: Another of the same questions.
        measure: One of `MEASURES`.

    Raises:
        InvalidInput: The measure is unknown, or they have no answerable question in common.
    """
    if measure not in MEASURES:
        raise InvalidInput(f"{measure!r} is none of {', '.join(MEASURES)}", field="measure")
    common = [name for name in before.records if name in after.records]
    rows = [_row(before.records[name], after.records[name], measure) for name in common]
    asked = [row for row in rows if row["answerable"]]
    if not asked:
        raise InvalidInput(f"{before.name} and {after.name} have no answerable question in common")
    categories: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in asked:
        categories[row["category"]].append(row)
    better, worse = (sum(row["difference"] * sign > _SAME for row in asked) for sign in (1, -1))
    return {
        "measure": measure,
        "questions": len(asked),
        "only_before": len(before.records) - len(common),
        "only_after": len(after.records) - len(common),
        "overall": _means(asked),
        "by_category": {name: _means(categories[name]) for name in sorted(categories)},
        "better": better,
        "worse": worse,
        "chance": round(sign_test(better, worse), 4),
        "answered_with_nothing": _silent(before, after, common),
        "differences": sorted(
            (row for row in asked if abs(row["difference"]) > _SAME),
            key=lambda row: (row["difference"], row["id"]),
        ),
    }


def sign_test(better: int, worse: int) -> float:
    """Return how probable so uneven a split, or a more uneven one, is by chance, 0 to 1."""
    total = better + worse
    tail = sum(comb(total, count) for count in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / int(2**total))


def _share(record: Mapping[str, Any], measure: str) -> float:
    kind, name = ("at", measure[1:]) if measure[0] == "@" else ("tokens", measure[:-1])
    return float(record[kind][name])


def _row(before: Mapping[str, Any], after: Mapping[str, Any], measure: str) -> dict[str, Any]:
    answerable = bool(before["answerable"] and after["answerable"])
    first, second = (_share(record, measure) if answerable else 0.0 for record in (before, after))
    return {
        "id": before["id"],
        "question": before["question"],
        "category": before["category"],
        "answerable": answerable,
        "before": first,
        "after": second,
        "difference": round(second - first, 4),
    }


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {
        name: round(sum(row[name] for row in rows) / len(rows), 4)
        for name in ("before", "after", "difference")
    }


def _silent(before: Run, after: Run, common: Sequence[str]) -> dict[str, int]:
    """Return to how many questions that have no answer each run has answered nothing."""
    silent = {}
    for name, run in (("before", before), ("after", after)):
        records = (run.records[each] for each in common)
        silent[name] = sum(not record["answerable"] and _results(record) == 0 for record in records)
    return silent


def _results(record: Mapping[str, Any]) -> int:
    return max((int(part["results"]) for part in record["within"].values()), default=0)
