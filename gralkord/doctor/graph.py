"""The graph FalkorDB: is it there, does it keep what it has, and are its vectors of use?"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import redis.exceptions as refusals

from gralkord.doctor import server
from gralkord.doctor.findings import Finding
from gralkord.doctor.queue import as_numbers
from gralkord.errors import GralkorError
from gralkord.graph.connection import GraphConnection
from gralkord.graph.embedders import embedders_of
from gralkord.mailbox.connection import open_queue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from gralkord.config import Queue
    from gralkord.doctor.case import Case
    from gralkord.doctor.server import ServerFacts
    from gralkord.providers.embedders.choice import Embedders

CHECKS: Final = (
    *("reachable", "version", "separate", "persistence", "memory", "limits", "texts", "users"),
    *("access", "clock", "vectors"),
)
OLDEST: Final = (4, 16)
# The longest of our own queries; a server with a lower limit refuses them.
LONGEST_QUERY_MS: Final = 10_000
ANSWER_SECONDS: Final = 5.0


async def look(case: Case) -> AsyncIterator[Finding]:
    """Yield what is found of the graph."""
    settings = case.graph()
    if settings is None:
        error = case.not_running()
        yield Finding("graph.reachable", "skip", f"embedded; {error.message}", error.hint or "")
        return
    connection = GraphConnection.open(settings)
    try:
        access = connection.check_access()
        if (silent := await server.silent("graph", settings, access)) is not None:
            yield silent
            return
        facts = await server.ask_all(connection.command, case.clock)
        yield server.reachable("graph", settings, facts)
        known = await connection.versions()
        if await server.maybe(connection.command, "GRAPH.LIST") is None:
            yield Finding(
                "graph.version",
                "fail",
                f"Redis {known['redis']}, which is no FalkorDB",
                "load the module falkordb.so, or name another server in graph.host",
                known,
            )
            return
        yield version(known)
        yield await _separate(case.queue(), facts)
        yield server.sick_persistence("graph", facts) or persistence(facts)
        yield server.eviction("graph", facts) or memory(facts)
        limits = await _limits(connection)
        yield query_limits(limits)
        yield texts(limits)
        yield server.users("graph", facts)
        yield server.access("graph", settings)
        yield server.clock("graph", facts)
        yield await _vectors(case, connection)
    finally:
        await connection.close()


def version(found: Mapping[str, str]) -> Finding:
    """Judge the versions of the server and of its module."""
    name = "graph.version"
    if found["falkordb"] == "unknown":
        return Finding(
            name,
            "warn",
            f"FalkorDB in Redis {found['redis']}, which does not tell its version",
            "ask whoever runs it whether it is 4.16 or later",
            dict(found),
        )
    words = f"FalkorDB {found['falkordb']} in Redis {found['redis']}"
    if as_numbers(found["falkordb"]) < OLDEST:
        return Finding(name, "fail", words, "use FalkorDB 4.16 or later", dict(found))
    return Finding(name, "ok", words, facts=dict(found))


async def _separate(queue: Queue | None, facts: ServerFacts) -> Finding:
    name = "graph.separate"
    if queue is None or not facts.run:
        return Finding(name, "skip", "the queue cannot be compared with it")
    client = open_queue(queue)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reply: Any = await client.info("server")
    except (refusals.RedisError, OSError, TimeoutError):
        return Finding(name, "skip", "the queue does not tell who it is")
    finally:
        await client.aclose()
    if server.info(reply).get("run_id") == facts.run:
        return Finding(
            name,
            "fail",
            "queue and graph are the same server: a query that keeps it busy holds captures up",
            "run two servers, and name them in queue and graph",
        )
    return Finding(name, "ok", "queue and graph are two servers")


def persistence(facts: ServerFacts) -> Finding:
    """Judge whether the graph keeps a file of what is written."""
    name = "graph.persistence"
    file, sync = server.file_settings(facts)
    known = {"appendonly": file, "appendfsync": sync}
    if file == "no":
        return Finding(
            name,
            "fail",
            "it keeps no append-only file: what was understood is lost when it stops",
            "set appendonly yes and appendfsync everysec",
            known,
        )
    if not file:
        return Finding(
            name,
            "warn",
            "the server does not tell whether it keeps an append-only file",
            "ask whoever runs it for appendonly yes",
            known,
        )
    if sync == "no":
        return Finding(
            name,
            "warn",
            "appendfsync is no: nobody knows when a write is on its disk",
            "set appendfsync everysec; each item of work waits for its own sync",
            known,
        )
    return Finding(
        name, "ok", "an append-only file, synced before work counts as done", facts=known
    )


def memory(facts: ServerFacts) -> Finding:
    """Say how much memory the graph uses."""
    if "used_memory" not in facts.info:
        return Finding("graph.memory", "skip", "the server does not tell how much memory it uses")
    used, limit = int(facts.info.get("used_memory", 0)), int(facts.info.get("maxmemory", 0))
    known = {"bytes": used, "limit": limit}
    found = f"{used / server.MEGABYTE:.1f} MB in use"
    if limit and used > 0.9 * limit:
        return Finding(
            "graph.memory",
            "warn",
            f"{found} of {limit / server.MEGABYTE:.0f} MB: soon it refuses writes",
            "raise maxmemory, or erase or move operators",
            known,
        )
    return Finding("graph.memory", "ok", found, facts=known)


async def _limits(connection: GraphConnection) -> dict[str, str] | None:
    reply = await server.maybe(connection.command, "GRAPH.CONFIG", "GET", "*")
    if not isinstance(reply, list):
        return None
    return {str(row[0]): str(row[1]) for row in reply if isinstance(row, list) and len(row) == 2}


def query_limits(limits: Mapping[str, str] | None) -> Finding:
    """Judge the module's own limits of queries."""
    name = "graph.limits"
    if limits is None:
        return Finding(name, "skip", "the server does not tell the limits of its module")
    longest, rows = _number(limits, "TIMEOUT_MAX"), _number(limits, "RESULTSET_SIZE")
    known = {"timeout_max_ms": longest, "resultset_size": rows}
    if rows > 0:
        return Finding(
            name,
            "fail",
            f"RESULTSET_SIZE is {rows}: longer answers are cut off without a word",
            "load the module with RESULTSET_SIZE -1",
            known,
        )
    if 0 < longest < LONGEST_QUERY_MS:
        return Finding(
            name,
            "fail",
            f"TIMEOUT_MAX is {longest} ms: it refuses our queries, which may take "
            f"{LONGEST_QUERY_MS} ms",
            f"load the module with TIMEOUT_MAX 0, or at least {LONGEST_QUERY_MS}",
            known,
        )
    return Finding(name, "ok", "queries have no limits but our own", facts=known)


def texts(limits: Mapping[str, str] | None) -> Finding:
    """Judge whether the module keeps the texts of queries, which are memories."""
    name = "graph.texts"
    if limits is None or "CMD_INFO" not in limits:
        return Finding(name, "skip", "the server does not tell whether it keeps queries")
    if limits["CMD_INFO"] in {"0", "no"}:
        return Finding(name, "ok", "it keeps no texts of queries")
    return Finding(
        name,
        "warn",
        "CMD_INFO is on: it keeps the texts of the last queries of each graph, also of erased "
        "memories",
        "load the module with CMD_INFO no",
    )


def _number(limits: Mapping[str, str], name: str) -> int:
    try:
        return int(limits.get(name, "0"))
    except ValueError:
        return 0


async def _vectors(case: Case, connection: GraphConnection) -> Finding:
    name = "graph.vectors"
    found = await embedders_of(connection)
    try:
        embedders = case.builder().embedders()
    except GralkorError as error:
        return Finding(name, "skip", f"our own embedder is not known: {error.message}")
    try:
        return vectors(found, embedders)
    finally:
        await embedders.close()


def vectors(found: Sequence[tuple[str, str]], embedders: Embedders) -> Finding:
    """Judge whether the vectors of the groups are of use.

    Args:
        found: Each group, and the fingerprint of its vectors, empty where it has none.
        embedders: Those that the settings name.
    """
    name = "graph.vectors"
    counts = Counter(fingerprint for _, fingerprint in found if fingerprint)
    known = {"groups": len(found), "fingerprints": dict(counts)}
    lost = {each: number for each, number in counts.items() if embedders.fitting(each) is None}
    if lost:
        return Finding(
            name,
            "warn",
            f"no embedder for {_told(lost)}: they are searched by words alone",
            "name it in models.embedders_before, or run `gralkord reembed`",
            known,
        )
    present = embedders.present
    old = {each: number for each, number in counts.items() if present and not present.fits(each)}
    if old:
        return Finding(
            name,
            "warn",
            f"still vectors of an embedder of before: {_told(old)}",
            "run `gralkord reembed`, and take it out of models.embedders_before then",
            known,
        )
    return Finding(name, "ok", f"{_groups(len(found))}, all vectors are of use", facts=known)


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_groups(number)} of {each}" for each, number in counts.items())


def _groups(number: int) -> str:
    return "1 group" if number == 1 else f"{number} groups"
