"""``gralkord jobs``: what has become of a turn or a flush."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from gralkord.cli.options import AsJson, DataDir, Url, connected, help_alone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gralkord.models.jobs import Job

JobId = Annotated[
    str, typer.Argument(metavar="ID", help="The receipt of a capture, or the id of a flush.")
]

_SHOW_EPILOG = """
Examples:

  gralkord jobs show 1714555800123-0

  gralkord jobs show 1714555800123-0 --json

Jobs are known for 7 days.
"""

_WATCH_EPILOG = """
Examples:

  gralkord jobs watch 1714555800123-0

  gralkord jobs watch 1714555800123-0 --timeout 20 --json

Ends with 0 when it is understood, or indexed where there is no model; with 1 when it is dead or the
time is over before it is done.
"""


def register(app: typer.Typer) -> None:
    """Add the commands ``jobs show`` and ``jobs watch`` to *app*."""
    group = typer.Typer()
    group.callback(invoke_without_command=True)(help_alone)
    group.command(epilog=_SHOW_EPILOG)(show)
    group.command(epilog=_WATCH_EPILOG)(watch)
    app.add_typer(group, name="jobs", help="See what has become of a turn or a flush.")


def show(job: JobId, *, url: Url = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Print how far a turn or a flush has come, and what was written of it."""
    from gralkord.cli.output import emit, printable, say

    with connected(url, data_dir) as client:
        found = client.job(job)
    if as_json:
        emit(found.model_dump())
        return
    for line in _lines(found):
        say(printable(line, one_line=True))


def watch(
    job: JobId,
    *,
    timeout: Annotated[
        float, typer.Option(help="Seconds to watch at most.", min=0.001, max=86_400)
    ] = 600.0,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each change, errors too.")
    ] = False,
) -> None:
    """Print each change of a turn or a flush until it is done."""
    from gralkord.cli.output import FAILURE, emit, printable, say

    last = None
    with connected(url, data_dir) as client:
        for last in client.watch_job(job, timeout):
            if as_json:
                emit(last.model_dump())
            else:
                say(printable(_summary(last), one_line=True))
            sys.stdout.flush()  # whoever reads it waits for it
    if last is not None and not last.final:
        typer.echo(f"not done after {timeout:g} s; the work goes on", err=True)
    if last is None or not last.final or last.state == "dead":
        raise typer.Exit(FAILURE)


def _lines(job: Job) -> Iterator[str]:
    yield _summary(job)
    names = (("operator", job.operator), ("session", job.session), ("turn", job.turn_id))
    for name, value in names:
        if value is not None:
            yield f"{name}: {value}"
    for stage, moment in job.stages.model_dump().items():
        yield f"{stage}: {moment or '-'}"
    if job.kind == "flush":
        yield f"turns: {'-' if job.turns is None else job.turns}"
    for lane, number in (job.open or {}).items():
        yield f"open {lane} items: {number}"
    for group in job.groups:
        written = f"{group.passages} passages, {group.facts} facts, {group.entities} entities"
        if group.notes:
            written += f", {group.notes} notes"
        episode = f", episode {group.episode}" if group.episode else ""
        yield f"group {group.lens}: {group.state}, {written}{episode}"
    for letter in job.dead:
        yield f"dead letter: {letter} (see `gralkord dead show {letter}`)"
    if job.degraded:
        yield f"without an answer of: {', '.join(job.degraded)}"


def _summary(job: Job) -> str:
    parts = [f"{job.kind} {job.id}: {job.state}" + (f" ({job.reason})" if job.reason else "")]
    if job.position is not None:
        parts.append(f"{job.position} in front")
    if job.position_at_least is not None:
        parts.append(f"at least {job.position_at_least} in front")
    if job.attempts:
        parts.append(f"attempt {job.attempts}")
    if job.last_error:
        when = f" at {job.last_error.at}" if job.last_error.at else ""
        parts.append(f"last error{when}: {job.last_error.code}: {job.last_error.message}")
    return ", ".join(parts)
