"""Doorbells of the understand lane: Dramatiq messages that carry a group and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

import dramatiq
import redis
import structlog
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.brokers.redis import RedisBroker
from dramatiq.errors import BrokerError, DecodeError
from redis.backoff import NoBackoff
from redis.retry import Retry

from gralkord.config import Server
from gralkord.errors import BackendUnavailable
from gralkord.mailbox.connection import connection_options

log = structlog.get_logger(__name__)

QUEUE: Final = "understand"
ACTOR: Final = "understand"
NAMESPACE: Final = "gk:dramatiq"

# How long an idle consumer waits for a doorbell before it looks by itself, in s. It also bounds
# how long a worker that is told to stop waits for it.
LISTEN_SECONDS: Final = 1.0
# How often the queue of delayed messages, in which there are none, is looked at, in s. That look
# is the sign of life of a process whose threads are all busy.
DELAYED_SECONDS: Final = 5.0
HEARTBEAT_MS: Final = 30_000
BURY_SECONDS: Final = 60.0
OUTAGE_SECONDS: Final = 0.5
STOPPING_SECONDS: Final = 0.05
# Tokens beyond the number of idle workers only cost a look each.
MOST_TOKENS: Final = 64

_ALLOW_OOM: Final = b"#!lua flags=allow-oom\n"

# KEYS: the list of tokens. ARGV: tokens to add, most tokens.
_WAKE: Final = b"""
for _ = 1, tonumber(ARGV[1]) do redis.call('RPUSH', KEYS[1], '1') end
redis.call('LTRIM', KEYS[1], -tonumber(ARGV[2]), -1)
"""

# KEYS: the namespace. ARGV: queue, heartbeats older than this (ms) are of dead processes.
_BURY: Final = b"""
local heartbeats = KEYS[1] .. ':__heartbeats__'
for _, process in ipairs(redis.call('ZRANGEBYSCORE', heartbeats, 0, ARGV[2])) do
  local taken = KEYS[1] .. ':__acks__.' .. process .. '.' .. ARGV[1]
  for _, id in ipairs(redis.call('SMEMBERS', taken)) do
    redis.call('HDEL', KEYS[1] .. ':' .. ARGV[1] .. '.msgs', id)
  end
  redis.call('DEL', taken)
  redis.call('ZREM', heartbeats, process)
end
"""


class BellBroker(RedisBroker):
    """Dramatiq's Redis broker, made fit for a full queue and for workers that wait without polling.

    Its scripts also run when the server is at its memory limit, for otherwise no work could be
    taken or finished and the queue would stay full. With each message goes a token for which idle
    consumers wait: the server gives it to the one that has waited longest.

    Attributes:
        stopping: Set when no further message is to be taken.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self.stopping = threading.Event()
        scripts: dict[str, Any] = self.scripts
        self.scripts = {
            name: self.client.register_script(_ALLOW_OOM + script.script)
            for name, script in scripts.items()
        }
        self._wake = self.client.register_script(_ALLOW_OOM + _WAKE)
        self._bury = self.client.register_script(_ALLOW_OOM + _BURY)
        self._enqueue = self._dispatch("enqueue")  # type: ignore[no-untyped-call]

    @property
    def consumer_class(self) -> type[Consumer]:
        """The class of consumers that `consume` makes."""
        return Listener

    def do_enqueue(self, queue: str, message_id: str, body: bytes) -> None:
        """Append a message and wake one idle worker."""
        self._enqueue(queue, message_id, body)
        self.wake(queue, 1)

    def wake(self, queue: str, workers: int) -> None:
        """Wake so many idle workers."""
        self._wake(keys=[self.tokens(queue)], args=[workers, MOST_TOKENS])

    def bury(self, queue: str) -> None:
        """Remove what processes had taken that have shown no sign of life for long.

        Dramatiq's own maintenance finds it with KEYS, which holds up the whole server, and puts the
        messages back. Ours are not needed any more: the sweep has rung again.
        """
        before = int(time.time() * 1000) - self.heartbeat_timeout
        self._bury(keys=[self.namespace], args=[queue, before])

    def tokens(self, queue: str) -> str:
        """Return the list for whose entries idle consumers wait."""
        return f"{self.namespace}:{queue}.wake"


class Listener(Consumer):
    """Takes doorbells: it waits on the server, and drops what is none.

    A message may be lost at any time, so nothing that happens here is an error of the worker: an
    outage is waited out, and what cannot be read is removed, not kept to fail again.
    """

    def __init__(self, broker: BellBroker, queue: str, prefetch: int, timeout: int) -> None:  # noqa: ARG002
        self._broker = broker
        self._queue = queue
        self._prefetch = prefetch
        self._fetched: list[bytes | None] = []
        self._held: set[str] = set()
        self._late: list[str] = []
        self._bury_at = 0.0
        self._freed = threading.Event()
        self._deaf = False

    def __next__(self) -> MessageProxy | None:
        """Return the next doorbell; ``None`` when there is none for now."""
        try:
            message = self._take()
            if message is None:
                self._listen()
        except redis.RedisError as error:
            if not self._deaf:
                log.warning("doorbells_unheard", queue=self._queue, reason=str(error)[:200])
            self._deaf = True
            self._broker.stopping.wait(OUTAGE_SECONDS)
            return None
        self._deaf = False
        return message

    def ack(self, message: MessageProxy) -> None:
        """Note that a message is done with; the queue is told as soon as it answers."""
        self._late.append(message.options["redis_message_id"])
        self._held.discard(message.message_id)
        self._freed.set()
        if len(self._late) == 1:
            with contextlib.suppress(redis.RedisError):
                self._settle()

    def nack(self, message: MessageProxy) -> None:
        """Do the same: who wants to know what became of the work looks into the mailbox."""
        self.ack(message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Give back what was taken and not begun; if that fails, the sweep rings again."""
        ids = [message.options["redis_message_id"] for message in messages]
        if not ids:
            return
        try:
            self._broker.do_requeue(self._queue, *ids)
            self._broker.wake(self._queue, len(ids))
        except redis.RedisError as error:
            log.warning("doorbells_not_given_back", count=len(ids), reason=str(error)[:200])

    def _room(self) -> int:
        return self._prefetch - len(self._held) - len(self._fetched)

    def _take(self) -> MessageProxy | None:
        while self._fetched or self._fetch():
            message = read_bell(self._fetched.pop(0), self._queue)
            if message is not None:
                self._held.add(message.message_id)
                return MessageProxy(message)
            self._drop_unreadable()
        return None

    def _fetch(self) -> bool:
        room = self._room()
        if room <= 0 or self._broker.stopping.is_set():
            return False
        self._settle()
        if self._queue == QUEUE and time.monotonic() >= self._bury_at:
            self._broker.bury(self._queue)
            self._bury_at = time.monotonic() + BURY_SECONDS
        self._fetched = self._broker.do_fetch(self._queue, room)
        return bool(self._fetched)

    def _listen(self) -> None:
        """Wait until there may be a doorbell to take, for a while."""
        if self._broker.stopping.is_set():
            time.sleep(STOPPING_SECONDS)
        elif self._queue != QUEUE:
            self._broker.stopping.wait(DELAYED_SECONDS)
        elif self._room() <= 0:
            self._freed.wait(LISTEN_SECONDS)
            self._freed.clear()
        else:
            self._broker.client.blpop([self._broker.tokens(self._queue)], LISTEN_SECONDS)

    def _settle(self) -> None:
        # Two threads may do this at once: to acknowledge twice does no harm.
        for message_id in tuple(self._late):
            self._broker.do_ack(self._queue, message_id)
            with contextlib.suppress(ValueError):
                self._late.remove(message_id)

    def _drop_unreadable(self) -> None:
        """Remove what this process has taken and what is no doorbell.

        A fetch returns bodies without their ids, so all that was taken is looked at: as a rule no
        more than there are threads.
        """
        broker, bodies = self._broker, f"{self._broker.namespace}:{self._queue}.msgs"
        acks = f"{broker.namespace}:__acks__.{broker.broker_id}.{self._queue}"
        taken: Any = broker.client.smembers(acks)
        for message_id in taken:
            body: Any = broker.client.hget(bodies, message_id)
            if body is None and not broker.client.sismember(acks, message_id):
                continue  # it has just been acknowledged
            if read_bell(body, self._queue) is None:
                broker.do_ack(self._queue, message_id)
                size = None if body is None else len(body)
                log.warning("doorbell_unreadable", queue=self._queue, bytes=size)


def read_bell(body: bytes | None, queue: str) -> dramatiq.Message[None] | None:
    """Return the message whose text is *body* if it is a doorbell of *queue*, else ``None``."""
    try:
        message: Any = dramatiq.Message.decode(body or b"")
        well = (
            (message.queue_name, message.actor_name) == (queue, ACTOR)
            and isinstance(message.message_id, str)
            and isinstance(message.options["redis_message_id"], str)
            and "eta" not in message.options
            and [type(each) for each in message.args] == [str]
            and not message.kwargs
        )
    except (DecodeError, TypeError, KeyError, ValueError):
        return None
    return message if well else None


def open_broker(server: Server) -> BellBroker:
    """Return a Dramatiq broker on the queue Redis.

    A message is only a hint, so losing one costs at most a sweep: no retries, no results, no
    maintenance. What a dead worker had taken comes back by the lease and the sweep.
    """
    # Who rings does not wait for a server that hangs: the sweep rings again.
    retry = Retry(NoBackoff(), 1, (redis.ConnectionError,))
    return BellBroker(
        client=redis.Redis(**connection_options(server), retry=retry),
        namespace=NAMESPACE,
        middleware=[],
        maintenance_chance=0,
        heartbeat_timeout=HEARTBEAT_MS,
    )


class Doorbell:
    """Rings for groups of the understand lane."""

    def __init__(self, broker: RedisBroker) -> None:
        self._broker = broker
        broker.declare_queue(QUEUE)

    async def ring(self, group: str) -> None:
        """Tell some worker that the group may have work.

        Raises:
            BackendUnavailable: The queue does not answer; the sweep will ring again.
        """
        message: dramatiq.Message[None] = dramatiq.Message(
            queue_name=QUEUE, actor_name=ACTOR, args=(group,), kwargs={}, options={}
        )
        try:
            await asyncio.to_thread(self._broker.enqueue, message)
        except (redis.RedisError, BrokerError) as error:
            raise BackendUnavailable("the doorbell could not be rung", retry_after=1) from error

    def close(self) -> None:
        """Drop the connections."""
        self._broker.client.close()
        self._broker.close()
