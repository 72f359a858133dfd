"""Backups of the embedded servers: a copy of queue and graph that belong together.

The queue is copied first, the graph at once after it. So the graph's copy is never behind the
queue's: what the queue's copy still holds is done again, which changes nothing that is there
already, and what it no longer holds is on the graph's disk, for only then is it taken out of the
queue. The other way round, work that was finished in between would be in neither.

Nothing is paused: see `gralkord.embedded.aof`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gralkord import __version__
from gralkord.client.discovery import read_instance
from gralkord.client.sockets import socket_directories
from gralkord.clock import to_iso
from gralkord.embedded import aof
from gralkord.embedded.aof import FOLDER, MANIFEST, Copied, Frozen
from gralkord.embedded.lock import DirectoryLock
from gralkord.embedded.servers import Kind
from gralkord.errors import ConfigError, InvalidInput, StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT: Final = "gralkord-backup"
VERSION: Final = 1
BACKUP_FILE: Final = "backup.json"

# In the order in which they are copied.
KINDS: Final[tuple[Kind, ...]] = ("queue", "graph")

Advance = Callable[[int], None]

_TOOLS_HINT: Final = (
    "copy it with the tools of whoever runs it: the queue first and, when that is done, the graph"
)


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup says of itself.

    Attributes:
        created: When it was made, ISO 8601: what was acknowledged before is in it.
        gralkord: The version that made it.
        running: Whether the servers were running.
        state: What the servers held when it began; their copies have at least that. Nothing is
            known of servers that did not run.
        files: The files in it.
    """

    created: str
    gralkord: str
    running: bool
    state: dict[str, Any]
    files: tuple[Copied, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        """Return the machine form."""
        return {"format": FORMAT, "version": VERSION} | asdict(self)


def create(
    data_dir: Path, target: Path, *, begin: Callable[[int], Advance] = lambda _: lambda _: None
) -> Backup:
    """Copy the queue and the graph of *data_dir* into the new directory *target*.

    Args:
        data_dir: The data directory of a `gralkord up`, which may run or not.
        target: Where to; it must not exist, or be empty.
        begin: Called with the number of bytes before they are copied; what it returns is called
            with each number of bytes copied.

    Raises:
        ConfigError: A server is not embedded.
        StartError: A file cannot be read or written, or a copy is not whole.
    """
    data_dir, target = data_dir.expanduser().absolute(), target.expanduser().absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StartError(f"{target} exists and is not empty")
    if data_dir.resolve() in target.resolve().parents:
        raise StartError(f"{target} is in the data directory itself", hint="choose another place")
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    with ExitStack() as held:
        instance = read_instance(data_dir)
        running = instance is not None and instance.alive()
        if not running:
            _require_files(data_dir)
            held.enter_context(closing(DirectoryLock.acquire(data_dir, seconds=0)))
        created = to_iso(datetime.now(UTC))
        if running:
            state, frozen = asyncio.run(_freeze_running(data_dir))
        else:
            state, frozen = {}, {kind: aof.freeze(data_dir / kind) for kind in KINDS}
        for one in frozen.values():
            held.callback(one.close)
        try:
            _make(draft)
            advance = begin(sum(one.size for one in frozen.values()))
            _copy(frozen, draft, advance)
            backup = Backup(created, __version__, running, state, tuple(_files(draft)))
            _finish(draft, target, backup)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return backup


def read(path: Path) -> Backup:
    """Return what the backup in the directory *path* says of itself.

    Raises:
        InvalidInput: There is none, or of a later version.
    """
    try:
        content = json.loads((path / BACKUP_FILE).read_bytes())
        if content["format"] != FORMAT:
            raise InvalidInput(f"{path / BACKUP_FILE} is not of a backup")
        if content["version"] != VERSION:
            raise InvalidInput(
                f"{path} is a backup of version {content['version']}, known is {VERSION}",
                hint="upgrade gralkord",
            )
        files = tuple(
            Copied(str(file["path"]), int(file["size"]), str(file["sha256"]))
            for file in content["files"]
        )
        return Backup(
            content["created"], content["gralkord"], content["running"], content["state"], files
        )
    except FileNotFoundError:
        raise InvalidInput(f"there is no backup in {path}: {BACKUP_FILE} is missing") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path / BACKUP_FILE} cannot be read: {error}") from None


def verify(path: Path, *, begin: Callable[[int], Advance] = lambda _: lambda _: None) -> Backup:
    """Return what a backup says of itself if it is whole.

    Args:
        path: Its directory.
        begin: As in `create`.

    Raises:
        InvalidInput: There is none, or a file is missing or was changed.
    """
    backup = read(path)
    advance = begin(backup.size)
    named = {file.path for file in backup.files}
    for kind in KINDS:
        if f"{kind}/{FOLDER}/{MANIFEST}" not in named:
            raise InvalidInput(f"{path}: the {kind} is not in it")
    for file in backup.files:
        if Path(file.path).is_absolute() or ".." in Path(file.path).parts:
            raise InvalidInput(f"{path}: {file.path} is not a file of a backup")
        try:
            size, sha256 = aof.digest(path / file.path, advance)
        except OSError as error:
            raise InvalidInput(f"{path / file.path} cannot be read: {error.strerror}") from error
        if size != file.size:
            raise InvalidInput(f"{path / file.path} has {size} bytes, and should have {file.size}")
        if sha256 != file.sha256:
            raise InvalidInput(f"{path / file.path} was changed: its check sum is another one")
    for kind in KINDS:
        if fault := aof.fault_of(path / kind / FOLDER / MANIFEST):
            raise InvalidInput(f"the {kind} in {path} is not whole: {fault}")
    return backup


async def _freeze_running(data_dir: Path) -> tuple[dict[str, Any], dict[Kind, Frozen]]:
    """Return what the servers hold, and then their files as they are; the queue's first."""
    from gralkord.embedded.servers_state import ServersState  # noqa: PLC0415 - it loads clients

    sockets = {kind: _socket(data_dir, kind) for kind in KINDS}
    async with ServersState.open(sockets) as servers:
        state = await servers.read()
        frozen: dict[Kind, Frozen] = {}
        for kind in KINDS:
            await servers.sync(kind)
            frozen[kind] = aof.freeze(data_dir / kind)
    return state, frozen


def _socket(data_dir: Path, kind: Kind) -> Path:
    for place in dict.fromkeys((data_dir, data_dir.resolve())):
        for directory in socket_directories(place, os.environ):
            socket = directory / f"{kind}.sock"
            if socket.is_socket() and (data_dir / kind / FOLDER).is_dir():
                return socket
    raise ConfigError(
        f"the {kind} of {data_dir} is not embedded, or does not run", hint=_TOOLS_HINT
    )


def _require_files(data_dir: Path) -> None:
    for kind in KINDS:
        if not (data_dir / kind / FOLDER / MANIFEST).is_file():
            raise ConfigError(f"there is no embedded {kind} in {data_dir}", hint=_TOOLS_HINT)


def _copy(frozen: Mapping[Kind, Frozen], draft: Path, advance: Advance) -> None:
    for kind, one in frozen.items():
        one.copy(draft / kind / FOLDER, advance)
        if fault := one.mend(draft / kind / FOLDER):
            raise StartError(f"the copy of the {kind} is not whole: {fault}")


def _make(draft: Path) -> None:
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise StartError(f"cannot make {draft}: {error.strerror}") from error


def _files(draft: Path) -> list[Copied]:
    found = []
    for path in sorted(draft.rglob("*")):
        if path.is_file():
            size, sha256 = aof.digest(path)
            found.append(Copied(path.relative_to(draft).as_posix(), size, sha256))
    return found


def _finish(draft: Path, target: Path, backup: Backup) -> None:
    text = json.dumps(backup.to_dict(), indent=1, sort_keys=True) + "\n"
    try:
        descriptor = os.open(draft / BACKUP_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        for directory in (*(path for path in draft.rglob("*") if path.is_dir()), draft):
            aof.sync_directory(directory)
        draft.replace(target)
        aof.sync_directory(target.parent)
    except OSError as error:
        raise StartError(f"cannot write {target}: {error.strerror}") from error
