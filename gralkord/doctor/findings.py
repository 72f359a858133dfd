"""What was found, check by check."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gralkord.errors import GralkorError

State = Literal["ok", "warn", "fail", "skip"]

STATES: Final[tuple[State, ...]] = ("ok", "warn", "fail", "skip")
# How a check tells that an earlier one of its section has made it pointless.
NOT_LOOKED: Final = "not looked at: "


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has found.

    Attributes:
        name: Section and check, as ``queue.persistence``.
        state: ``ok``; ``warn``: it works, and something may go wrong; ``fail``: something does not
            work, or memory may be lost; ``skip``: it was not looked at.
        found: What was found, in one sentence.
        mend: What to do about it; empty where nothing is to be done.
        facts: The same as values, for machines.
    """

    name: str
    state: State
    found: str
    mend: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the form for machines."""
        content: dict[str, Any] = {"name": self.name, "state": self.state, "found": self.found}
        if self.mend:
            content["mend"] = self.mend
        if self.facts:
            content["facts"] = dict(self.facts)
        return content


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found.

    Attributes:
        findings: One for each check, in their order.
        samples: What was asked of models: calls, tokens, and what they cost.
    """

    findings: Sequence[Finding]
    samples: Mapping[str, Any]

    @property
    def failed(self) -> bool:
        """Whether something does not work."""
        return any(finding.state == "fail" for finding in self.findings)

    def counts(self) -> dict[str, int]:
        """Return how many checks ended in each state."""
        found = Counter(finding.state for finding in self.findings)
        return {state: found[state] for state in STATES}

    def to_dict(self) -> dict[str, Any]:
        """Return the form for machines."""
        return {
            "ok": not self.failed,
            "counts": self.counts(),
            "samples": dict(self.samples),
            "checks": [finding.to_dict() for finding in self.findings],
        }


def of_error(name: str, error: GralkorError, state: State = "fail") -> Finding:
    """Return the finding of a check that ended with *error*."""
    mend = error.hint or (f"check {error.field}" if error.field else "")
    return Finding(name, state, error.message, mend)
