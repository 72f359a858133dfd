"""Those who speak: sessions that send turn after turn, each until it is acknowledged."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import redis.asyncio as redis
from redis.exceptions import RedisError

from chaos.processes import Stage
from gralkord.client.client import AsyncClient
from gralkord.client.stream_async import AsyncStreamProducer
from gralkord.client.transport import Retry
from gralkord.errors import GralkorError
from gralkord.models import FlushResult

AGENT: Final = "chaos"
# How long a client waits for an answer: less than a freeze lasts, so that answers get lost.
ANSWER_SECONDS: Final = 4.0
PAUSE_SECONDS: Final = 0.3
FLUSH_SECONDS: Final = 15.0
FLUSHES_AT_ONCE: Final = 32
# How a session speaks: through the daemons, through the client's own way to the stream, by XADD.
VOICES: Final = ("http", "http", "stream", "xadd", "http")
LATEST_START: Final = 0.4
RESEND_CHANCE: Final = 0.02
FLUSH_CHANCE: Final = 0.005
AWAIT_CHANCE: Final = 0.005
# One turn in so many states something; each fact costs the model a call or two.
FACT_EVERY: Final = 4
ANSWER_EVERY: Final = 3
LONG_EVERY: Final = 15
CONSONANTS: Final = "bdfghjklmnprstvz"
VOWELS: Final = "aeiou"
INTAKE: Final = "gk:intake:default"


@dataclass(slots=True)
class Session:
    """One conversation.

    Attributes:
        operator: Whose it is.
        voice: How it speaks, one of `VOICES`.
        turns: The texts of each turn that was acknowledged, by its id, in their order.
        receipts: Receipt of each of them.
        facts: What those turns state.
    """

    name: str
    operator: str
    voice: str
    turns: dict[str, list[str]] = field(default_factory=dict)
    receipts: dict[str, str] = field(default_factory=dict)
    facts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Heard:
    """What producers were told besides receipts."""

    failures: Counter[str] = field(default_factory=Counter)
    resent: int = 0
    flushes: int = 0
    awaited: int = 0
    complete: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    late: list[float] = field(default_factory=list)


class Producers:
    """All sessions.

    Attributes:
        sessions: What they said.
        heard: What they were told.
    """

    def __init__(self, stage: Stage, seed: int, operators: int, sessions: int) -> None:
        self.sessions = [
            Session(
                name=f"session{number}",
                operator=f"operator{number % operators}",
                voice=VOICES[number // operators % len(VOICES)],
            )
            for number in range(sessions)
        ]
        self.heard = Heard()
        self._stage = stage
        self._seed = seed
        token = stage.token.read_text()
        self._clients = [
            AsyncClient(url, token, timeout=ANSWER_SECONDS, retry=Retry(retries=1))
            for url in stage.urls
        ]
        socket = stage.proxies["producers", "queue"].socket
        self._stream = AsyncStreamProducer(socket=socket, retry=Retry(retries=1))
        self._queue: Any = redis.Redis(
            unix_socket_path=str(socket),
            socket_timeout=ANSWER_SECONDS,
            decode_responses=True,
        )

    @property
    def acknowledged(self) -> int:
        """How many turns were acknowledged."""
        return sum(len(session.turns) for session in self.sessions)

    async def until_ready(self) -> None:
        """Wait until every daemon takes captures and every worker has looked for work."""
        workers = [self._stage.proxies[each.name, "graph"] for each in self._stage.workers]
        for worker in workers:
            await worker.used.wait()
        await asyncio.gather(*map(_until_ready, self._clients))

    async def run(self, turns: int, seconds: float) -> None:
        """Have the sessions say *turns* turns together within *seconds*, or as soon as it goes."""
        share, more = divmod(turns, len(self.sessions))
        async with asyncio.TaskGroup() as talks:
            for number, session in enumerate(self.sessions):
                count = share + (number < more)
                talks.create_task(self._talk(session, number, count, seconds))

    async def flush_all(self, wait: float | None = None) -> list[str]:
        """Flush every session; return those that were not understood after *wait* seconds."""
        room = asyncio.Semaphore(FLUSHES_AT_ONCE)

        async def flush(number: int, session: Session) -> str | None:
            async with room:
                result = await self._flush(session, number, wait)
            return None if result.state == "understood" else f"{session.name}: {result}"

        answers = await asyncio.gather(*(flush(*each) for each in enumerate(self.sessions)))
        return [answer for answer in answers if answer]

    async def receipts(self, most: int) -> AsyncIterator[tuple[str, bool]]:
        """Ask by receipt what became of *most* turns; give each answer, and if it is right."""
        dice = random.Random(self._seed)  # noqa: S311
        said = [(session, turn) for session in self.sessions for turn in session.turns]
        for session, turn in dice.sample(said, min(most, len(said))):
            try:
                job = await dice.choice(self._clients).job(session.receipts[turn])
            except GralkorError as error:
                yield f"{turn}: {error.message}", False
                continue
            whose = (job.operator, job.session, job.turn_id)
            same = whose == (session.operator, session.name, turn)
            yield f"{turn}: {job.state} {job.reason} {whose}", same and job.state == "understood"

    async def recalls(self, most: int) -> AsyncIterator[tuple[str, bool]]:
        """Ask about *most* statements; for each who is meant, and whether it is recalled."""
        dice = random.Random(self._seed)  # noqa: S311
        said = [(session, fact) for session in self.sessions for fact in sorted(session.facts)]
        for session, fact in dice.sample(said, min(most, len(said))):
            client = dice.choice(self._clients)
            try:
                asked = f"Where does {fact} work?"
                found = await client.recall(session.operator, asked, interpret="off")
            except GralkorError as error:
                yield f"{fact}: {error.message}", False
                continue
            yield f"{session.operator}: {fact}", any(fact in each.text for each in found.results)

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients:
            await client.close()
        await self._stream.close()
        await self._queue.aclose()

    async def _talk(self, session: Session, number: int, count: int, seconds: float) -> None:
        dice = random.Random(f"{self._seed}:{session.name}")  # noqa: S311
        clock = asyncio.get_running_loop().time
        # Not all at once, or all would be full of turns at the same time, and idle in between.
        late = seconds * dice.uniform(0, LATEST_START)
        began, seconds = clock() + late, seconds - late
        for turn in range(count):
            moment = (turn + dice.random()) * seconds / count
            await asyncio.sleep(max(0.0, began + moment - clock()))
            turn_id = f"{session.name}.{turn}"
            texts = _texts(session, number, turn)
            session.receipts[turn_id] = await self._say(session, turn_id, texts, dice)
            session.turns[turn_id] = texts
            if dice.random() < RESEND_CHANCE:
                self.heard.resent += 1
                await self._say(session, turn_id, texts, dice)
            chance = dice.random()
            if chance < AWAIT_CHANCE:
                await self._await(session, number)
            elif chance < AWAIT_CHANCE + FLUSH_CHANCE:
                self.heard.flushes += 1
                await self._flush(session, number, wait=None)

    async def _say(
        self, session: Session, turn_id: str, texts: Sequence[str], dice: random.Random
    ) -> str:
        """Send a turn until it is acknowledged; return its receipt."""
        body = {
            "session": session.name,
            "operator": session.operator,
            "agent": AGENT,
            "user": "Ann",
            "turn_id": turn_id,
            "turn": [
                {"role": role, "content": text}
                for role, text in zip(("user", "assistant"), texts, strict=False)
            ],
        }
        while True:
            try:
                if session.voice == "xadd":
                    entry = {"kind": "turn", "data": orjson.dumps(body)}
                    return str(await self._queue.xadd(INTAKE, entry))
                way = self._stream if session.voice == "stream" else dice.choice(self._clients)
                (outcome,) = await way.capture_many([body])
                if not isinstance(outcome, GralkorError):
                    return outcome.receipt
                self._note(outcome)
            except (RedisError, OSError, GralkorError) as error:
                self._note(error)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _await(self, session: Session, number: int) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        result = await self._flush(session, number, wait=FLUSH_SECONDS)
        self.heard.awaited += 1
        self.heard.complete += result.complete
        self.heard.reasons[result.reason or result.state] += 1
        self.heard.late.append(clock() - began)

    async def _flush(self, session: Session, number: int, wait: float | None) -> FlushResult:
        """Flush until it is answered, by one daemon or the other."""
        turn = number
        while True:
            client = self._clients[turn % len(self._clients)]
            turn += 1
            try:
                if wait is None:
                    return await client.flush(session.name, operator=session.operator)
                return await client.flush_and_await(session.name, wait, operator=session.operator)
            except GralkorError as error:
                self._note(error)
            await asyncio.sleep(PAUSE_SECONDS)

    def _note(self, error: Exception) -> None:
        """Count a failure.

        Raises:
            GralkorError: It is one that does not pass.
        """
        if isinstance(error, GralkorError):
            if not error.retry:
                raise error
            self.heard.failures[error.code] += 1
        else:
            self.heard.failures[type(error).__name__] += 1


def _texts(session: Session, number: int, turn: int) -> list[str]:
    """Return what is said in one turn: a statement, or talk, now and then long or answered."""
    if turn % FACT_EVERY == 0:
        person = _name(f"person {number} {turn}")
        session.facts.add(person)
        return [f"{person} works at {_name(f'company {number} {turn}')}."]
    texts = [f"And so on, said the {turn}th time by voice {number}."]
    if turn % ANSWER_EVERY == 0:
        texts.append(f"Indeed, answer {turn} to voice {number}.")
    if turn % LONG_EVERY == 0:  # it becomes several passages
        texts[0] += " And on." * 600
    return texts


async def _until_ready(client: AsyncClient) -> None:
    while True:
        try:
            if (await client.ready())["ready"]:
                return
        except GralkorError as error:
            if not error.retry:
                raise
        await asyncio.sleep(0.1)


def _name(what: str) -> str:
    """Return a made-up name, always the same; no two resemble one another, or they would be one."""
    digits = hashlib.sha256(what.encode()).digest()
    return "".join(CONSONANTS[each % 16] + VOWELS[each // 16 % 5] for each in digits[:6]).title()


def by_operator(sessions: Sequence[Session]) -> dict[str, list[Session]]:
    """Return the sessions of each operator."""
    found: dict[str, list[Session]] = {}
    for session in sessions:
        found.setdefault(session.operator, []).append(session)
    return found
