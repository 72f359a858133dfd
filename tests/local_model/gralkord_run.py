"""A whole gralkord on a local model: what it is told, and what becomes of that."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from gralkord.client.client import AsyncClient
from gralkord.evaluation.stack import Stack

# Longer than the work takes on two slow cores; a lane that stands still is found by this.
DRAINED_SECONDS = 1_500.0
# The model repeats itself at times, and would go on until its context is full.
ANSWER_TOKENS = 300

SESSIONS = {
    ("ann", "ann-1"): [
        ("Ann", "I moved from Leeds to Bergen in April, into a yellow house in Sandviken."),
        ("Ann", "My brother Owen works at the boatyard in Whitby."),
    ],
    ("ann", "ann-2"): [
        ("Ann", "My cat is called Biscuit, and she is afraid of the ferry."),
        ("Owen", "I sold the Volvo and bought a cargo bike."),
    ],
    ("ben", "ben-1"): [("Ben", "I am allergic to hazelnuts. The spare key is in the shed.")],
}
QUESTIONS = [
    ("ann", "Where did Ann move to?", "Bergen"),
    ("ann", "Where does Owen work?", "boatyard"),
    ("ann", "What is the cat called?", "Biscuit"),
    ("ann", "What did Owen buy when he sold the Volvo?", "cargo bike"),
    ("ben", "What is Ben allergic to?", "hazelnuts"),
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the episodes.

    Attributes:
        understood: How many were written.
        facts: How many facts they have.
        entities: How many entities they have.
        repaired: How many answers were asked for again, because they did not fit.
        failed: How often an item failed, by reason.
        dead: How many items were given up, by reason.
        letters: The ids of their dead letters.
        seconds: From the first flush to the last verdict.
    """

    understood: int
    facts: int
    entities: int
    repaired: int
    failed: Counter
    dead: Counter
    letters: list[str]
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.understood} episodes understood ({self.entities} entities, {self.facts} facts),"
            f" {sum(self.dead.values())} given up {dict(self.dead)}, {self.repaired} answers asked"
            f" for again, items failed {dict(self.failed)}, {self.seconds:.0f} s"
        )


def write_settings(path: Path, spec: str, fields: dict, drop: list[str]) -> list[str]:
    """Write the settings for a slow model that answers one request at a time; return the flags."""
    options = {"fields": {"max_tokens": ANSWER_TOKENS} | fields, "drop": drop}
    lines = [
        "[models]",
        f"llm = {json.dumps(spec)}",
        "concurrency = 1",
        "timeout_seconds = 300",
        f"[models.options.{json.dumps(spec)}]",
        *(f"{name} = {_toml(value)}" for name, value in options.items()),
    ]
    path.write_text("\n".join(lines) + "\n")
    return ["--config", str(path)]


async def remember(client: AsyncClient, sessions=SESSIONS) -> None:
    """Capture the sessions, and have all of them understood at once."""
    for (operator, session), turns in sessions.items():
        for speaker, words in turns:
            message = {"role": "user", "content": words, "speaker": speaker}
            await client.capture(
                session, operator, agent="juno", user=operator.title(), turn=[message]
            )
    for operator, session in sessions:
        await client.flush(session, operator=operator)


async def until(client: AsyncClient, holds, seconds: float = DRAINED_SECONDS) -> dict:
    """Return the status when *holds* of it."""
    deadline = time.monotonic() + seconds
    while not holds(status := await client.status()):
        assert time.monotonic() < deadline, f"it did not happen: {json.dumps(status)}"
        await asyncio.sleep(0.5)
    return status


def drained(status: dict) -> bool:
    """Return whether no lane has anything left to do."""
    queue = status["queue"]
    lanes = (queue["intake"]["entries"], queue["index"]["items"], queue["understand"]["items"])
    return not any(lanes)


async def outcome(stack: Stack, client: AsyncClient, began: float) -> Outcome:
    """Return what became of everything, by the log of the worker and the dead letters."""
    events = [
        json.loads(line)
        for line in (stack.data_dir / "logs" / "worker.log").read_text().splitlines()
        if line.startswith("{")
    ]
    named = Counter(event["event"] for event in events)
    written = [event for event in events if event["event"] == "understood"]
    letters = (await client.dead_letters()).letters
    return Outcome(
        understood=len(written),
        facts=sum(event["facts"] for event in written),
        entities=sum(event["entities"] for event in written),
        repaired=named["model_answer_repaired"],
        failed=Counter(event["reason"] for event in events if event["event"] == "item_failed"),
        dead=Counter(letter.reason for letter in letters),
        letters=[letter.id for letter in letters],
        seconds=time.monotonic() - began,
    )


async def found(client: AsyncClient, questions=QUESTIONS) -> list[str]:
    """Return the questions whose answer is among the first five memories that are recalled."""
    right = []
    for operator, question, answer in questions:
        recalled = (await client.recall(operator, question, max_results=5)).results
        if any(answer in memory.text for memory in recalled):
            right.append(question)
    return right


def _toml(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_toml(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)
