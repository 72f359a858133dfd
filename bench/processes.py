"""What the processes of a gralkord use, as the kernel accounts for it."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_NAMES = {"serve": "daemon", "worker": "worker"}


def children(pid: int) -> dict[str, int]:
    """Return the process ids of the children of ``gralkord up``, by the name of the part."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        found[_name_of(words)] = int(child)
    return found


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, all its threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _name_of(words: list[str]) -> str:
    line = " ".join(words)
    if "redis-server" in line:  # it writes its socket over its command line
        return "graph" if "graph.sock" in line else "queue"
    return next((name for word, name in _NAMES.items() if word in words), "other")
