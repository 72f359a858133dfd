"""The data directory: made, checked, and what is in it."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from gralkord.client.sockets import MAX_SOCKET_BYTES, fits, socket_directories
from gralkord.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """Where one installation keeps its files. Everything in it is for its owner only."""

    path: Path

    @classmethod
    def prepare(cls, path: Path) -> DataDirectory:
        """Return the data directory at *path*, made if it is missing.

        Raises:
            StartError: It cannot be made or written, or is no directory.
        """
        path = path.expanduser().absolute()
        _make_private(path, existing="any")
        probe = path / f".write-{os.getpid()}"
        try:
            probe.touch(mode=0o600)
            probe.unlink()
        except OSError as error:
            raise StartError(f"cannot write in {path}: {error.strerror}") from error
        return cls(path)

    @property
    def token_file(self) -> Path:
        """The file that holds the token for the HTTP port."""
        return self.path / "token"

    def part(self, name: str) -> Path:
        """Return the directory *name* in this one, mode 0700, made if it is missing.

        Raises:
            StartError: It cannot be made, or belongs to somebody else.
        """
        path = self.path / name
        _make_private(path, existing="ours")
        return path

    def token(self) -> str:
        """Return the token, made at the first call and kept since then.

        Raises:
            StartError: The file cannot be read or made.
        """
        try:
            self.token_file.chmod(0o600)
            token = self.token_file.read_text().strip()
            if not token:  # an empty token would let everybody in
                self.token_file.unlink()
        except FileNotFoundError:
            token = ""
        except (OSError, UnicodeDecodeError) as error:
            raise StartError(f"cannot read {self.token_file}: {error}") from error
        return token or self._new_token()

    def sockets(self, environ: Mapping[str, str] | None = None) -> Path:
        """Return a directory, mode 0700, whose path is short enough for Unix sockets in it.

        Args:
            environ: Environment variables; default: those of this process.

        Raises:
            StartError: There is none, or somebody else made it before.
        """
        for path in socket_directories(self.path, os.environ if environ is None else environ):
            _make_private(path, existing="ours")
            return path
        raise StartError(
            f"no directory for the sockets has a path of at most {MAX_SOCKET_BYTES} bytes",
            hint="set XDG_RUNTIME_DIR to a short path",
        )

    def drop_sockets(self) -> None:
        """Remove the directory of the sockets if it lies elsewhere and nothing is left in it."""
        if not fits(self.path / "run"):
            with contextlib.suppress(OSError):
                self.sockets().rmdir()

    def _new_token(self) -> str:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        try:
            descriptor, name = tempfile.mkstemp(prefix=".token-", dir=self.path)
            try:
                with os.fdopen(descriptor, "w") as file:
                    file.write(token + "\n")
                self.token_file.hardlink_to(name)
            finally:
                Path(name).unlink()
        except FileExistsError:
            return self.token()  # another process was faster
        except OSError as error:
            raise StartError(f"cannot write {self.token_file}: {error.strerror}") from error
        return token


def _make_private(path: Path, *, existing: Literal["any", "ours"]) -> None:
    """Make the directory *path* with mode 0700; check one that exists.

    A data directory that exists may be shared with other things, so its mode stays as it is
    (``existing="any"``); a directory of ours inside is corrected (``existing="ours"``).
    """
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        pass
    except NotADirectoryError as error:
        raise StartError(f"cannot make {path}: a part of the path is a file") from error
    except OSError as error:
        raise StartError(f"cannot make {path}: {error.strerror}") from error
    try:
        found = path.lstat() if existing == "ours" else path.stat()
        if not stat.S_ISDIR(found.st_mode):
            raise StartError(f"{path} is not a directory")
        if existing == "any":
            return
        if found.st_uid != os.geteuid():
            raise StartError(f"{path} belongs to another user (uid {found.st_uid})")
        if found.st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise StartError(f"cannot use {path}: {error.strerror}") from error
