"""Lenses and agents of the settings: whether what they name is there, and seems to be meant."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gralkord.doctor.findings import Finding
from gralkord.errors import ConfigError
from gralkord.lenses.load import load_lenses
from gralkord.lenses.warnings import find_warnings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gralkord.doctor.case import Case

CHECKS: Final = ("load", "meant")
_SHOWN: Final = 3


async def look(case: Case) -> AsyncIterator[Finding]:
    """Yield what is found of lenses: their ontologies and processes, as a worker loads them."""
    name = "lenses.load"
    try:
        lenses = await asyncio.to_thread(load_lenses, case.settings)
    except ConfigError as error:
        faults = error.message.splitlines()
        yield Finding(
            name,
            "fail",
            "; ".join(faults[:_SHOWN]),
            "gralkord lenses check says more; modules have to be on the PYTHONPATH of daemon and "
            "workers",
            {"faults": faults},
        )
        return
    own = [each for each in lenses.names() if lenses.lens(each).process is not None]
    told = f", {len(own)} with a process of your own" if own else ""
    yield Finding(name, "ok", f"{len(lenses.names())} lenses{told}: {', '.join(lenses.names())}")
    yield _meant([each.line for each in find_warnings(case.settings, lenses)])


def _meant(warnings: list[str]) -> Finding:
    name = "lenses.meant"
    if not warnings:
        return Finding(name, "ok", "nothing in them seems not to be meant")
    more = f"; and {len(warnings) - _SHOWN} more" if len(warnings) > _SHOWN else ""
    return Finding(
        name,
        "warn",
        "; ".join(warnings[:_SHOWN]) + more,
        "gralkord lenses check tells all of them",
        {"warnings": warnings},
    )
