"""What Redis says of itself, and what is to be thought of it: for the queue and the graph alike."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import redis.exceptions as refusals

from gralkord.doctor.findings import Finding
from gralkord.errors import BackendUnavailable, GralkorError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from gralkord.clock import Clock
    from gralkord.config import Server
    from gralkord.doctor.findings import State

SLOW_SECONDS: Final = 0.05
# Leases are timed by the queue's clock, and what is said of a time by ours.
SKEW_WARN_SECONDS: Final = 2.0
SKEW_FAIL_SECONDS: Final = 60.0
MEGABYTE: Final = 1024 * 1024

_CONFIG: Final[tuple[str, ...]] = (
    *("appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save"),
    *("maxmemory", "maxmemory-policy", "stop-writes-on-bgsave-error"),
)
_ROUNDS: Final = 3


class Ask(Protocol):
    """Sends one command to a server and returns its reply."""

    async def __call__(self, *words: str) -> Any:
        """Raise GralkorError where there is no reply, or a refusal."""
        ...


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself.

    Attributes:
        seconds: How long the fastest of a few answers took.
        skew: How far its clock is ahead of ours, in seconds; None: it does not tell.
        info: Its INFO.
        config: The settings that matter, as far as it tells them; None: it tells none.
        default_rights: What its user `default` may do; None: it does not tell.
    """

    seconds: float
    skew: float | None = None
    info: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] | None = None
    default_rights: str | None = None

    @property
    def run(self) -> str:
        """The name of this run of the server."""
        return self.info.get("run_id", "")


async def ask_all(ask: Ask, clock: Clock) -> ServerFacts:
    """Return what the server says.

    Raises:
        GralkorError: It does not answer, or does not let us in.
    """
    seconds, skew = await _times(ask, clock)
    config = None
    if (found := await maybe(ask, "CONFIG", "GET", "*")) is not None:
        everything = pairs(found)
        config = {name: everything[name] for name in _CONFIG if name in everything}
    return ServerFacts(
        seconds=seconds,
        skew=skew,
        info=info(await maybe(ask, "INFO", "everything") or ""),
        config=config,
        default_rights=await rights(ask, "default") or None,
    )


async def _times(ask: Ask, clock: Clock) -> tuple[float, float | None]:
    fastest, skew = float("inf"), None
    for _ in range(_ROUNDS):
        before, began = clock.now().timestamp(), time.perf_counter()
        reply = await maybe(ask, "TIME")
        took = time.perf_counter() - began
        if took < fastest:
            fastest = took
            if reply is not None:
                # The answer was given somewhere in between.
                skew = int(reply[0]) + int(reply[1]) / 1e6 - (before + took / 2)
    return fastest, skew


async def maybe(ask: Ask, *words: str) -> Any:
    """Return the reply to a command, None where the server does not allow or know it.

    Raises:
        BackendUnavailable: The server does not answer.
    """
    try:
        return await ask(*words)
    except BackendUnavailable as error:
        if isinstance(error.__cause__, refusals.NoPermissionError):
            return None
        raise
    except GralkorError:
        return None


def text(value: Any) -> str:
    """Return a value of a reply as text."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def pairs(reply: Any) -> dict[str, str]:
    """Return the names and values of a reply, whichever form the client gave it."""
    if isinstance(reply, dict):
        return {text(name): text(value) for name, value in reply.items()}
    return {text(reply[i]): text(reply[i + 1]) for i in range(0, len(reply) - 1, 2)}


def info(reply: Any) -> dict[str, str]:
    """Return the fields of an INFO."""
    if isinstance(reply, dict):
        return pairs(reply)
    lines = (line.partition(":") for line in text(reply).splitlines())
    return {name: value for name, colon, value in lines if colon}


async def rights(ask: Ask, user: str) -> str | None:
    """Return the commands that *user* may run, as ACL rules.

    Returns:
        The rules, empty where there is no such user; None where the server does not tell.
    """
    reply = await maybe(ask, "ACL", "GETUSER", user)
    if reply is None:
        # A user that is not there is told as nothing, so ask whether anything is told at all.
        return None if await maybe(ask, "ACL", "WHOAMI") is None else ""
    return pairs(reply).get("commands", "")


async def silent(kind: str, server: Server, access: Awaitable[None]) -> Finding | None:
    """Return what is to be said of a server that does not answer; None: it does.

    Raises:
        ConfigError: It does not let us in.
    """
    try:
        await access
    except BackendUnavailable as error:
        mend = f"is it running there? Check {kind}.host and {kind}.port, or {kind}.socket"
        return Finding(f"{kind}.reachable", "fail", f"{place(server)}: {error.message}", mend)
    return None


def reachable(kind: str, server: Server, facts: ServerFacts) -> Finding:
    """Say that the server answers, and how fast."""
    found = f"{place(server)} answers in {facts.seconds * 1000:.1f} ms"
    known = {"milliseconds": round(facts.seconds * 1000, 2)}
    if facts.seconds > SLOW_SECONDS:
        mend = "bring it nearer: every turn takes several of such ways"
        return Finding(f"{kind}.reachable", "warn", found, mend, known)
    return Finding(f"{kind}.reachable", "ok", found, facts=known)


def place(server: Server) -> str:
    """Return where the server is."""
    return str(server.socket) if server.socket else f"{server.host}:{server.port}"


def access(kind: str, server: Server) -> Finding:
    """Judge how the server is protected from others."""
    name = f"{kind}.access"
    if server.socket:
        return Finding(name, "ok", "a Unix socket, closed to others by file modes")
    local = server.host in {"127.0.0.1", "::1", "localhost"}
    missing = [
        what
        for what, there in (
            ("password", bool(server.password or server.password_file)),
            ("TLS", server.tls or local),
        )
        if not there
    ]
    if not missing:
        return Finding(name, "ok", "with a password" + ("" if local else " and TLS"))
    settings = {"password": f"{kind}.password_file", "TLS": f"{kind}.tls"}
    return Finding(
        name,
        "warn",
        f"no {' and no '.join(missing)}: others may read and change what is remembered",
        f"set {' and '.join(settings[each] for each in missing)}",
    )


def clock(kind: str, facts: ServerFacts) -> Finding:
    """Judge the server's clock by ours."""
    name = f"{kind}.clock"
    if facts.skew is None:
        return Finding(name, "skip", "the server does not tell its time")
    return skew_finding(name, facts.skew)


def skew_finding(name: str, skew: float, bearable: float = SKEW_WARN_SECONDS) -> Finding:
    """Judge a clock that is *skew* seconds ahead of ours, of which so many are *bearable*."""
    apart = abs(skew)
    known = {"seconds": round(skew, 3)}
    if apart <= bearable:
        return Finding(name, "ok", f"its clock is {apart:.1f} s from ours", facts=known)
    return Finding(
        name,
        "fail" if apart > SKEW_FAIL_SECONDS else "warn",
        f"its clock is {apart:.1f} s {'ahead of' if skew > 0 else 'behind'} ours",
        "let both machines set their clocks by NTP",
        known,
    )


def users(kind: str, facts: ServerFacts) -> Finding:
    """Judge whether the server can replay its own file.

    Redis does so as its user `default`, and leaves out what that user may not do.
    """
    name = f"{kind}.users"
    if facts.default_rights is None:
        return Finding(name, "skip", "the server does not tell the rights of its user `default`")
    if "+@all" in facts.default_rights.split():
        return Finding(name, "ok", "its user `default` may replay the append-only file")
    return Finding(
        name,
        "fail",
        "its user `default` has no rights: at a restart the append-only file is not replayed, "
        "and what was written is lost",
        "use: user default off ~* &* +@all",
    )


def sick_persistence(kind: str, facts: ServerFacts) -> Finding | None:
    """Return the finding where the server fails at writing its files."""
    name = f"{kind}.persistence"
    for field_name, what in (
        ("aof_last_write_status", "it cannot write its append-only file"),
        ("aof_last_bgrewrite_status", "it could not rewrite its append-only file"),
    ):
        if facts.info.get(field_name, "ok") != "ok":
            state: State = "fail" if field_name == "aof_last_write_status" else "warn"
            return Finding(name, state, what, "look at its log, and at the space on its disk")
    config = facts.config or {}
    saves = bool(config.get("save")) and config.get("stop-writes-on-bgsave-error") != "no"
    if saves and facts.info.get("rdb_last_bgsave_status", "ok") != "ok":
        return Finding(
            name,
            "fail",
            "its last snapshot failed, so that it refuses all writes",
            'look at its log, or set save ""',
        )
    return None


def file_settings(facts: ServerFacts) -> tuple[str, str]:
    """Return `appendonly` and `appendfsync`, as far as the server tells; else empty texts."""
    if facts.config:
        return facts.config.get("appendonly", ""), facts.config.get("appendfsync", "")
    enabled = facts.info.get("aof_enabled")
    return {"1": "yes", "0": "no"}.get(enabled or "", ""), ""


def eviction(kind: str, facts: ServerFacts) -> Finding | None:
    """Return the finding where the server may throw away what it holds."""
    policy = (facts.config or {}).get("maxmemory-policy") or facts.info.get("maxmemory_policy")
    limited = (facts.config or {}).get("maxmemory", facts.info.get("maxmemory", "0")) != "0"
    if policy in {None, "noeviction"}:
        return None
    return Finding(
        f"{kind}.memory",
        "fail" if limited else "warn",
        f"maxmemory-policy is {policy}: when its memory is full, it deletes what it holds",
        "set maxmemory-policy noeviction",
        {"policy": policy},
    )
