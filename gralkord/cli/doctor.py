"""``gralkord doctor``: look at everything that an installation needs, and say what to do."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gralkord.cli.options import AsJson, DataDir, Url

if TYPE_CHECKING:
    from gralkord.doctor import Finding, Report

_EPILOG = """
Examples:

  gralkord doctor

  gralkord doctor --config gralkord.toml --only queue --only llm.schema

  gralkord doctor --offline --json

Nothing is changed and no memory is read. Each model that is named gets one small sample; what that
may cost is said first, and nothing of it with --offline.

Exit codes: 0 all is well, perhaps with warnings; 1 something does not work; 2 wrong usage or
configuration.
"""

_WIDTH: Final = 20


def register(app: typer.Typer) -> None:
    """Add the command ``doctor`` to *app*."""
    app.command(epilog=_EPILOG)(doctor)


def doctor(
    *,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with settings.", envvar="GRALKORD_CONFIG")
    ] = None,
    data_dir: DataDir = None,
    url: Url = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A section, as `queue`, or a check, as `llm.schema`; may be repeated.",
        ),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no model, and visit no provider.")
    ] = False,
    long: Annotated[
        bool,
        typer.Option(
            "--long",
            help="Also send language models a prompt as long as that of the longest session.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check servers, models, keys, disk, clocks and the daemon; say what to do."""
    from gralkord import log
    from gralkord.cli.output import FAILURE, emit
    from gralkord.cli.process import credential, load
    from gralkord.clock import SystemClock
    from gralkord.doctor import Doctor
    from gralkord.doctor.case import Case, data_directory
    from gralkord.doctor.cost import estimate

    log.configure(level="error")
    wanted = _known(only or [])
    settings = load(config, {"data_dir": data_dir or os.environ.get("GRALKORD_DATA_DIR") or None})
    directory, running = data_directory(settings, os.environ)
    case = Case(
        settings=settings,
        environ=os.environ,
        data_dir=directory,
        clock=SystemClock(),
        running=running,
        offline=offline,
        long=long or any(name.endswith(".length") for name in wanted),
        url=url or os.environ.get("GRALKORD_URL") or None,
        config_file=config,
        token_file=credential("token"),
    )
    expected = estimate(case, wanted)
    if as_json:
        report = asyncio.run(Doctor(case, wanted).run())
        emit({"data_dir": str(directory), "estimate": expected.to_dict()} | report.to_dict())
    else:
        _say(f"{directory}: {expected}")
        report = asyncio.run(Doctor(case, wanted).run(_show))
        _summarize(report)
    if report.failed:
        raise typer.Exit(FAILURE)


def _known(names: list[str]) -> frozenset[str]:
    from gralkord.doctor import sections

    every = {
        name
        for section, checks in sections().items()
        for name in (section, *(f"{section}.{check}" for check in checks))
    }
    for name in names:
        if name not in every:
            raise typer.BadParameter(
                f"--only {name!r}: there are {', '.join(sections())}, and their checks as "
                "`queue.persistence`"
            )
    return frozenset(names)


def _show(finding: Finding) -> None:
    from gralkord.doctor.findings import NOT_LOOKED

    if finding.found.startswith(NOT_LOOKED):
        return  # for people the first one of the section is enough
    _say(f"{finding.state:<5}{finding.name:<{_WIDTH}} {finding.found}")
    if finding.mend and finding.state != "ok":
        _say(f"{'':<5}{'':<{_WIDTH}} -> {finding.mend}")


def _summarize(report: Report) -> None:
    counts = ", ".join(f"{number} {state}" for state, number in report.counts().items())
    _say(f"{len(report.findings)} checks: {counts}")
    used = report.samples
    if used["calls"]:
        cost = f", {used['cost_usd']:g} USD" if used["cost_usd"] else ""
        tokens = used["prompt_tokens"] + used["completion_tokens"]
        _say(f"samples: {used['calls']} calls, {tokens} tokens{cost}")


def _say(line: str) -> None:
    from gralkord.cli.output import printable, say

    say(printable(line, one_line=True))
