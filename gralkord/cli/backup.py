"""``gralkord backup`` and ``gralkord restore``: everything that one machine holds."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gralkord.cli.options import AsJson, DataDir, directory, help_alone

if TYPE_CHECKING:
    from collections.abc import Callable

    from gralkord.embedded.backup import Advance, Backup
    from gralkord.models.erasure import EraseScope, Erasure

_CREATE_EPILOG = """
Examples:

  gralkord backup /backups/monday

  gralkord backup create /backups/monday --data-dir ./memory --json

Takes the queue and the graph of a `gralkord up`, which may run: it goes on as if nothing happened,
and what was acknowledged before is in the backup. Servers that others run are copied by their own
tools.
"""

_VERIFY_EPILOG = """
Examples:

  gralkord backup verify /backups/monday

Ends with 5 if the backup is not whole.
"""

_RESTORE_EPILOG = """
Examples:

  gralkord restore /backups/monday --data-dir ./memory

  gralkord restore /backups/monday --data-dir ./memory --force --json

  gralkord restore /backups/monday --data-dir ./new --erased-from ./memory

Then `gralkord up --data-dir ./memory`. What was erased after the backup was made is in it again,
and has to be erased again: with --force or --erased-from the commands for that are printed.
"""


class _OrCreate(TyperGroup):
    """A group in which a word that is no command is the directory of a new backup."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that *args* begin with."""
        if args and args[0] not in self.commands:
            args = ["create", *args]
        return super().resolve_command(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the commands ``backup create``, ``backup verify`` and ``restore`` to *app*."""
    group = typer.Typer(cls=_OrCreate)
    group.callback(invoke_without_command=True)(help_alone)
    group.command(epilog=_CREATE_EPILOG)(create)
    group.command(epilog=_VERIFY_EPILOG)(verify)
    app.add_typer(group, name="backup", help="Copy queue and graph; `gralkord backup DIR` does it.")
    app.command(epilog=_RESTORE_EPILOG)(restore)


def create(
    target: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to: a directory that is made.")
    ],
    *,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Copy the queue and the graph into the new directory DIR."""
    from gralkord.embedded import backup

    with _reading("copying bytes") as begin:
        made = backup.create(_data_dir(data_dir), target, begin=begin)
    _report("backed up", target, made, as_json=as_json)


def verify(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the backup.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Check that a backup is whole: its files, their check sums, and their form."""
    from gralkord.embedded import backup

    with _reading("reading bytes") as begin:
        found = backup.verify(source, begin=begin)
    _report("whole", source, found, as_json=as_json)


def restore(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the backup.")],
    *,
    data_dir: Annotated[
        Path,
        typer.Option(
            "--data-dir", metavar="DIR", parser=directory, help="Where to; nothing may run on it."
        ),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Where there is data already, move that aside.")
    ] = False,
    erased_from: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=directory,
            help="Data directory that was used since then: tell what was erased there.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup into a data directory, after checking that it is whole."""
    from gralkord.cli.output import emit, printable, say
    from gralkord.embedded.erased import erasures_of
    from gralkord.embedded.restore import restore as put_back

    noted = None if erased_from is None else erasures_of(erased_from)
    with _reading("reading bytes") as begin:
        done = put_back(source, data_dir, force=force, begin=begin)
    if noted is None and done.replaced is not None:
        noted = _noted_in(done.replaced)
    again = _erased_since(done.backup, noted)
    if as_json:
        replaced = str(done.replaced) if done.replaced else None
        emit(_summary(data_dir, done.backup) | {"replaced": replaced, "erase_again": again})
        return
    _report("restored", data_dir, done.backup, as_json=False)
    if done.replaced:
        say(printable(f"what was there is in {done.replaced}", one_line=True))
    if again is None:
        say(f"what was erased after {done.backup.created} is back: erase it again")
    for line in again or ():
        say(printable(f"erased since, and back: {line}", one_line=True))


def _noted_in(replaced: Path) -> list[Erasure] | None:
    """Return the erasures that the data noted which was moved aside, if it can be read."""
    from gralkord.embedded.erased import erasures_in
    from gralkord.errors import GralkorError

    try:
        return erasures_in(replaced / "queue")
    except GralkorError:  # perhaps it is why the backup is needed
        return None


def _erased_since(backup: Backup, noted: list[Erasure] | None) -> list[str] | None:
    """Return the commands that erase what was erased since a backup; `None`: nobody knows."""
    import shlex

    if noted is None:
        return None
    return [
        shlex.join(["gralkord", "erase", *_flags(one.scope)])
        for one in reversed(noted)
        if not one.dry_run and (one.finished_at or one.started_at) >= backup.created
    ]


def _flags(scope: EraseScope) -> list[str]:
    if scope.everything:
        return ["--everything"]
    words = ["--operator", scope.operator or ""]
    for name in ("session", "source", "turn", "lens"):
        if value := getattr(scope, name):
            words += [f"--{name}", value]
    return words + [word for one in scope.ids for word in ("--id", one)]


def _data_dir(given: Path | None) -> Path:
    """Return the data directory of the options, the environment, or the daemon that runs."""
    import os

    from gralkord.client.discovery import default_instance
    from gralkord.errors import ConfigError

    if named := given or os.environ.get("GRALKORD_DATA_DIR"):
        return Path(named)
    found = default_instance(os.environ).data_dir
    if not found.is_dir():
        raise ConfigError(f"{found} is not on this machine", hint="name one with --data-dir")
    return found


class _reading:  # noqa: N801 - used like a function
    """Shows a progress bar once it is known how much there is to do."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._held = ExitStack()

    def __enter__(self) -> Callable[[int], Advance]:
        return self._begin

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _begin(self, total: int) -> Advance:
        from gralkord.cli.progress import progress

        return self._held.enter_context(progress(self._what, total))


def _summary(where: Path, backup: Backup) -> dict[str, Any]:
    return {
        "directory": str(where),
        "created": backup.created,
        "gralkord": backup.gralkord,
        "files": len(backup.files),
        "bytes": backup.size,
        "groups": len(backup.state.get("groups", ())),
        "passages": backup.state.get("passages"),
    }


def _report(what: str, where: Path, backup: Backup, *, as_json: bool) -> None:
    from gralkord.cli.output import emit, printable, say

    found = _summary(where, backup)
    if as_json:
        emit(found)
        return
    known = found["passages"]
    passages = "" if known is None else f", at least {known} passages in {found['groups']} groups"
    line = f"{what}: {where}, {backup.size} bytes, of {backup.created}{passages}"
    say(printable(line, one_line=True))
