"""What a measurement says: figures, each with its limit, as one JSON object or for a person."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from gralkord import log

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    Attributes:
        name: What was measured.
        value: The value, in *unit*.
        unit: ``us``, ``ms``, ``s``, ``/s``, ``x``, ``%``, ``MB``, or nothing for a count.
        limit: What it must not be over; none: it is told for comparison.
        least: What it must not be under.
    """

    name: str
    value: float
    unit: str
    limit: float | None = None
    least: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the value is within its limits."""
        return (self.limit is None or self.value <= self.limit) and (
            self.least is None or self.value >= self.least
        )

    def to_dict(self) -> dict[str, object]:
        """Return the machine form."""
        return asdict(self) | {"value": round(self.value, 3), "ok": self.ok}

    def __str__(self) -> str:
        bound = f"<= {self.limit:g}" if self.limit is not None else ""
        bound = f">= {self.least:g}" if self.least is not None else bound
        verdict = ("ok" if self.ok else "MISSED") if bound else ""
        return f"{self.name:<58} {self.value:>10.2f} {self.unit:<3} {bound:<9} {verdict}".rstrip()


def main(
    description: str,
    measure: Callable[[argparse.Namespace], Coroutine[None, None, list[Figure]]],
    **counts: int,
) -> None:
    """Run one measurement as a program: options from *counts*, ``--json``, exit code 1 if missed.

    Args:
        description: What is measured.
        measure: Does it.
        counts: Option name to default, each a whole number.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    for name, default in counts.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=default, help=f"default {default}")
    options = parser.parse_args()
    log.configure(level="warning")
    figures = asyncio.run(measure(options))
    if options.json:
        print(json.dumps({"figures": [figure.to_dict() for figure in figures]}))
    else:
        for figure in figures:
            print(figure)
    sys.exit(0 if all(figure.ok for figure in figures) else 1)


def note(text: str) -> None:
    """Tell the person at the terminal what is being done."""
    print(text, file=sys.stderr, flush=True)
