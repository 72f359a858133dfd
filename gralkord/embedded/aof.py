"""A server's append-only file as it is at one moment, while the server goes on writing it.

The file is several: a base, what was appended since, and a manifest that names them. They are only
ever appended to, replaced and deleted. So what the manifest names, opened and cut at the sizes of
that moment, is the data of that moment, whatever happens to the names afterwards.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from gralkord.embedded.servers import check_file
from gralkord.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER: Final = "appendonlydir"
MANIFEST: Final = "appendonly.aof.manifest"

_CHUNK: Final = 1024 * 1024
_TRIES: Final = 20
_ANALYZED = re.compile(r"AOF analyzed: filename=(\S+), size=\d+, ok_up_to=(\d+)")
_LINE = re.compile(r"file (\S+) seq (\d+) type ([bhi])(?: .*)?")


@dataclass(frozen=True, slots=True)
class Copied:
    """A file that was copied: its path below the backup, bytes, and SHA-256 in hex."""

    path: str
    size: int
    sha256: str


@dataclass(slots=True)
class Frozen:
    """The files of one server at one moment.

    Attributes:
        manifest: The text that names them, in their order.
        files: Each with its name and its size at that moment; the last one may have grown since.
    """

    manifest: str
    files: list[tuple[str, BinaryIO, int]]
    _held: ExitStack

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for _, _, size in self.files)

    def close(self) -> None:
        """Let go of the files."""
        self._held.close()

    def copy(self, folder: Path, advance: Callable[[int], None]) -> None:
        """Write the files into *folder*, which is made.

        Args:
            folder: Where to.
            advance: Called with the number of bytes written, again and again.

        Raises:
            StartError: The files cannot be read or written.
        """
        try:
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700)
            for name, stream, size in self.files:
                _copy(stream, folder / name, size, advance)
            _write(folder / MANIFEST, self.manifest.encode())
        except OSError as error:
            raise StartError(f"cannot copy to {folder}: {error.strerror}") from error

    def mend(self, folder: Path) -> str | None:
        """Cut off of a copy what was only half written at that moment; nobody was told of it.

        Returns:
            What is wrong with the copy even so.
        """
        manifest = folder / MANIFEST
        lines = check_file(manifest)
        if lines is None:
            return None
        last = folder / self.files[-1][0]
        for line in lines:
            found = _ANALYZED.search(line)
            if found and found[1] == last.name and int(found[2]) < last.stat().st_size:
                with last.open("r+b") as file:
                    file.truncate(int(found[2]))
                    os.fsync(file.fileno())
                return fault_of(manifest)
        return lines[-1]


def freeze(directory: Path) -> Frozen:
    """Return the append-only file of the server that keeps its data in *directory*, as it is now.

    Raises:
        StartError: There is none, or it cannot be read.
    """
    folder = directory / FOLDER
    for _ in range(_TRIES):
        try:
            before = (folder / MANIFEST).read_text()
            names = _names(before, folder)
            with ExitStack() as held:
                opened = [held.enter_context((folder / name).open("rb")) for name in names]
                sizes = [os.fstat(stream.fileno()).st_size for stream in opened]
                # A rewrite that ended in between has deleted what the manifest named.
                if (folder / MANIFEST).read_text() != before:
                    continue
                kept = held.pop_all()
            lines = [line for line in before.splitlines(keepends=True) if not _is_history(line)]
            files: list[tuple[str, BinaryIO, int]] = list(zip(names, opened, sizes, strict=True))
            return Frozen("".join(lines), files, kept)
        except FileNotFoundError:
            if not (folder / MANIFEST).exists():
                break
        except OSError as error:
            raise StartError(f"cannot read {folder}: {error.strerror}") from error
    raise StartError(f"there is no append-only file in {folder}")


def fault_of(manifest: Path) -> str | None:
    """Return what is wrong with the append-only file that *manifest* names the parts of."""
    lines = check_file(manifest)
    return None if lines is None else lines[-1][:300]


def digest(path: Path, advance: Callable[[int], None] = lambda _: None) -> tuple[int, str]:
    """Return how many bytes a file has, and their SHA-256 in hex.

    Args:
        path: The file.
        advance: Called with the number of bytes read, again and again.
    """
    found, size = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            found.update(chunk)
            size += len(chunk)
            advance(len(chunk))
    return size, found.hexdigest()


def sync_directory(path: Path) -> None:
    """Have the names in a directory reach the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _names(manifest: str, folder: Path) -> list[str]:
    names = []
    for line in manifest.splitlines():
        found = _LINE.fullmatch(line.strip())
        if not found or "/" in found[1] or found[1].startswith("."):
            raise StartError(f"{folder / MANIFEST} cannot be read")
        if found[3] != "h":  # to be deleted: the base holds what is in it
            names.append(found[1])
    return names


def _is_history(line: str) -> bool:
    found = _LINE.fullmatch(line.strip())
    return bool(found and found[3] == "h")


def _copy(stream: BinaryIO, target: Path, size: int, advance: Callable[[int], None]) -> None:
    stream.seek(0)
    with _created(target) as file:
        left = size
        while left and (chunk := stream.read(min(_CHUNK, left))):
            file.write(chunk)
            left -= len(chunk)
            advance(len(chunk))
        file.flush()
        os.fsync(file.fileno())


def _write(target: Path, content: bytes) -> None:
    with _created(target) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _created(target: Path) -> BinaryIO:
    return os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
