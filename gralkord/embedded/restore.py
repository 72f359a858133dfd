"""Put a backup into a data directory, from which `gralkord up` then starts."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gralkord.embedded import aof
from gralkord.embedded.backup import KINDS, Advance, Backup, verify
from gralkord.embedded.directory import DataDirectory
from gralkord.embedded.lock import DirectoryLock
from gralkord.errors import InvalidInput, StartError

if TYPE_CHECKING:
    from collections.abc import Callable

# What a data directory has that is never used.
_OF_NOTHING: Final = frozenset({"lock", "owner"})


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did.

    Attributes:
        backup: The backup that was put back.
        replaced: Where the data is that was in its place.
    """

    backup: Backup
    replaced: Path | None


def restore(
    source: Path,
    data_dir: Path,
    *,
    force: bool = False,
    now: datetime | None = None,
    begin: Callable[[int], Advance] = lambda _: lambda _: None,
) -> Restored:
    """Check the backup in *source* and put it into *data_dir*.

    Args:
        source: Directory of the backup; it stays as it is.
        data_dir: Made if it is missing; nothing may run on it.
        force: Also into a directory that holds something; its data is moved aside, not deleted.
        now: The time; default: that of this machine.
        begin: Called with the number of bytes before they are read; what it returns is called with
            each number of bytes read.

    Raises:
        InvalidInput: The backup is not whole, or was made later than now.
        StartError: The directory is in use or holds something, or cannot be written.
    """
    backup = verify(source, begin=begin)
    now = now or datetime.now(UTC)
    # Whoever works gets a number that is made of the time and is greater than all before. With a
    # clock that is behind, the graph would refuse every write until that time has come.
    if datetime.fromisoformat(backup.created) > now:
        raise InvalidInput(
            f"the backup is of {backup.created}, and this machine's clock says {now:%Y-%m-%dT%TZ}",
            hint="set the clock first",
        )
    directory = DataDirectory.prepare(data_dir)
    with closing(DirectoryLock.acquire(directory.path, seconds=0)):
        there = sorted(path.name for path in directory.path.iterdir())
        there = [name for name in there if name not in _OF_NOTHING]
        if there and not force:
            raise StartError(
                f"{directory.path} is not empty: {', '.join(there[:5])}",
                hint="choose another directory, or move its data aside with --force",
            )
        draft = directory.path / f".restore-{os.getpid()}"
        try:
            for kind in KINDS:
                _copy(source / kind, draft / kind, backup, kind)
            replaced = _move_aside(directory.path, now)
            # The graph first: a queue alone would be worked on as if nothing had been done before.
            for kind in reversed(KINDS):
                (draft / kind).replace(directory.path / kind)
            aof.sync_directory(directory.path)
        except OSError as error:
            raise StartError(f"cannot write {directory.path}: {error.strerror}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return Restored(backup, replaced)


def _copy(source: Path, target: Path, backup: Backup, kind: str) -> None:
    target.mkdir(mode=0o700, parents=True)
    for file in backup.files:
        if not file.path.startswith(f"{kind}/"):
            continue
        path = target / Path(file.path).relative_to(kind)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(source / Path(file.path).relative_to(kind), path)
        path.chmod(0o600)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if aof.digest(path) != (file.size, file.sha256):
            raise StartError(f"{path} is not what was to be copied; is the disk sound?")
    for path in (*(each for each in target.rglob("*") if each.is_dir()), target):
        aof.sync_directory(path)


def _move_aside(data_dir: Path, now: datetime) -> Path | None:
    """Move the data of both servers to where it can be looked at, and deleted by hand."""
    present = [data_dir / kind for kind in KINDS if (data_dir / kind).exists()]
    if not present:
        return None
    aside = data_dir / f"replaced-{now:%Y%m%dT%H%M%S%f}"
    aside.mkdir(mode=0o700)
    for path in present:
        path.replace(aside / path.name)
    return aside
