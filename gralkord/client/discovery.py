"""Find the daemon that runs on this machine, and say where one runs.

A daemon announces itself in two places: ``daemon.json`` in its data directory, and one file per
data directory in the user's state directory, so that a client that was told nothing finds it too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gralkord.errors import BackendUnavailable, ConfigError, StartError, Unauthorized

if TYPE_CHECKING:
    from collections.abc import Mapping

DAEMON_FILE: Final = "daemon.json"

_START_HINT: Final = "start one with `gralkord up`, or name one with --url or GRALKORD_URL"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a daemon listens and how to be let in.

    Attributes:
        url: ``http://host:port``, or ``unix:/path/of/socket``.
        token: The bearer token; none if no place named one.
        data_dir: The data directory of the daemon, where it is known.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    data_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Instance:
    """An announcement: a daemon said that it runs.

    Attributes:
        url: Where it listens.
        pid: Its process, or the one that supervises it.
        token_file: File that holds the token.
        data_dir: Its data directory.
        birth: When that process started, in clock ticks since boot; none where the system does not
            tell. It distinguishes the process from a later one with the same number.
    """

    url: str
    pid: int
    token_file: Path
    data_dir: Path
    birth: int | None = None

    def alive(self) -> bool:
        """Return whether the process that announced this still runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it runs, as another user
        return self.birth is None or _birth(self.pid) == self.birth

    def endpoint(self) -> Endpoint:
        """Return how to reach this daemon.

        Raises:
            Unauthorized: The token file cannot be read.
        """
        return Endpoint(self.url, read_token(self.token_file), self.data_dir)


def default_data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the data directory that is used when none is named."""
    return _xdg(os.environ if environ is None else environ, "XDG_DATA_HOME", ".local/share")


def instances_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the directory in which this user's running daemons are registered."""
    environ = os.environ if environ is None else environ
    return _xdg(environ, "XDG_STATE_HOME", ".local/state") / "instances"


def find_endpoint(
    url: str | None = None,
    token: str | None = None,
    data_dir: Path | str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> Endpoint:
    """Return the daemon to talk to.

    What is given comes first, then the environment (``GRALKORD_URL``, ``GRALKORD_DATA_DIR``), then
    the default data directory, then the one daemon of this user that runs.

    Args:
        url: Its address; the token is looked up among the announced daemons when not given.
        token: Its token; default: ``GRALKORD_TOKEN``, or the file ``GRALKORD_TOKEN_FILE`` names.
        data_dir: Its data directory.
        environ: Environment variables; default: those of this process.

    Raises:
        BackendUnavailable: No daemon runs there, or none at all.
        ConfigError: Several run and none was named.
        Unauthorized: The token file cannot be read.
    """
    environ = os.environ if environ is None else environ
    token = token or _token_from(environ)
    url = url or (None if data_dir else environ.get("GRALKORD_URL"))
    if url:
        url = url.rstrip("/")
        return Endpoint(url, token or _announced_token(url, data_dir, environ))
    data_dir = data_dir or environ.get("GRALKORD_DATA_DIR")
    if data_dir:
        instance = _require_instance(Path(data_dir).expanduser())
    else:
        instance = default_instance(environ)
    if token:
        return Endpoint(instance.url, token, instance.data_dir)
    return instance.endpoint()


def start_command(data_dir: Path | None) -> str:
    """Return the command that starts the daemon of a data directory, as it can be typed."""
    words = ["gralkord", "up"]
    if data_dir:
        words += ["--data-dir", str(data_dir)]
    return f"`{shlex.join(words)}`"


def running_instances(environ: Mapping[str, str] | None = None) -> list[Instance]:
    """Return the registered daemons of this user that still run, by data directory."""
    found = (_read(path) for path in sorted(instances_dir(environ).glob("*.json")))
    alive = (instance for instance in found if instance and instance.alive())
    return sorted(alive, key=lambda instance: instance.data_dir)


def announce(
    data_dir: Path,
    url: str,
    token_file: Path,
    *,
    pid: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> bool:
    """Say that a daemon on *data_dir* listens at *url*.

    Args:
        data_dir: Its data directory.
        url: ``http://host:port``, or ``unix:/path/of/socket``.
        token_file: File that holds its token.
        pid: The process whose end is the end of the daemon; default: this one.
        environ: Environment variables; default: those of this process.

    Returns:
        Whether it is registered with the user too. Where the state directory cannot be written,
        clients must name the data directory.

    Raises:
        StartError: The data directory cannot be written.
    """
    pid = os.getpid() if pid is None else pid
    content = {
        "url": url,
        "pid": pid,
        "birth": _birth(pid),
        "token_file": str(token_file.absolute()),
        "data_dir": str(data_dir.resolve()),
    }
    try:
        _write(data_dir / DAEMON_FILE, content)
    except OSError as error:
        raise StartError(f"cannot write {data_dir / DAEMON_FILE}: {error.strerror}") from error
    registered = _registration(data_dir, environ)
    try:
        registered.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(registered, content)
    except OSError:
        return False
    return True


def withdraw(data_dir: Path, *, environ: Mapping[str, str] | None = None) -> None:
    """Take back what `announce` said about *data_dir*; nothing happens if nothing was said."""
    for path in (data_dir / DAEMON_FILE, _registration(data_dir, environ)):
        try:
            path.unlink()
        except OSError:
            continue  # a stale file is told by its dead process


def read_instance(data_dir: Path) -> Instance | None:
    """Return what the daemon on *data_dir* announced, whether or not it still runs."""
    return _read(data_dir / DAEMON_FILE)


def read_token(path: Path) -> str:
    """Return the token that the file at *path* holds.

    Raises:
        Unauthorized: The file cannot be read or is empty.
    """
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise Unauthorized(
            f"token file {path} cannot be read: {reason}",
            hint="run as the user that runs the daemon, or set GRALKORD_TOKEN",
        ) from error
    if not token:
        raise Unauthorized(f"token file {path} is empty")
    return token


def _xdg(environ: Mapping[str, str], name: str, below_home: str) -> Path:
    base = environ.get(name)
    # The XDG rules say that a relative path is to be ignored.
    if base and Path(base).is_absolute():
        return Path(base) / "gralkord"
    return Path(environ.get("HOME") or Path.home()) / below_home / "gralkord"


def _registration(data_dir: Path, environ: Mapping[str, str] | None) -> Path:
    name = hashlib.sha256(os.fsencode(data_dir.resolve())).hexdigest()[:16]
    return instances_dir(environ) / f"{name}.json"


def _token_from(environ: Mapping[str, str]) -> str | None:
    if token := environ.get("GRALKORD_TOKEN"):
        return token
    path = environ.get("GRALKORD_TOKEN_FILE")
    return read_token(Path(path)) if path else None


def _announced_token(
    url: str, data_dir: Path | str | None, environ: Mapping[str, str]
) -> str | None:
    """Return the token of the daemon that announced exactly *url*: it is given to no other."""
    candidates = running_instances(environ)
    for directory in (data_dir, environ.get("GRALKORD_DATA_DIR"), default_data_dir(environ)):
        if directory and (instance := read_instance(Path(directory).expanduser())):
            candidates.append(instance)
    for instance in candidates:
        if instance.url == url:
            return read_token(instance.token_file)
    return None


def _require_instance(data_dir: Path) -> Instance:
    instance = read_instance(data_dir)
    if instance is None or not instance.alive():
        raise BackendUnavailable(
            f"no daemon runs on {data_dir}",
            hint=f"start it with {start_command(data_dir)}",
        )
    return instance


def default_instance(environ: Mapping[str, str]) -> Instance:
    """Return the daemon on the default data directory, or else the one of this user that runs.

    Raises:
        BackendUnavailable: None runs.
        ConfigError: Several run.
    """
    instance = read_instance(default_data_dir(environ))
    if instance and instance.alive():
        return instance
    running = running_instances(environ)
    if not running:
        raise BackendUnavailable("no daemon runs on this machine", hint=_START_HINT)
    if len(running) > 1:
        names = ", ".join(f"{one.data_dir} ({one.url})" for one in running)
        raise ConfigError(
            f"{len(running)} daemons run: {names}",
            hint="name one with --data-dir or GRALKORD_DATA_DIR",
        )
    return running[0]


def _read(path: Path) -> Instance | None:
    """Return the announcement in *path*; a file that is absent or not one announces nothing."""
    try:
        content = json.loads(path.read_bytes())
        return Instance(
            url=str(content["url"]),
            pid=int(content["pid"]),
            token_file=Path(content["token_file"]),
            data_dir=Path(content["data_dir"]),
            birth=content.get("birth"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(path: Path, content: dict[str, Any]) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file)
    draft.replace(path)  # readers see the old announcement or the new one, never half of it


def _birth(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        # The command's name stands in parentheses and may hold blanks; the start time is field 22.
        return int(stat.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
