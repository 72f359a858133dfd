"""Look at all sections, and tell of each in its turn."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from gralkord.doctor import daemon, graph, lenses, machine, models, prices, queue
from gralkord.doctor.findings import NOT_LOOKED, Finding, Report, of_error
from gralkord.errors import GralkorError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterator

    from gralkord.doctor.case import Case

log = structlog.get_logger(__name__)

# After one of these a section may have left the rest out.
_ENDS: Final = ("fail", "skip")


@dataclass(frozen=True, slots=True)
class Section:
    """Checks that belong together.

    Attributes:
        name: What their names begin with.
        checks: The rest of their names, in the order in which they are told.
        look: Yields what is found; a check that it leaves out was not looked at.
        alone: Whether nothing else is looked at meanwhile, because milliseconds are measured.
    """

    name: str
    checks: tuple[str, ...]
    look: Callable[[Case], AsyncIterator[Finding]] = field(repr=False)
    alone: bool = False


SECTIONS: Final = (
    Section("machine", machine.CHECKS, machine.look, alone=True),
    Section("settings", prices.CHECKS, prices.look, alone=True),
    Section("lenses", lenses.CHECKS, lenses.look, alone=True),
    Section("queue", queue.CHECKS, queue.look, alone=True),
    Section("graph", graph.CHECKS, graph.look, alone=True),
    Section("daemon", daemon.CHECKS, daemon.look),
    *(Section(role, models.CHECKS[role], look) for role, look in models.LOOKS.items()),
)


def sections() -> dict[str, tuple[str, ...]]:
    """Return the names of all checks, by section."""
    return {section.name: section.checks for section in SECTIONS}


@dataclass(frozen=True, slots=True)
class Doctor:
    """Looks at one installation.

    Attributes:
        case: What is looked at.
        only: Sections, or single checks as ``section.check``; empty: everything.
    """

    case: Case
    only: Collection[str] = ()

    async def run(self, show: Callable[[Finding], None] = lambda _: None) -> Report:
        """Look at everything, and return what was found.

        Args:
            show: Told of each finding in its order, as soon as its section is done.
        """
        wanted = [section for section in SECTIONS if list(self._wanted(section))]
        found: list[Finding] = []

        def tell(findings: list[Finding]) -> None:
            for finding in findings:
                show(finding)
                found.append(finding)

        for section in wanted:
            if section.alone:
                tell(await self._examine(section))
        tasks = [asyncio.create_task(self._examine(each)) for each in wanted if not each.alone]
        try:
            for task in tasks:
                tell(await task)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return Report(found, self.case.tally.to_dict())

    def _wanted(self, section: Section) -> Iterator[str]:
        for check in section.checks:
            name = f"{section.name}.{check}"
            if not self.only or name in self.only or section.name in self.only:
                yield name

    async def _examine(self, section: Section) -> list[Finding]:
        found: dict[str, Finding] = {}
        why = ""
        try:
            async for finding in section.look(self.case):
                found[finding.name] = finding
        except GralkorError as error:
            why = error.message
            name = _next(section, found)
            found[name] = of_error(name, error)
        except Exception as error:
            # An answer that nobody has foreseen must not keep the other sections from being told.
            log.exception("check_failed", section=section.name)
            why = f"the check itself failed: {type(error).__name__}"
            name = _next(section, found)
            found[name] = Finding(name, "fail", why)
        why = why or next((each.found for each in found.values() if each.state in _ENDS), "")
        return [
            found.get(name) or Finding(name, "skip", NOT_LOOKED + why)
            for name in self._wanted(section)
        ]


def _next(section: Section, found: Collection[str]) -> str:
    names = [f"{section.name}.{check}" for check in section.checks]
    return next((name for name in names if name not in found), names[-1])
