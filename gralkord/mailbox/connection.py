"""Reach the queue Redis, and turn its refusals into errors that say what to do."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Iterator
from typing import Any

import redis.asyncio as redis
import redis.exceptions as refusals
import structlog
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from gralkord.config import Server
from gralkord.errors import BackendUnavailable, ConfigError, GralkorError, QueueFull, Transient

log = structlog.get_logger(__name__)

CONNECT_SECONDS = 5.0
# Even with the repeats of a handshake it is less than the patience of our clients, so that they
# hear of a queue that hangs.
READ_SECONDS = 5.0
MAX_CONNECTIONS = 64

# What redis-py puts before the reason in a pipeline: the command, so somebody's words.
_QUOTE = "of pipeline caused error: "


class _Cancellable:
    """A connection that is left when its task is cancelled, at whatever moment.

    redis-py sends with `asyncio.wait_for`, which before Python 3.12 loses a cancellation that comes
    when the sending has just ended. A busy task would hardly ever be stopped, and no timeout around
    it would be kept.
    """

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send; what has been asked of the task meanwhile comes true."""
        task = asyncio.current_task()
        asked = task.cancelling() if task else 0
        connection: Any = super()
        await connection.send_packed_command(command, check_health)
        if task and task.cancelling() > asked:
            await connection.disconnect(nowait=True)  # the answer is still to come
            raise asyncio.CancelledError


def cancellable(connection_class: type[Any]) -> type[Any]:
    """Return a class of redis-py's connections whose tasks can be cancelled at any moment."""
    return types.new_class(connection_class.__name__, (_Cancellable, connection_class))


def connection_options(server: Server) -> dict[str, Any]:
    """Return the redis-py keyword arguments that reach *server*.

    Raises:
        ConfigError: The server has no address, or its password file cannot be read.
    """
    options: dict[str, Any] = {
        "username": server.username,
        "password": server.secret(),
        "socket_connect_timeout": CONNECT_SECONDS,
        "socket_timeout": READ_SECONDS,
    }
    if server.socket:
        return options | {"unix_socket_path": str(server.socket)}
    if not server.host:
        raise ConfigError("the queue has no address: set queue.host or queue.socket")
    options |= {"host": server.host, "port": server.port, "socket_keepalive": True}
    if server.tls:
        options |= {"ssl": True, "ssl_cert_reqs": "required", "ssl_check_hostname": True}
        if server.tls_ca:
            options["ssl_ca_certs"] = str(server.tls_ca)
    return options


def open_queue(server: Server) -> redis.Redis:
    """Return a client of the queue Redis; it connects when it is first used.

    Its retries cover a server that is restarting: every call through it is safe to repeat, since
    captures carry ids and the scripts refuse what they have done already. A command to a server
    that hangs is sent once: each repeat would take as long again. Callers beyond the limit of
    connections wait for one to be free.
    """
    retry = Retry(ExponentialBackoff(cap=0.5, base=0.02), 3, (refusals.ConnectionError,))
    plain = redis.Redis(**connection_options(server), retry=retry).connection_pool
    return redis.Redis.from_pool(
        redis.BlockingConnectionPool(
            max_connections=MAX_CONNECTIONS,
            timeout=READ_SECONDS,
            connection_class=cancellable(plain.connection_class),
            **plain.connection_kwargs,
        )
    )


async def check_access(client: redis.Redis) -> None:
    """Return if the server lets us in.

    Raises:
        ConfigError: It refuses the user or password.
        GralkorError: It does not answer.
    """
    with queue_errors():
        try:
            await client.ping()
        except refusals.NoPermissionError:  # of this one command: who we are was accepted
            return


async def warn_of_forgetting(client: redis.Redis) -> None:
    """Log a warning if the server would lose acknowledged turns at its next restart.

    Redis replays its append-only file as the user ``default``. Where that user may do nothing, as
    after ``user default off`` alone, each transaction in the file is refused and left out without
    an error, and the effects of our scripts are transactions.
    """
    try:
        default: Any = await client.acl_getuser("default")
    except refusals.RedisError:  # managed servers do not tell, and do not replay as it either
        return
    if default and "+@all" not in default["categories"]:
        log.error(
            "queue_forgets_at_restart",
            reason="its user `default` has no rights, so its append-only file is not replayed",
            hint="use: user default off ~* &* +@all",
        )


@contextlib.contextmanager
def queue_errors() -> Iterator[None]:
    """Raise what redis-py raises as errors of our own tree.

    Raises:
        QueueFull: The server is at its memory limit.
        BackendUnavailable: It does not answer, is loading, or cannot write its file.
    """
    try:
        yield
    except refusals.RedisError as error:
        raise explain(error) from error


def explain(error: refusals.RedisError) -> GralkorError:
    """Return the error of our own tree that *error* means."""
    text = str(error).rpartition(_QUOTE)[2]
    if isinstance(error, refusals.OutOfMemoryError) or "OOM command not allowed" in text:
        return QueueFull(
            "the queue is at its memory limit; try again later", limit="memory", retry_after=5
        )
    if "MISCONF" in text or "No space left" in text:
        return BackendUnavailable(
            "the queue cannot write its file (is its disk full?); nothing was stored",
            retry_after=10,
        )
    if isinstance(error, refusals.AuthenticationError | refusals.NoPermissionError) or (
        # A password that is missing altogether is told as a connection that fails.
        isinstance(error.__cause__, refusals.AuthenticationError)
        or "Authentication required" in text
    ):
        return ConfigError("the queue refuses the user or password", field="queue.password")
    if isinstance(
        error, refusals.ConnectionError | refusals.TimeoutError | refusals.BusyLoadingError
    ):
        return BackendUnavailable("the queue does not answer", retry_after=1)
    if isinstance(error, refusals.NoScriptError):  # they were sent to the one before
        return BackendUnavailable("the queue has just been restarted", retry_after=0.1)
    return Transient(f"the queue refused: {text[:200]}")
