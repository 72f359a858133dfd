"""Put turns and flushes onto the intake stream."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import orjson
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from gralkord.clock import Clock
from gralkord.errors import GralkorError, QueueFull, SessionConflict
from gralkord.groups import escape
from gralkord.intake.gather import MOST_BYTES, MOST_TURNS, Gatherer, Written
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import explain
from gralkord.mailbox.durability import Durability
from gralkord.mailbox.keys import Keys, ingest_names, seen_name, session_name
from gralkord.mailbox.scripts import Scripts
from gralkord.models import Capture, CaptureReceipt
from gralkord.models.ingest import Ingest, IngestReceipt
from gralkord.models.ingested import read_ingest
from gralkord.models.places import place_turn_id
from gralkord.wire import check_event_time

# Seconds until it is worth asking again. The router is fast, a language model is not, and memory
# is given back by both.
RETRY_AFTER: Final = {"intake": 2.0, "memory": 5.0, "closed": 5.0, "backlog": 15.0}

KNOWN_HOMES: Final = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may wait before the queue takes nothing new.

    Attributes:
        intake: Entries in the intake stream.
        backlog: Items in the mailboxes of one group.
    """

    intake: int = 200_000
    backlog: int = 20_000


class Producer:
    """Writes what agents said to the intake stream of their tenant.

    The answer to a capture means: it is stored, as durably as the queue is (`durability`).
    """

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        lenses: LensRegistry,
        clock: Clock,
        durability: Durability,
        limits: Limits | None = None,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._scripts = Scripts(client, keys.prefix)
        self._lenses = lenses
        self._clock = clock
        self._durability = durability
        self._limits = limits or Limits()
        self._new_id = new_id
        self._gatherer = Gatherer(self._send)
        self._homes = lru_cache(KNOWN_HOMES)(self._find_homes)

    @property
    def durability(self) -> str:
        """`always`, `everysec` or `none`: when the queue syncs its file."""
        return self._durability.current

    async def capture(
        self, tenant: str, captures: Sequence[Capture]
    ) -> list[CaptureReceipt | GralkorError]:
        """Store turns, in order; return for each its receipt or why it was refused.

        A turn without an id gets one here, of its place and words if it has a place, so that a
        command which is repeated because its answer was lost is still one turn. Once a turn is
        refused for now, so are all later ones of its session.

        Raises:
            GralkorError: The queue may have taken none of them.
        """
        captures = [
            capture
            if capture.turn_id
            else capture.model_copy(update={"turn_id": place_turn_id(capture) or self._new_id()})
            for capture in captures
        ]
        answers: list[CaptureReceipt | GralkorError] = []
        for part in _parts([self._written(tenant, capture) for capture in captures]):
            rest = captures[len(answers) : len(answers) + len(part)]
            broken = next((one for one in reversed(answers) if _for_now(one)), None)
            if broken is not None:
                answers += [broken if isinstance(one, Written) else one for one in part]
                continue
            good = [one for one in part if isinstance(one, Written)]
            replies = iter(await self._gatherer.put(good) if good else ())
            answers += [
                self._answer(capture, next(replies)) if isinstance(one, Written) else one
                for capture, one in zip(rest, part, strict=True)
            ]
        return answers

    async def ingest(self, tenant: str, ingest: Ingest) -> IngestReceipt:
        """Store something as a whole: its turns and the flush that hands them over are one entry.

        Without an id it gets one here, unless it has a source.

        Raises:
            UnknownLens: It names a lens that is not there.
            QueueFull: Nothing new is taken for now.
            GralkorError: It is not acceptable, or the queue does not take it.
        """
        if ingest.id is None and ingest.source is None:
            ingest = ingest.model_copy(update={"id": self._new_id()})
        if ingest.lens is not None:
            self._lenses.lens(ingest.lens)  # its error names the field that was written
        # A megabyte of short lines takes seconds, in which others are served.
        whole = await asyncio.to_thread(read_ingest, ingest, "")
        first = whole.turns[0]
        through = self._lenses.captured(first.lenses, first.agent)
        head = self._head(tenant, first, ingest_names(tenant, whole, through), "ingest")
        written = Written(head, ingest.model_dump_json(exclude_none=True).encode())
        [reply] = await self._gatherer.put([written])
        answer = self._answer(first, reply)
        if isinstance(answer, GralkorError):
            raise answer
        return IngestReceipt(
            receipt=answer.receipt,
            session=first.session,
            turns=len(whole.turns),
            duplicate=answer.duplicate,
            durability=answer.durability,
        )

    async def flush(self, tenant: str, session: str, operator: str | None) -> str:
        """Ask for a flush of what the session has captured so far; return the flush's id.

        It is taken also when the queue is full: it helps to empty it.

        Raises:
            SessionConflict: The session is bound to another operator than *operator*.
            GralkorError: The queue does not take it.
        """
        verdict, value = await self._scripts.call(
            "flush",
            escape(tenant),
            session_name(tenant, session),
            operator or "",
            orjson.dumps({"session": session}),
        )
        if verdict == b"bound":
            raise SessionConflict(
                f"session {session!r} is bound to operator {value.decode()!r}, "
                f"the request names {operator!r}",
                field="operator",
            )
        return str(value.decode())

    async def _send(self, turns: Sequence[Written]) -> Sequence[Any]:
        heads = orjson.dumps([turn.head for turn in turns])
        limits = self._limits
        answers: Sequence[Any] = await self._scripts.call(
            "capture", limits.intake, limits.backlog, heads, *(turn.data for turn in turns)
        )
        return answers

    def _written(self, tenant: str, capture: Capture) -> Written | GralkorError:
        try:
            head = self._head(tenant, capture, [seen_name(tenant, capture)], "turn")
        except GralkorError as error:
            return error
        return Written(head, capture.model_dump_json(exclude_none=True).encode())

    def _head(
        self, tenant: str, capture: Capture, names: Sequence[tuple[str, str]], kind: str
    ) -> Sequence[Any]:
        homes = self._homes(tenant, capture.operator, capture.agent, tuple(capture.lenses))
        check_event_time(capture, self._clock.now())
        return (
            escape(tenant),
            session_name(tenant, capture.session),
            names,
            capture.operator,
            capture.agent,
            capture.session,
            homes,
            kind,
        )

    def _find_homes(
        self, tenant: str, operator: str, agent: str, lenses: Sequence[str]
    ) -> list[str]:
        return [home.id for home in self._lenses.targets(tenant, operator, lenses, agent).homes]

    def _answer(self, capture: Capture, reply: list[bytes]) -> CaptureReceipt | GralkorError:
        verdict, *rest = (part.decode(errors="replace") for part in reply)
        if verdict in {"ok", "seen"}:
            return CaptureReceipt(
                receipt=rest[0],
                turn_id=capture.turn_id or "",
                duplicate=verdict == "seen",
                durability=self.durability,
            )
        if verdict == "bound":
            operator, agent = rest
            return SessionConflict(
                f"session {capture.session!r} is bound to operator {operator!r} and agent "
                f"{agent!r}; the turn names operator {capture.operator!r} and agent "
                f"{capture.agent!r}",
                field="session",
                hint="use another session id, or the operator and agent that it began with",
            )
        if verdict == "full":
            return self._full(*rest)
        return explain(ResponseError(rest[0]))

    def _full(self, limit: str, detail: str) -> QueueFull:
        """Return the refusal that names the limit that was reached.

        Args:
            limit: ``closed``, ``memory``, ``intake`` or ``backlog``.
            detail: Why it is closed, or how much waits.
        """
        seconds = RETRY_AFTER[limit]
        if limit == "intake":
            return QueueFull(
                f"{detail} captures wait to be routed, the limit is {self._limits.intake}",
                limit=self._limits.intake,
                hint="send it again later; if it stays so, does a daemon route?",
                retry_after=seconds,
            )
        if limit == "backlog":
            return QueueFull(
                f"{detail} items wait for the operator's memory, the limit is "
                f"{self._limits.backlog}",
                limit=self._limits.backlog,
                hint="send it again later; if it stays so, do workers run, and does the model "
                "answer?",
                retry_after=seconds,
            )
        reason = detail if limit == "closed" else "the queue is at its memory limit"
        return QueueFull(
            f"{reason}; nothing new is taken until some of what waits is done",
            limit="memory",
            hint="send it again later; if it stays so, run more workers or give the queue more "
            "memory",
            retry_after=seconds,
        )


def _for_now(answer: CaptureReceipt | GralkorError) -> bool:
    return isinstance(answer, GralkorError) and answer.retry


def _parts(turns: Sequence[Written | GralkorError]) -> Iterator[list[Written | GralkorError]]:
    """Yield *turns* in parts that fit into one batch."""
    part: list[Written | GralkorError] = []
    size = 0
    for turn in turns:
        added = len(turn.data) if isinstance(turn, Written) else 0
        if part and (len(part) >= MOST_TURNS or size + added > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(turn)
        size += added
    if part:
        yield part
