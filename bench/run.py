"""All measurements, one after the other, each in a process of its own.

Exit codes: 0 every figure is within its limit, 1 one is not or a measurement failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
MEASUREMENTS = (
    *("import_time", "capture", "http_capture", "producer", "import", "recall", "startup"),
    *("index_lane", "idle", "scaling", "takeover", "storm", "malformed"),
    *("reembed", "slow_embedder", "times"),
    *("add_episode", "fact_search", "cold_group", "graph_memory", "many_operators", "cost"),
)


def main() -> None:
    """Run the measurements named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if unknown := set(options.names) - set(MEASUREMENTS):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    figures, failed = [], []
    for name in options.names or MEASUREMENTS:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        found = _measure(name)
        if found is None:
            failed.append(name)
        else:
            figures += found
    if options.json:
        print(json.dumps({"figures": figures, "failed": failed}))
    else:
        _show(figures, failed)
    sys.exit(0 if not failed and all(figure["ok"] for figure in figures) else 1)


def _measure(name: str) -> list[dict[str, Any]] | None:
    """Return the figures of one measurement; none if it failed, which it has said itself."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--json"]
    run = subprocess.run(command, check=False, stdout=subprocess.PIPE)
    try:
        found: list[dict[str, Any]] = json.loads(run.stdout)["figures"]
    except ValueError:
        return None
    return found


def _show(figures: list[dict[str, Any]], failed: list[str]) -> None:
    table = Table()
    table.add_column("figure")
    table.add_column("measured", justify="right")
    table.add_column("limit", justify="right")
    table.add_column("")
    for figure in figures:
        limit = f"<= {figure['limit']:g}" if figure["limit"] is not None else ""
        limit = f">= {figure['least']:g}" if figure["least"] is not None else limit
        verdict = "" if not limit else "ok" if figure["ok"] else "[red]missed[/red]"
        measured = f"{figure['value']:,.2f} {figure['unit']}"
        table.add_row(figure["name"], measured, limit, verdict)
    for name in failed:
        table.add_row(name, "failed", "", "[red]failed[/red]")
    Console().print(table)


if __name__ == "__main__":
    main()
