"""Reads the graphs and the queue afterwards: what became of every acknowledged turn."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import redis.asyncio as redis

from chaos.processes import Stage
from chaos.producers import Session, by_operator
from gralkord.groups import DEFAULT_TENANT, Group
from gralkord.mailbox.keys import KEY_TABLE

_PASSAGES: Final = (
    "MATCH (p:Passage) RETURN p.uuid AS uuid, p.turn_id AS turn_id, p.session AS session, "
    "p.ordinal AS ordinal, p.part AS part, p.text AS text, p.episode AS episode, "
    "p.waiting AS waiting"
)
_PARTS: Final = (
    "MATCH (p:Passage)-[:PART_OF]->(e:Episodic) "
    "RETURN p.uuid AS uuid, p.turn_id AS turn_id, "
    "p.session AS session, p.ordinal AS ordinal, p.part AS part, e.done AS done, e.seq AS seq"
)
_EPISODES: Final = "MATCH (e:Episodic) RETURN e.content AS content"
_FACTS: Final = (
    "MATCH (a)-[f:RELATES_TO]->(b) RETURN f.fact AS fact, a.name AS source, b.name AS target"
)
_META: Final = "MATCH (m:Meta) RETURN m.passages AS passages, m.waiting AS waiting"

Row = dict[str, Any]


@dataclass(slots=True)
class Check:
    """One question, and what speaks against a good answer.

    Attributes:
        counts_as: Under which word of the last line its faults are counted; none: they only fail.
        faults: A text for each fault.
        looked_at: How many things were looked at.
    """

    name: str
    counts_as: str | None = None
    faults: list[str] = field(default_factory=list)
    looked_at: int = 0

    def expect(self, holds: object, fault: str) -> None:
        """Look at one thing."""
        self.looked_at += 1
        if not holds:
            self.faults.append(fault)

    def __str__(self) -> str:
        verdict = "ok" if not self.faults else f"FAILED {len(self.faults)}"
        shown = "".join(f"\n    {fault}" for fault in self.faults[:5])
        return f"{self.name:<58} {self.looked_at:>7}  {verdict}{shown}"


class Audit:
    """All checks of one run.

    Attributes:
        written: Acknowledged turns that have a passage.
    """

    def __init__(self, stage: Stage, sessions: Sequence[Session]) -> None:
        self.written = 0
        self._stage = stage
        self._sessions = sessions
        self._people = {person for session in sessions for person in session.facts}
        self._checks: dict[str, Check] = {}

    async def run(self) -> list[Check]:
        """Look at everything; return the checks."""
        graph = _client(self._stage, "graph")
        queue = _client(self._stage, "queue")
        async with graph, queue:
            groups = await graph.execute_command("GRAPH.LIST")
            expected = set()
            for operator, sessions in by_operator(self._sessions).items():
                group = Group(DEFAULT_TENANT, operator).id
                expected.add(group)
                await self._group(graph, group, sessions)
            check = self._check("no graph of anybody else", "foreign")
            for group in groups:
                check.expect(group in expected, group)
            await self._dead(queue)
            await self._queue_is_empty(queue)
            await self._keys_are_known(queue)
        return list(self._checks.values())

    async def _group(self, graph: Any, group: str, sessions: Sequence[Session]) -> None:
        passages = await _rows(graph, group, _PASSAGES)
        parts = await _rows(graph, group, _PARTS)
        self._once(group, sessions, passages)
        self._order(sessions, passages)
        self._understood(group, sessions, passages, parts)
        self._episodes(group, await _rows(graph, group, _EPISODES))
        self._facts(group, sessions, await _rows(graph, group, _FACTS))
        counted = self._check("each graph's own counters are right")
        right = {
            "passages": len(passages),
            "waiting": sum(bool(row["waiting"]) for row in passages),
        }
        for meta in await _rows(graph, group, _META):
            counted.expect(meta == right, f"{group}: {meta}, should be {right}")

    def _once(self, group: str, sessions: Sequence[Session], passages: list[Row]) -> None:
        there: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in passages:
            there[row["session"], row["turn_id"]].append(row)
        lost = self._check("every acknowledged turn is written, word by word", "lost")
        twice = self._check("no turn is written twice", "duplicated")
        for session in sessions:
            for turn, texts in session.turns.items():
                found = there.pop((session.name, turn), [])
                written = _texts(found)
                self.written += bool(found)
                short = sum(map(len, written)) < sum(map(len, texts))
                lost.expect(not short, f"{group}: {turn} has {len(written)} of {len(texts)} texts")
                twice.expect(short or written == texts, f"{group}: {turn} in {len(found)} passages")
        foreign = self._check("a graph holds turns of its own operator only", "foreign")
        foreign.looked_at += len(passages)
        foreign.faults += [f"{group}: {turn} of {session}" for session, turn in there]

    def _order(self, sessions: Sequence[Session], passages: list[Row]) -> None:
        check = self._check("turns stand in the order in which they were said", "reordered")
        places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row in passages:
            places[row["session"], row["turn_id"]].append(row["ordinal"])
        for session in sessions:
            there = [turn for turn in session.turns if (session.name, turn) in places]
            for before, after in itertools.pairwise(there):
                last, first = max(places[session.name, before]), min(places[session.name, after])
                check.expect(last < first, f"{after} does not stand after {before}")

    def _understood(
        self, group: str, sessions: Sequence[Session], passages: list[Row], parts: list[Row]
    ) -> None:
        once = self._check("every passage is part of a finished episode", "lost")
        twice = self._check("no passage is part of two episodes", "duplicated")
        times = Counter(row["uuid"] for row in parts if row["done"])
        for row in passages:
            done = times[row["uuid"]] and row["episode"] and not row["waiting"]
            once.expect(done, f"{group}: {row['turn_id']}, episode {row['episode']}")
            twice.expect(times[row["uuid"]] < 2, f"{group}: {row['turn_id']}")
        order = self._check("a session's episodes follow one another", "reordered")
        for session in sessions:
            mine = [row for row in parts if row["session"] == session.name]
            mine.sort(key=lambda row: (row["ordinal"], row["part"]))
            for before, after in itertools.pairwise(mine):
                fault = f"{after['turn_id']} was understood before {before['turn_id']}"
                order.expect(before["seq"] <= after["seq"], fault)

    def _episodes(self, group: str, episodes: list[Row]) -> None:
        check = self._check("no two episodes hold the same words", "duplicated")
        for content, times in Counter(row["content"] for row in episodes).items():
            check.expect(times < 2, f"{group}: {times} times {len(content)} characters")

    def _facts(self, group: str, sessions: Sequence[Session], facts: list[Row]) -> None:
        stated = {person for session in sessions for person in session.facts}
        there = Counter(word for row in facts for word in _words(row["fact"]) & self._people)
        named = {word for row in facts for word in _words(*row.values())} & self._people
        missing = self._check("every statement became a fact", "lost")
        twice = self._check("no statement became two facts", "duplicated")
        for person in sorted(stated):
            missing.expect(there[person], f"{group}: {person}")
            twice.expect(there[person] < 2, f"{group}: {person} {there[person]} times")
        foreign = self._check("no fact speaks of what others said", "foreign")
        for person in sorted(named):
            foreign.expect(person in stated, f"{group}: {person}")

    async def _dead(self, queue: Any) -> None:
        check = self._check("there are no dead letters", "dead")
        for _, fields in await queue.xrange("gk:dead"):
            told = {name: value for name, value in fields.items() if name != "item"}
            check.expect(holds=False, fault=str(told))

    async def _queue_is_empty(self, queue: Any) -> None:
        check = self._check("nothing is left in the queue")
        for what, number in (await waiting(queue)).items():
            check.expect(number == 0, f"{what}: {number}")

    async def _keys_are_known(self, queue: Any) -> None:
        check = self._check("the queue has no unknown keys")
        known = [_pattern(row.pattern) for row in KEY_TABLE]
        async for key in queue.scan_iter(count=1000):
            check.expect(any(pattern.fullmatch(key) for pattern in known), key)

    def _check(self, name: str, counts_as: str | None = None) -> Check:
        return self._checks.setdefault(name, Check(name, counts_as))


async def waiting(queue: Any) -> dict[str, int]:
    """Return how much is still under way in the queue, by kind of key."""
    found = {
        "intake": int(await queue.xlen("gk:intake:default")),
        "idle": int(await queue.zcard("gk:idle")),
    }
    for lane in ("index", "understand"):
        found[f"ready:{lane}"] = int(await queue.zcard(f"gk:ready:{lane}"))
        found[f"leased:{lane}"] = int(await queue.zcard(f"gk:leased:{lane}"))
        found[f"depth:{lane}"] = int(await queue.hget("gk:depth", lane) or 0)
    for kind in ("box", "run", "buffer", "open", "meta"):
        found[kind] = len([key async for key in queue.scan_iter(f"gk:{kind}:*", count=1000)])
    return found


async def takeovers(stage: Stage) -> tuple[int, float]:
    """Return how many leases were taken over from the dead or silent, and the worst delay in s."""
    async with _client(stage, "queue") as queue:
        raw: Any = await queue.hgetall("gk:counters")
    return int(raw.get("takeovers", 0)), int(raw.get("worst_takeover_ms", 0)) / 1000


async def until_drained(
    stage: Stage, seconds: float, tell: Callable[[str], None]
) -> dict[str, int]:
    """Wait until nothing is under way; return what still is after *seconds*."""
    clock = asyncio.get_running_loop().time
    give_up, told = clock() + seconds, clock()
    async with _client(stage, "queue") as queue:
        while True:
            left = {what: number for what, number in (await waiting(queue)).items() if number}
            if not left or clock() > give_up:
                return left
            if clock() - told > 5:
                told = clock()
                tell(f"under way: {left}")
            await asyncio.sleep(0.3)


async def _rows(graph: Any, group: str, query: str) -> list[Row]:
    names, rows, _ = await graph.execute_command("GRAPH.RO_QUERY", group, query)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _texts(passages: list[Row]) -> list[str]:
    """Return the messages that passages are the pieces of."""
    found: dict[int, str] = {}
    for row in sorted(passages, key=lambda row: (row["ordinal"], row["part"])):
        found[row["ordinal"]] = found.get(row["ordinal"], "") + row["text"]
    return list(found.values())


def _words(*texts: str) -> set[str]:
    return {word.strip(".") for text in texts for word in text.split()}


def _client(stage: Stage, server: str) -> Any:
    path = str(stage.sockets[server])
    return redis.Redis(unix_socket_path=path, decode_responses=True, socket_timeout=60)


def _pattern(text: str) -> re.Pattern[str]:
    escaped = re.sub(r"\\\{[^}]*\\\}", ".+", re.escape(text)).replace(r"\*", ".*")
    return re.compile("gk:" + escaped)
