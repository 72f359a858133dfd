"""Real processes, started for one test and never left behind."""

from __future__ import annotations

import pytest
from up_process import UpProcess


@pytest.fixture
def start_up(tmp_path):
    """A function that starts ``gralkord up``; all that it started is ended after the test."""
    started: list[UpProcess] = []

    def start(data_dir=None, *flags: str, **environ: str) -> UpProcess:
        state = tmp_path / "state"
        started.append(UpProcess(data_dir or tmp_path / "data", *flags, state=state, **environ))
        return started[-1]

    yield start
    for process in started:
        process.clear()
