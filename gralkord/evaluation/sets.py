"""Sets of one's own: what was said or told, and questions whose answers are known.

A set is a JSON object, see `EvaluationSet`. It is imported as a LoCoMo conversation is, and asked
and scored by the same code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
from pydantic import Field

from gralkord.client.import_locomo import DialogueTurn, Sample, Session
from gralkord.clock import to_iso
from gralkord.errors import InvalidInput
from gralkord.evaluation.question import Question
from gralkord.models.base import Identifier, Moment, Text, Wire
from gralkord.models.records import Content, RecordKind
from gralkord.wire import json_fault, read_model

FIXTURES: Final = Path(__file__).with_name("fixtures.json")
# Who tells a memory where it is told as a turn.
TELLER: Final = "Operator"


class SetTurn(Wire):
    """What somebody says."""

    id: Identifier
    speaker: Identifier
    text: Text


class SetSession(Wire):
    """Turns that follow each other, a second apart."""

    name: Identifier
    time: Moment
    turns: list[SetTurn] = Field(min_length=1)


class SetMemory(Wire):
    """What is told outright."""

    id: Identifier
    text: Content
    time: Moment
    kind: RecordKind = "semantic"


class SetQuestion(Wire):
    """A question. One without evidence has no answer: the right one is nothing."""

    id: Identifier
    question: Text
    category: Identifier
    evidence: list[Identifier] = Field(default_factory=list)
    distractors: list[Identifier] = Field(default_factory=list)
    whole: bool = Field(False, description="Nothing but all of the evidence answers it.")
    as_of: Moment | None = Field(None, description="The moment that it is asked about.")


class EvaluationSet(Wire):
    """What to import, and what to ask."""

    name: Identifier
    sessions: list[SetSession] = Field(default_factory=list)
    memories: list[SetMemory] = Field(default_factory=list)
    questions: list[SetQuestion] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Told:
    """A memory to add."""

    id: str
    text: str
    time: str
    kind: RecordKind


@dataclass(frozen=True, slots=True)
class Conversation:
    """What to import, and the questions about it.

    Attributes:
        sample: The turns.
        asked: The questions.
        told: Memories that are added besides.
    """

    sample: Sample
    asked: tuple[Question, ...]
    told: tuple[Told, ...] = ()

    @property
    def turns(self) -> int:
        """How many turns and memories will be imported."""
        return self.sample.turns + len(self.told)

    @property
    def questions(self) -> int:
        """How many questions will be asked."""
        return sum(question.asked for question in self.asked)


def read_set(path: Path, *, as_turns: bool = False) -> Conversation:
    """Return the set in the file at *path*.

    Args:
        path: A JSON object.
        as_turns: Whether its memories are to be said, each in a session of its own, not told.

    Raises:
        InvalidInput: It cannot be read, is not JSON, has not the shape, or a question names what is
            not there; the message says which.
    """
    try:
        body = path.read_bytes()
        content = orjson.loads(body)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", field="file") from error
    except orjson.JSONDecodeError as error:
        raise InvalidInput(
            f"{path} is not JSON: {json_fault(body, error)}", field="file"
        ) from error
    try:
        return conversation_of(read_model(EvaluationSet, content), as_turns=as_turns)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.message}", field="file") from error


def conversation_of(whole: EvaluationSet, *, as_turns: bool = False) -> Conversation:
    """Return what is to be imported and asked of a set.

    Args:
        whole: The set.
        as_turns: Whether its memories are to be said, each in a session of its own, not told.

    Raises:
        InvalidInput: An id is there twice, or a question names what is not there.
    """
    _check(whole)
    sessions = list(whole.sessions)
    if as_turns:
        sessions += [
            SetSession(
                name=f"told-{memory.id}",
                time=memory.time,
                turns=[SetTurn(id=memory.id, speaker=TELLER, text=memory.text)],
            )
            for memory in whole.memories
        ]
    said = tuple(_session(each) for each in sessions)
    speakers = {turn.speaker: None for session in said for turn in session.turns}
    told = () if as_turns else whole.memories
    return Conversation(
        Sample(whole.name, tuple(speakers) or (TELLER,), said, ()),
        tuple(_question(whole.name, each) for each in whole.questions),
        tuple(Told(each.id, each.text, to_iso(each.time), each.kind) for each in told),
    )


def _check(whole: EvaluationSet) -> None:
    turns = [turn.id for session in whole.sessions for turn in session.turns]
    known = Counter([*turns, *(memory.id for memory in whole.memories)])
    for what, names in (
        ("turns and memories", known),
        ("sessions", Counter(session.name for session in whole.sessions)),
        ("questions", Counter(question.id for question in whole.questions)),
    ):
        if twice := [name for name, times in names.items() if times > 1]:
            raise InvalidInput(f"{what}: id {twice[0]!r} is there twice", field=what)
    for question in whole.questions:
        for name in (*question.evidence, *question.distractors):
            if name not in known:
                raise InvalidInput(
                    f"questions: {question.id!r} names {name!r}, which is not there",
                    field="questions",
                )


def _session(session: SetSession) -> Session:
    return Session(
        session.name,
        session.time,
        tuple(
            DialogueTurn(f"{session.name}[{at}]", turn.speaker, turn.id, turn.text)
            for at, turn in enumerate(session.turns)
        ),
    )


def _question(name: str, each: SetQuestion) -> Question:
    return Question(
        each.question,
        each.category,
        frozenset(each.evidence),
        f"{name}/{each.id}",
        frozenset(each.distractors),
        whole=each.whole,
        answerable=bool(each.evidence),
        as_of=to_iso(each.as_of) if each.as_of else None,
    )
