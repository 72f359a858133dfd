"""A daemon of a few lines, and a real socket in front of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

import uvicorn

from gralkord.clock import to_iso
from gralkord.errors import DeadlineExpired, InvalidInput, NotFound, SessionConflict, UnknownLens
from gralkord.models import CaptureReceipt, FlushResult, Memory, RecallResult
from gralkord.models.jobs import Job, Stages
from gralkord.models.letters import DeadLetter, DeadPage, DeadResult

TOKEN = "test-token-0123456789"


class FakeServices:
    """Keeps turns in a list; recall finds what holds a word of the query."""

    def __init__(self):
        self.turns = []
        self.owners = {}
        self.fault = None
        self.faults = []
        self.calls = 0
        self.is_ready = True
        self.states = {}
        self.letters = {}

    async def _enter(self):
        self.calls += 1
        if fault := self.faults.pop(0) if self.faults else self.fault:
            raise fault

    async def capture(self, tenant, captures):
        await self._enter()
        return [self._take(tenant, one) for one in captures]

    def _take(self, tenant, one):
        owner = self.owners.setdefault((tenant, one.session), one.operator)
        if owner != one.operator:
            return SessionConflict(
                f"session {one.session!r} belongs to operator {owner!r}, not {one.operator!r}",
                field="operator",
            )
        if unknown := [lens for lens in one.lenses if lens != "default"]:
            return UnknownLens(f"no lens {unknown[0]!r}", field="lenses.0")
        if one.event_time and one.event_time.year > 2100:
            return InvalidInput("event_time: more than 1 day ahead", field="event_time")
        known = [turn.turn_id for _, turn in self.turns]
        duplicate = one.turn_id is not None and one.turn_id in known
        if not duplicate:
            self.turns.append((tenant, one))
        return CaptureReceipt(
            receipt=f"{len(self.turns)}-0",
            turn_id=one.turn_id or "made",
            duplicate=duplicate,
            durability="always",
        )

    async def flush(self, tenant, request):
        await self._enter()
        state = request.until if request.wait else "queued"
        return FlushResult(flush="f1", state=state, complete=request.wait, turns=len(self.turns))

    async def recall(self, tenant, request):
        await self._enter()
        if request.deadline_ms == 1:
            raise DeadlineExpired("the deadline of 1 ms passed")
        words = request.query.lower().split()
        found = [
            (turn, message)
            for owner, turn in self.turns
            if owner == tenant and turn.operator == request.operator
            for message in turn.turn
            if any(word in message.content.lower() for word in words)
        ][: request.max_results]
        results = [
            Memory(
                kind="passage",
                id=str(index),
                text=message.content,
                score=1 / (index + 1),
                lens="default",
                speaker=message.speaker or turn.user,
                event_time=turn.event_time and to_iso(turn.event_time),
                session=turn.session,
            )
            for index, (turn, message) in enumerate(found)
        ]
        return RecallResult(results=results, memory_block="", took_ms=0.5)

    async def status(self, tenant):
        await self._enter()
        return {"tenant": tenant, "turns": len(self.turns), "understand": {"waiting": 3}}

    async def backfill(self, tenant, operator):
        await self._enter()
        return {"items": 1, "passages": len(self.turns), "operator": operator}

    async def job(self, tenant, job):
        await self._enter()
        if job not in self.states:
            raise NotFound(f"no receipt {job!r}", hint="kept for 7 days")
        return self.states[job][0]

    async def watch_job(self, tenant, job, _seconds):
        """Say the states that are left; an error among them is raised, a text ends the stream."""
        await self.job(tenant, job)
        while states := self.states[job]:
            state = states.pop(0) if len(states) > 1 else states[0]
            if isinstance(state, Exception):
                raise state
            if isinstance(state, str):
                return
            yield state
            if state is not None and state.final:
                return
            await asyncio.sleep(0.01)

    async def dead_letters(self, tenant, query):
        await self._enter()
        found = [one for one in self.letters.values() if query.reason in {None, one.reason}]
        found = [one.model_copy(update={"body": None, "raw": None}) for one in found]
        more = len(found) > query.limit
        return DeadPage(letters=found[: query.limit], next=found[0].id if more else None)

    async def dead_letter(self, tenant, letter):
        await self._enter()
        if letter not in self.letters:
            raise NotFound(f"no dead letter {letter!r}", field="id")
        return self.letters[letter]

    async def retry_dead(self, tenant, selection):
        await self._enter()
        return self._take_letters(selection)

    async def drop_dead(self, tenant, selection):
        await self._enter()
        return self._take_letters(selection)

    def _take_letters(self, selection):
        wanted = [one.id for one in self.letters.values() if selection.reason in {None, one.reason}]
        ids = selection.ids or wanted
        left = {one: "not_found" for one in ids if self.letters.pop(one, None) is None}
        return DeadResult(done=len(ids) - len(left), left=left)

    async def ready(self):
        await self._enter()
        return {"ready": self.is_ready, "parts": {"queue": "up" if self.is_ready else "down"}}


@contextlib.contextmanager
def served(app, *, unix=None):
    """Serve *app* from a thread, on a free loopback port or on a Unix socket; yield its URL."""
    listener = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
    listener.bind(str(unix) if unix else ("127.0.0.1", 0))
    url = f"unix:{unix}" if unix else f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    started = threading.Event()

    async def run():
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
        started.set()
        await serving

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert started.wait(10)
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
        assert not thread.is_alive()


def turn(text="Ada likes tea", **changes):
    """Return a capture as JSON values."""
    return {
        "session": "s1",
        "operator": "ada",
        "agent": "helper",
        "user": "Ada",
        "turn": [{"role": "user", "content": text}],
    } | changes


def job(state="queued", **changes):
    """Return a job in that state."""
    stages = Stages(received="2026-05-01T09:30:00Z")
    fields = {"id": "7-0", "kind": "turn", "state": state, "stages": stages} | changes
    return Job.model_validate(fields)


def letter(number=1, **changes):
    """Return a dead letter of the understand lane."""
    fields = {
        "id": f"{number}-0",
        "lane": "understand",
        "group": "op__default__ada__default",
        "operator": "ada",
        "lens": "default",
        "item": "5.1",
        "turns": ["t1"],
        "reason": "poison",
        "detail": "it is bad",
        "attempts": 4,
        "at": "2026-05-01T09:30:00Z",
        "body": {"kind": "understand", "turns": ["t1"]},
    }
    return DeadLetter.model_validate(fields | changes)
