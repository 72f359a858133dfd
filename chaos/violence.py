"""What is done to the processes, and when: drawn from a seed before the run begins."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import redis.asyncio as redis
from redis.exceptions import RedisError

from chaos.processes import SERVERS, Process, Shape, Stage

# How long a deed waits for a victim that is down just then.
PATIENCE_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 0.5

# How often each kind comes, relative to the others.
KINDS: Final = {
    "kill worker": 4,
    "kill router": 3,
    "kill daemon": 1,
    "kill queue": 2,
    "kill graph": 2,
    "freeze worker": 4,
    "freeze daemon": 3,
    "cut worker": 3,
    "cut daemon": 2,
    "cut producers": 1,
    "silence worker": 3,
    "silence daemon": 2,
    "delete doorbells": 2,
}


@dataclass(frozen=True, slots=True)
class Act:
    """One deed.

    Attributes:
        at: Seconds from the start.
        kind: One of `KINDS`.
        victim: Which daemon; which worker, if none of them works.
        server: To which server the network is cut.
        seconds: How long a freeze or a cut lasts.
    """

    at: float
    kind: str
    victim: int
    server: str
    seconds: float


def plan(shape: Shape, seconds: float, every: float) -> list[Act]:
    """Return what happens within *seconds*: each kind once, the others by their weight.

    Args:
        shape: The seed, the number of processes and the leases.
        seconds: How long the violence lasts.
        every: Seconds from one deed to the next, on average.
    """
    dice = random.Random(shape.seed)  # noqa: S311 - it has to be repeatable
    first = list(KINDS)
    dice.shuffle(first)
    count = max(len(first), int(seconds / every))
    kinds = first + dice.choices(list(KINDS), list(KINDS.values()), k=count - len(first))
    moments = sorted(dice.uniform(0, seconds) for _ in kinds)
    return [_act(dice, shape, moment, kind) for moment, kind in zip(moments, kinds, strict=True)]


def _act(dice: random.Random, shape: Shape, moment: float, kind: str) -> Act:
    deed, _, whom = kind.partition(" ")
    leases = {"worker": shape.understand_seconds, "daemon": shape.index_seconds}
    lease = leases.get(whom, 1.0)
    # Three in four last longer than the lease, so that somebody else takes the work over.
    factor = dice.uniform(1.1, 1.8) if dice.random() < 0.75 else dice.uniform(0.1, 0.9)
    return Act(
        at=round(moment, 2),
        kind=kind,
        victim=dice.randrange(shape.daemons if whom == "daemon" else shape.workers),
        server=dice.choice(SERVERS),
        seconds=round(lease * factor, 2) if deed in {"freeze", "cut", "silence"} else 0.0,
    )


class Violence:
    """Carries a plan out.

    Attributes:
        done: How often each kind has hit somebody.
        missed: How often it found nobody in time.
    """

    def __init__(self, stage: Stage, acts: list[Act], tell: Callable[[str], None]) -> None:
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self._stage = stage
        self._acts = acts
        self._tell = tell

    async def run(self) -> None:
        """Do everything at its time; deeds that last overlap with those that follow."""
        clock = asyncio.get_running_loop().time
        began = clock()
        async with asyncio.TaskGroup() as lasting:
            for act in self._acts:
                await asyncio.sleep(max(0.0, began + act.at - clock()))
                lasting.create_task(self._perform(act))
        self._stage.heal()

    async def _perform(self, act: Act) -> None:
        """Do it as soon as there is somebody whom it hits, within some seconds."""
        if act.kind.endswith("worker"):
            act = replace(act, victim=await self._busiest(act.victim))
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (hit := await self._hit(act)):  # noqa: ASYNC110 - others do it
                    await asyncio.sleep(0.05)
            self.done[act.kind] += 1
            lasts = f" for {act.seconds:.1f} s" if act.seconds else ""
            self._tell(f"{act.kind}: {hit}{lasts}")
            await self._undo(act, hit)
            return
        self.missed[act.kind] += 1

    async def _hit(self, act: Act) -> str:
        """Begin a deed; return whom it has hit, nothing if there was nobody."""
        deed, _, whom = act.kind.partition(" ")
        if whom == "doorbells":
            return await self._delete_doorbells()
        if deed in {"cut", "silence"}:
            name, server = self._network(act)
            proxy = self._stage.proxies[name, server]
            if not proxy.connections:
                return ""
            (proxy.cut if deed == "cut" else proxy.silence)()
            return f"{name} to {server}"
        victim = await self._victim(whom, act.victim)
        pid = victim and victim.signal(signal.SIGKILL if deed == "kill" else signal.SIGSTOP)
        return f"{victim.name} {pid}" if victim and pid else ""

    async def _undo(self, act: Act, hit: str) -> None:
        """Undo a deed that lasts, after its time."""
        await asyncio.sleep(act.seconds)
        if act.kind.startswith("freeze"):
            name, _, pid = hit.partition(" ")
            for process in self._stage.processes:
                if process.name == name:
                    process.signal(signal.SIGCONT, int(pid))
        elif act.seconds:
            self._stage.proxies[self._network(act)].heal()

    def _network(self, act: Act) -> tuple[str, str]:
        whom = act.kind.partition(" ")[2]
        return (whom, "queue") if whom == "producers" else (f"{whom}{act.victim}", act.server)

    async def _victim(self, whom: str, number: int) -> Process | None:
        stage = self._stage
        if whom in stage.servers:
            return stage.servers[whom]
        if whom == "router":
            return await self._router()
        return (stage.workers if whom == "worker" else stage.daemons)[number]

    async def _busiest(self, otherwise: int) -> int:
        """Return the worker that works most just now: harm to an idle one shows little."""
        proxies = [self._stage.proxies[each.name, "graph"] for each in self._stage.workers]
        before = [proxy.carried for proxy in proxies]
        await asyncio.sleep(LOOK_SECONDS)
        busy = [proxy.carried - had for proxy, had in zip(proxies, before, strict=True)]
        return busy.index(max(busy)) if any(busy) else otherwise

    async def _router(self) -> Process | None:
        """Return the daemon that routes now."""
        try:
            async with self._queue() as client:
                owner = await client.hget("gk:router", "owner")
        except (RedisError, OSError):
            return None
        pid = owner.split(":")[1] if owner else ""
        return next((each for each in self._stage.daemons if str(each.pid) == pid), None)

    async def _delete_doorbells(self) -> str:
        try:
            async with self._queue() as client:
                keys = [key async for key in client.scan_iter("gk:dramatiq:understand*")]
                keys += [key async for key in client.scan_iter("gk:bell:*")]
                count = await client.delete(*keys) if keys else 0
        except (RedisError, OSError):
            return ""
        return f"{count} keys" if count else ""

    def _queue(self) -> Any:
        path = str(self._stage.sockets["queue"])
        return redis.Redis(unix_socket_path=path, decode_responses=True, socket_timeout=2)
