"""The whole path in one minute: capture, understand, restart, and find again what changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gralkord.client.client import AsyncClient
from gralkord.demo.sample import OPERATOR, QUESTIONS, DemoQuestion, load_sample
from gralkord.errors import GralkorError
from gralkord.evaluation.stack import Stack
from gralkord.graph.passages import passage_uuid
from gralkord.groups import DEFAULT_LENS, DEFAULT_TENANT, Group
from gralkord.testing.model_server import ScriptedModelServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gralkord.models import Capture, Memory

WANTED_RANK: Final = 5
ASKED_RESULTS: Final = 10
UNDERSTAND_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that the demo did, and how long it took in seconds."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Found:
    """What a question brought.

    Attributes:
        question: Its text.
        memory: The best memory that answers it; where none was found, the best there is.
        when: When that was said or became so, ISO 8601.
        rank: The place of the first memory that answers it, counted from 1; none: not found.
        milliseconds: How long the recall took, as its caller saw it.
    """

    question: str
    memory: str
    when: str | None
    rank: int | None
    milliseconds: float

    @property
    def ok(self) -> bool:
        """Whether an agent that reads the first five memories can answer."""
        return self.rank is not None and self.rank <= WANTED_RANK


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo did and found."""

    steps: Sequence[Step]
    found: Sequence[Found]

    @property
    def ok(self) -> bool:
        """Whether every question was answered."""
        return all(one.ok for one in self.found)

    def to_dict(self) -> dict[str, Any]:
        """Return the machine form."""
        return {
            "ok": self.ok,
            "steps": [asdict(step) | {"seconds": round(step.seconds, 3)} for step in self.steps],
            "questions": [
                asdict(one) | {"milliseconds": round(one.milliseconds, 2), "ok": one.ok}
                for one in self.found
            ],
        }


class Demo:
    """Runs the sample through a gralkord of its own.

    Args:
        data_dir: An empty directory for it.
        on_step: Told each step when it is done.
    """

    def __init__(self, data_dir: Path, on_step: Callable[[Step], None] = lambda _: None) -> None:
        self._data_dir = data_dir
        self._on_step = on_step
        self._steps: list[Step] = []
        self._since = 0.0

    async def run(self) -> DemoResult:
        """Capture, understand, restart, ask; return what was found.

        Raises:
            GralkorError: A part does not work.
        """
        self._since = time.monotonic()
        with ScriptedModelServer() as model:
            self._done("started a scripted model, so that no key is needed")
            stack = Stack(self._data_dir, ["--model", model.spec])
            async with stack:
                self._done("started the queue, the graph, the daemon and a worker")
                await self._remember(stack)
            self._done("stopped everything")
            async with stack:
                self._done("started everything again, on the same files")
                found = [one async for one in self._ask(stack)]
                self._done(f"asked {len(found)} questions")
            self._done("stopped everything")
        return DemoResult(self._steps, found)

    async def _remember(self, stack: Stack) -> None:
        captures = load_sample()
        sessions = list(dict.fromkeys(capture.session for capture in captures))
        async with _client(stack) as client:
            outcomes = await client.capture_many(captures)
            refused = [error for error in outcomes if isinstance(error, GralkorError)]
            if refused:
                raise refused[0]
            self._done(f"captured {len(captures)} turns of {len(sessions)} sessions")
            for session in sessions:
                flush = await client.flush_and_await(
                    session, UNDERSTAND_SECONDS, "understood", operator=OPERATOR
                )
                if not flush.complete or flush.state != "understood":
                    raise GralkorError(f"session {session!r} was not understood: {flush.reason}")
        self._done("understood them: facts stand beside the words now")

    async def _ask(self, stack: Stack) -> AsyncIterator[Found]:
        captures = {capture.turn_id: capture for capture in load_sample()}
        async with _client(stack) as client:
            for question in QUESTIONS:
                began = time.perf_counter()
                answer = await client.recall(
                    OPERATOR, question.text, max_results=ASKED_RESULTS, interpret="off"
                )
                took = (time.perf_counter() - began) * 1_000
                yield judge(question, captures[question.turn_id], answer.results, took)

    def _done(self, what: str) -> None:
        now = time.monotonic()
        step = Step(what, now - self._since)
        self._since = now
        self._steps.append(step)
        self._on_step(step)


def judge(
    question: DemoQuestion, expected: Capture, results: Sequence[Memory], milliseconds: float
) -> Found:
    """Return at which rank *results* first hold the answer: from the *expected* turn, in words.

    A fact counts as well as the passage that it was taken from, if it says what was asked.
    """
    passages = set(_passages_of(expected))

    def answers(memory: Memory) -> bool:
        taken = memory.turn_id == expected.turn_id or passages & {memory.id, *memory.passages}
        return bool(taken) and question.answer.casefold() in memory.text.casefold()

    rank = next((place for place, one in enumerate(results, start=1) if answers(one)), None)
    best = results[rank - 1] if rank else next(iter(results), None)
    return Found(
        question=question.text,
        memory=_said(best) if best else "nothing",
        when=(best.event_time or best.valid_at) if best else None,
        rank=rank,
        milliseconds=milliseconds,
    )


def _passages_of(capture: Capture) -> list[str]:
    group = Group(DEFAULT_TENANT, capture.operator, DEFAULT_LENS).id
    return [
        passage_uuid(group, capture.turn_id or "", index, 0) for index in range(len(capture.turn))
    ]


def _said(memory: Memory) -> str:
    return f"{memory.speaker}: {memory.text}" if memory.speaker else memory.text


def _client(stack: Stack) -> AsyncClient:
    endpoint = stack.endpoint
    return AsyncClient(endpoint.url, endpoint.token)
