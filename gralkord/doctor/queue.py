"""The queue Redis: is it there, and does it keep what it has taken?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gralkord.client.sockets import PRODUCER_USER
from gralkord.doctor import server
from gralkord.doctor.findings import Finding
from gralkord.mailbox.connection import check_access, open_queue, queue_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

    from gralkord.config import Queue
    from gralkord.doctor.case import Case
    from gralkord.doctor.server import ServerFacts

CHECKS: Final = (
    *("reachable", "version", "persistence", "memory", "users", "producers", "access", "clock"),
)
OLDEST: Final = (7, 0)
# From there on intake is closed.
FULL_PERCENT: Final = 70

_WORDS: Final = {"always": "at each write", "everysec": "each second"}


async def look(case: Case) -> AsyncIterator[Finding]:
    """Yield what is found of the queue."""
    settings = case.queue()
    if settings is None:
        error = case.not_running()
        yield Finding("queue.reachable", "skip", f"embedded; {error.message}", error.hint or "")
        return
    client = open_queue(settings)
    try:
        if (silent := await server.silent("queue", settings, check_access(client))) is not None:
            yield silent
            return
        ask = _ask(client)
        facts = await server.ask_all(ask, case.clock)
        yield server.reachable("queue", settings, facts)
        yield version(facts)
        yield server.sick_persistence("queue", facts) or persistence(facts, settings.durability)
        yield server.eviction("queue", facts) or memory(facts)
        yield server.users("queue", facts)
        yield await _producers(ask, settings)
        yield server.access("queue", settings)
        yield server.clock("queue", facts)
    finally:
        await client.aclose()


def _ask(client: Redis) -> server.Ask:
    async def ask(*words: str) -> Any:
        with queue_errors():
            return await client.execute_command(*words)  # type: ignore[no-untyped-call]

    return ask


def version(facts: ServerFacts) -> Finding:
    """Judge the server's version."""
    written = facts.info.get("redis_version", "")
    if not written:
        return Finding("queue.version", "skip", "the server does not tell its version")
    known = {"version": written}
    found = f"{facts.info.get('server_name', 'redis').capitalize()} {written}"
    if as_numbers(written) < OLDEST:
        return Finding("queue.version", "fail", found, "use Redis 7.0 or later", known)
    return Finding("queue.version", "ok", found, facts=known)


def as_numbers(written: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with."""
    found = re.match(r"\d+(?:\.\d+)*", written)
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def persistence(facts: ServerFacts, wanted: str) -> Finding:
    """Judge when the server's file is synced, by what is configured."""
    name = "queue.persistence"
    file, sync = server.file_settings(facts)
    known = {"appendonly": file, "appendfsync": sync, "wanted": wanted}
    if file == "no":
        return Finding(
            name,
            "fail",
            "it keeps no append-only file: what was acknowledged is lost when it stops",
            f"set appendonly yes and appendfsync {wanted}",
            known,
        )
    if not file or not sync:
        return Finding(
            name,
            "warn",
            f"the server does not tell when its file is synced; queue.durability says {wanted}",
            "ask whoever runs it whether appendonly and appendfsync are as that says",
            known,
        )
    if sync == "no" or (sync == "everysec" and wanted == "always"):
        lost = "the last second" if sync == "everysec" else "what the system has not written yet"
        return Finding(
            name,
            "fail" if sync == "no" else "warn",
            f"appendfsync is {sync}: a crash of its machine loses {lost} of what was acknowledged",
            "set appendfsync always"
            + (", or queue.durability to everysec" if sync == "everysec" else ""),
            known,
        )
    if sync == "always" and (facts.config or {}).get("no-appendfsync-on-rewrite") == "yes":
        return Finding(
            name,
            "warn",
            "while its file is rewritten it does not sync it",
            "set no-appendfsync-on-rewrite no",
            known,
        )
    return Finding(name, "ok", f"an append-only file, synced {_WORDS[sync]}", facts=known)


def memory(facts: ServerFacts) -> Finding:
    """Judge how much of its memory the queue uses."""
    name = "queue.memory"
    if "used_memory" not in facts.info:
        return Finding(name, "skip", "the server does not tell how much memory it uses")
    used = int(facts.info.get("used_memory", 0))
    limit = int(facts.info.get("maxmemory", 0))
    known = {"bytes": used, "limit": limit}
    found = f"{used / server.MEGABYTE:.1f} MB in use"
    if not limit:
        return Finding(
            name,
            "warn",
            f"{found}, without a limit: the system may end it when memory is short",
            "set maxmemory; then captures are refused in time, and nothing is lost",
            known,
        )
    percent = 100 * used / limit
    found = f"{found} of {limit / server.MEGABYTE:.0f} MB ({percent:.0f} %)"
    if percent >= FULL_PERCENT:
        return Finding(
            name,
            "fail",
            f"{found}: intake is closed from {FULL_PERCENT} % on",
            "run more workers, or raise maxmemory; see what waits with `gralkord status`",
            known,
        )
    return Finding(name, "ok", found, facts=known)


async def _producers(ask: server.Ask, settings: Queue) -> Finding:
    name = "queue.producers"
    user = settings.producer_user or (PRODUCER_USER if settings.socket else None)
    if user is None:
        return Finding(name, "ok", "no producer writes to the stream itself")
    found = await server.rights(ask, user)
    if found is None:
        return Finding(name, "skip", "the server does not tell about its users")
    if not found:
        if settings.producer_user is None:
            return Finding(name, "ok", "no producer writes to the stream itself")
        return Finding(
            name,
            "fail",
            f"there is no user {user}",
            f"make it, or take queue.producer_user = {user!r} out",
        )
    if found.split()[0] == "-@all" and "+@all" not in found.split():
        return Finding(name, "ok", f"the user {user} may write to the stream and nothing else")
    return Finding(
        name,
        "warn",
        f"the user {user} may do more than write to the stream",
        "give it `-@all +xadd +ping +hello` and what its client library sends by itself",
    )
