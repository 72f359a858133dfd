"""What a run has found, for a person and for a machine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.audit import Check

COUNTED: Final = ("lost", "duplicated", "reordered", "foreign", "dead")
# What daemons and workers tell of the violence.
EVENTS: Final = frozenset(
    {"lease_lost", "leases_expired", "router_started", "router_lost", "item_failed", "turn_failed"}
    | {"duty_failed", "index_interrupted", "turn_interrupted", "model_outage"}
)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is told at the end.

    Attributes:
        acknowledged: Turns that producers have a receipt of.
        written: How many of them have a passage.
        takeovers: How many leases were taken over from the dead or silent.
        worst_takeover: The longest time from a holder's last sign of life until its work was free
            to be taken, in s.
        figures: Title to what is told for information.
    """

    checks: Sequence[Check]
    acknowledged: int
    written: int
    takeovers: int
    worst_takeover: float
    figures: Mapping[str, Mapping[str, Any]]

    @property
    def good(self) -> bool:
        """Whether every check holds."""
        return not any(check.faults for check in self.checks)

    def counts(self) -> dict[str, int]:
        """Return the numbers of faults, by the words of the last line."""
        found = dict.fromkeys(COUNTED, 0)
        for check in self.checks:
            if check.counts_as:
                found[check.counts_as] += len(check.faults)
        return found

    def last_line(self) -> str:
        """Return the one line that says it all."""
        counts = ", ".join(f"{name} {number}" for name, number in self.counts().items())
        return (
            f"chaos: acknowledged {self.acknowledged}, written {self.written}, {counts}, "
            f"takeovers {self.takeovers}, worst takeover {self.worst_takeover:.1f} s"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "good": self.good,
            "acknowledged": self.acknowledged,
            "written": self.written,
            **self.counts(),
            "takeovers": self.takeovers,
            "worst_takeover_seconds": self.worst_takeover,
            "checks": [
                {"name": check.name, "looked_at": check.looked_at, "faults": check.faults[:20]}
                for check in self.checks
            ],
            "figures": self.figures,
        }

    def __str__(self) -> str:
        lines = []
        for title, figures in self.figures.items():
            told = ", ".join(f"{name} {value}" for name, value in figures.items())
            lines.append(f"{title}: {told or 'nothing'}")
        lines += [str(check) for check in self.checks]
        return "\n".join([*lines, self.last_line()])


def events(logs: Iterable[Path]) -> Counter[str]:
    """Count what the logs tell of: name of the event, with its lane or reason where it has one."""
    found: Counter[str] = Counter()
    for entry in _entries(logs):
        if (event := entry.get("event")) in EVENTS:
            about = entry.get("lane", "")
            if event == "item_failed":
                about = f"{about} {entry.get('reason')}"
            found[f"{event} {about}".strip()] += 1
    return found


def errors(logs: Iterable[Path]) -> list[str]:
    """Return what was logged as an error: what nobody had thought of."""
    found = (entry for entry in _entries(logs) if entry.get("level") in {"error", "critical"})
    return [f"{entry.get('event')} {entry.get('exception', '')[-300:]}" for entry in found]


def _entries(logs: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                yield entry
