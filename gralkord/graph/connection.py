"""The way to FalkorDB: queries on one group's graph, each with a limit of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

import structlog
from redis import exceptions as redis_errors
from redis.asyncio import BlockingConnectionPool
from redis.asyncio import connection as redis_connections
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gralkord.config import Graph
from gralkord.errors import BackendUnavailable, ConfigError, QueryRefused
from gralkord.graph import schema
from gralkord.graph.failures import REFUSED, keeps_no_file, raise_failure, reason_of
from gralkord.graph.wire import decode_rows, encode_query

log = structlog.get_logger(__name__)

GROUP_PREFIXES: Final = ("op__", "global__")
MAX_CONNECTIONS: Final = 16
CONNECT_SECONDS: Final = 3.0
# How much longer than the server's own limit to wait for its answer, in seconds.
READ_SLACK: Final = 0.25
WRITE_SLACK: Final = 5.0
FSYNC_MS: Final = 3_000
# Rounds under way at once; more would take the connections that reads need.
FSYNC_ROUNDS: Final = 3

_NO_GRAPH: Final = "empty key"
# What means that the command was not run, so that sending it again is safe.
_NOT_RUN: Final = (redis_errors.BusyLoadingError, redis_errors.MasterDownError)


class GraphConnection:
    """A pool of connections to FalkorDB, for one event loop.

    Attributes:
        durable: Whether the server confirms that writes have reached its disk; ``None`` until
            `wait_durable` has asked.
    """

    def __init__(self, pool: BlockingConnectionPool) -> None:
        self.durable: bool | None = None
        self._pool = pool
        self._ensured: set[str] = set()
        self._fsync = asyncio.Semaphore(FSYNC_ROUNDS)
        self._asked = 0
        self._synced = 0
        self._run = ""
        self._ended_runs: set[str] = set()

    @classmethod
    def open(cls, server: Graph, *, socket: Path | None = None) -> Self:
        """Return a connection to *server*; nothing is sent yet.

        Args:
            server: Where it is.
            socket: Unix socket of the embedded server, for settings that name no place.

        Raises:
            ConfigError: There is neither, or the password's file cannot be read.
        """
        options: dict[str, Any] = {
            "max_connections": MAX_CONNECTIONS,
            # Each call has a limit of its own, over everything.
            "timeout": None,
            "socket_timeout": None,
            "socket_connect_timeout": CONNECT_SECONDS,
            "decode_responses": True,
            # What other programs wrote must not break the reading of a whole reply.
            "encoding_errors": "replace",
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
        }
        if path := server.socket or (None if server.remote else socket):
            options |= {
                "connection_class": redis_connections.UnixDomainSocketConnection,
                "path": str(path),
            }
        elif server.host:
            options |= {"host": server.host, "port": server.port, "socket_keepalive": True}
            if server.tls:
                options |= {
                    "connection_class": redis_connections.SSLConnection,
                    "ssl_cert_reqs": "required",
                    "ssl_check_hostname": True,
                    "ssl_ca_certs": str(server.tls_ca) if server.tls_ca else None,
                }
        else:
            raise ConfigError("there is no graph server: set graph.host or graph.socket")
        options |= {"username": server.username, "password": server.secret()}
        return cls(BlockingConnectionPool(**options))

    async def read(
        self,
        group: str,
        query: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int = 1_000,
        plain: bool = False,
    ) -> list[list[Any]]:
        """Return the rows of a query that changes nothing; no rows if there is no such graph.

        Args:
            group: The group id, which is the graph's name.
            query: Cypher that returns properties, never nodes or edges.
            params: Values of the query's ``$names``.
            timeout_ms: Limit of the query; a read that waits for a write blocks the whole server.
            plain: For large answers, twice as fast: text, whole numbers and null come as they are,
                everything else as FalkorDB's text for it.

        Raises:
            BackendUnavailable: The server does not answer in time.
            QueryRefused: The query is not acceptable.
        """
        words = ["GRAPH.RO_QUERY", group, encode_query(query, params), "TIMEOUT", timeout_ms]
        limit = timeout_ms / 1000 + READ_SLACK
        if plain:
            reply = await self._call(words, limit, resend=True, absent=())
            return list(reply[1]) if reply else []
        return decode_rows(await self._call([*words, "--compact"], limit, resend=True, absent=()))

    async def write(
        self,
        group: str,
        query: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_ms: int = 10_000,
        resend: bool = False,
    ) -> list[list[Any]]:
        """Return the rows of a query that changes the graph: all of it happens, or nothing.

        Args:
            group: The group id; call `ensure_group` first, for a write makes a graph silently.
            query: Cypher, fenced by its lane's fence in `schema` if it writes memories.
            params: Values of the query's ``$names``.
            timeout_ms: Limit of the query.
            resend: The query may run twice, so send it again when the answer gets lost.

        Raises:
            BackendUnavailable: The server does not answer; the write may have happened or not.
            QueryRefused: The query is not acceptable; nothing happened.
        """
        words = ["GRAPH.QUERY", group, encode_query(query, params), "TIMEOUT", timeout_ms]
        limit = timeout_ms / 1000 + WRITE_SLACK
        return decode_rows(await self._call([*words, "--compact"], limit, resend=resend))

    async def ensure_group(self, group: str) -> None:
        """Make the graph of *group* with its Meta node and indices, unless it is known to exist.

        Raises:
            BackendUnavailable: The server does not answer.
        """
        if group not in self._ensured:
            await schema.create_group(self, group)
            self._ensured.add(group)

    def forget_group(self, group: str) -> None:
        """Have the next `ensure_group` look again: another process has dropped the graph."""
        self._ensured.discard(group)

    async def drop_group(self, group: str) -> None:
        """Delete the graph of *group*, if there is one."""
        self.forget_group(group)
        await self._call(["GRAPH.DELETE", group], CONNECT_SECONDS, resend=True, absent=())

    async def command(self, *words: str | int) -> Any:
        """Send a command that is about the server and safe to repeat; return its reply.

        Raises:
            BackendUnavailable: The server does not answer, or does not allow it.
            QueryRefused: It does not know such a command.
        """
        return await self._call(list(words), CONNECT_SECONDS, resend=True)

    async def groups(self) -> list[str]:
        """Return the ids of all groups, sorted; other graphs on the same server are left out."""
        names = await self._call(["GRAPH.LIST"], CONNECT_SECONDS, resend=True)
        return sorted(name for name in names if name.startswith(GROUP_PREFIXES))

    async def known_run(self) -> str:
        """Return the run of the server to which writes from now on belong, or an earlier one."""
        if not self._run:
            self._note_run(await self.run_id())
        return self._run

    async def wait_durable(self, run: str | None = None) -> None:
        """Return once every write that was answered before this call is on the server's disk.

        Where the server keeps no append-only file there is nothing to wait for: see `durable`.

        Args:
            run: What `known_run` returned before those writes. A server that has crashed since may
                have lost them, and syncing the file of its successor would prove nothing.

        Raises:
            BackendUnavailable: The server does not confirm it, or it is another run by now.
        """
        self._asked += 1
        mine = self._asked
        async with self._fsync:  # who waits here is served together by the next round
            await asyncio.sleep(0)  # so that callers of the same moment share one round
            if self._synced < mine:
                upto = self._asked
                await self._sync()
                self._synced = max(self._synced, upto)
        if run in self._ended_runs:
            raise BackendUnavailable("the graph was restarted before a write was on its disk")

    async def check_access(self) -> None:
        """Return if the server lets us in.

        Raises:
            ConfigError: It refuses the user or password.
            BackendUnavailable: It does not answer.
        """
        try:
            await self._call(["PING"], CONNECT_SECONDS, resend=True)
        except BackendUnavailable as error:
            cause = error.__cause__
            if isinstance(cause, REFUSED) or "Authentication required" in str(cause):
                raise ConfigError(
                    "the graph refuses the user or password", field="graph.password"
                ) from error
            raise

    async def wait_ready(self, timeout: float) -> None:  # noqa: ASYNC109
        """Return once the server answers, has loaded its data and its indices are usable.

        Args:
            timeout: Limit in seconds.

        Raises:
            BackendUnavailable: It took longer.
        """
        reason: str | None = "it does not answer"
        try:
            async with asyncio.timeout(timeout):
                while reason := await self._unreachable():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
                reason = "its indices are being built"
                groups = await self.groups()
                for start in range(0, len(groups), MAX_CONNECTIONS):
                    some = groups[start : start + MAX_CONNECTIONS]
                    await asyncio.gather(*[schema.operational(self, group) for group in some])
        except TimeoutError:
            raise BackendUnavailable(
                f"the graph is not ready after {timeout:g} s: {reason}"
            ) from None

    async def versions(self) -> dict[str, str]:
        """Return the server's versions under ``redis`` and ``falkordb``, where it tells them."""
        info = await self._call(["INFO", "server"], CONNECT_SECONDS, resend=True)
        lines = dict(line.split(":", 1) for line in str(info).splitlines() if ":" in line)
        found = {"redis": lines.get("redis_version", "unknown"), "falkordb": "unknown"}
        try:
            modules = await self._call(["MODULE", "LIST"], CONNECT_SECONDS, resend=True)
        except (BackendUnavailable, QueryRefused):  # managed servers do not tell
            return found
        for module in modules:
            fields = dict(zip(module[::2], module[1::2], strict=False))
            if fields.get("name") == "graph":
                number = int(fields["ver"])
                parts = (number // 10_000, number // 100 % 100, number % 100)
                found["falkordb"] = ".".join(map(str, parts))
        return found

    async def run_id(self) -> str:
        """Return the name of this run of the server: each start has another one."""
        return _run_of(await self._call(["INFO", "server"], CONNECT_SECONDS, resend=True))

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.disconnect()

    async def _unreachable(self) -> str | None:
        """Return why the server does not answer."""
        try:
            await self._call(["PING"], 0.1, resend=True)
        except BackendUnavailable as error:
            return error.message
        return None

    def _note_run(self, run: str) -> None:
        if run not in self._ended_runs and run != self._run:
            if self._run:
                self._ended_runs.add(self._run)
            self._run = run

    async def _release(self, connection: redis_connections.AbstractConnection) -> None:
        # A limit that runs out during the release would take the connection from the pool for good.
        await asyncio.shield(self._pool.release(connection))

    async def _sync(self) -> None:
        # WAITAOF waits for the writes of its own connection only, and a graph's write came over
        # another one. A write of its own, after it in the file, makes it wait for both.
        waited = 0
        try:
            async with asyncio.timeout(FSYNC_MS / 1000 + WRITE_SLACK):
                connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
                try:
                    await connection.send_command("SET", "gk:fsync", "1", "PX", 60_000)
                    await connection.read_response()
                    await connection.send_command("INFO", "server")
                    self._note_run(_run_of(await connection.read_response()))
                    await connection.send_command("WAITAOF", 1, 0, FSYNC_MS)
                    waited = (await connection.read_response())[0]
                finally:
                    await self._release(connection)
        except (redis_errors.RedisError, OSError, TimeoutError) as error:
            if not keeps_no_file(error):
                raise_failure(error)
            if self.durable is not False:
                log.warning("graph_not_durable", reason=reason_of(error))
            self.durable = False
            return
        if not waited:
            raise BackendUnavailable(f"the graph's file was not synced within {FSYNC_MS} ms")
        self.durable = True

    async def _call(
        self,
        words: list[Any],
        limit: float,
        *,
        resend: bool = False,
        absent: Any = None,
    ) -> Any:
        """Send one command and return its reply, trying again while that is safe.

        Args:
            words: The command.
            limit: Seconds for everything: a free connection, repeats, the answer.
            resend: Also repeat a command that may have been run.
            absent: Reply to give where there is no such graph; ``None``: raise.
        """
        clock = asyncio.get_running_loop().time
        give_up = clock() + (limit if resend else min(limit, CONNECT_SECONDS))
        pause = 0.02
        try:
            async with asyncio.timeout(limit):
                while True:
                    sent = False
                    try:
                        connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]
                        try:
                            sent = True
                            await connection.send_command(*words)
                            return await connection.read_response()
                        finally:
                            await self._release(connection)
                    except (redis_errors.ConnectionError, *_NOT_RUN, OSError) as error:
                        safe = resend or not sent or isinstance(error, _NOT_RUN)
                        if not safe or isinstance(error, REFUSED) or clock() + pause > give_up:
                            raise
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, 0.5)
        except redis_errors.ResponseError as error:
            if absent is not None and _NO_GRAPH in str(error):
                return absent
            raise_failure(error)
        except (redis_errors.RedisError, OSError, TimeoutError) as error:
            raise_failure(error)


def _run_of(info: Any) -> str:
    """Return the name of the server's run, which stands in its INFO."""
    found = [line for line in str(info).splitlines() if line.startswith("run_id:")]
    return found[0].removeprefix("run_id:") if found else ""
