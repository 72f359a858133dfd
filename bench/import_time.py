"""How long ``import gralkord`` takes in a fresh interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

from figures import Figure, main

if TYPE_CHECKING:
    import argparse

STATEMENTS = {
    "import gralkord": 150.0,
    "from gralkord import Client": None,
    "import gralkord.cli.app": None,
}
TIMER = "import time; t = time.perf_counter(); {}; print((time.perf_counter() - t) * 1000)"


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Return the median over several interpreters for each statement."""
    return [
        Figure(statement, _median(statement, options.repeats), "ms", limit)
        for statement, limit in STATEMENTS.items()
    ]


def _median(statement: str, repeats: int) -> float:
    command = [sys.executable, "-c", TIMER.format(statement)]
    times = []
    for _ in range(repeats):
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        times.append(float(run.stdout))
    return statistics.median(times)


if __name__ == "__main__":
    main(__doc__ or "", measure, repeats=9)
