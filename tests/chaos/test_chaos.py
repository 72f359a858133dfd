"""The proof that nothing is lost, in small: `make chaos` runs it at length."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Each kind of violence once; the rest is starting, understanding what is left, and reading.
SMALL = ("--minutes", "0.38", "--turns", "420", "--operators", "12", "--sessions", "48")
DENSE = ("--every", "1.7", "--workers", "3", "--flush-turns", "5", "--drain", "120")


@pytest.mark.timeout(300)
def test_a_minute_of_violence_loses_doubles_and_reorders_nothing():
    """Every kind of violence hits, and every check of the audit holds."""
    run = subprocess.run(
        [sys.executable, "-m", "chaos", "--json", *SMALL, *DENSE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout, run.stderr[-3000:]
    report = json.loads(run.stdout)
    faults = {each["name"]: each["faults"] for each in report["checks"] if each["faults"]}
    assert (run.returncode, faults) == (0, {}), run.stderr[-3000:]
    assert report["acknowledged"] == report["written"] == 420
    assert report["takeovers"] > 0
