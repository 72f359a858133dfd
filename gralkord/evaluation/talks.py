"""Conversations in memory, without a daemon, and what the arms say of their passages."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_OID, uuid5

import numpy as np
from numpy.typing import NDArray

from gralkord.client.import_locomo import locomo_turns
from gralkord.client.imports import RejectedTurn
from gralkord.clock import to_iso
from gralkord.errors import InvalidInput
from gralkord.evaluation.run import AGENT, read_conversations
from gralkord.evaluation.sets import Told
from gralkord.graph.cache import GroupCache
from gralkord.graph.rows import FactRow, PassageRow
from gralkord.graph.validity import View, view_at
from gralkord.graph.vectors import encode
from gralkord.groups import DEFAULT_TENANT, Group
from gralkord.providers.local import LocalEmbedder
from gralkord.recall.arms import passage_arms
from gralkord.recall.query import QueryReader
from gralkord.turns.index import embedded
from gralkord.turns.passages import passages_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from gralkord.client.import_locomo import Sample
    from gralkord.evaluation.question import Question
    from gralkord.evaluation.sets import Conversation
    from gralkord.graph.passages import Passage
    from gralkord.recall.arms import Numbers, PassageArms
    from gralkord.recall.query import Query

# The parts of a score that are divided by the most of them, and those that reach to 1 as they are.
GRADED: Final = ("turn", "one", "two", "session", "vector")
PARTS: Final = (*GRADED, "speaker", "asks", "tells_when", "period")

# When all questions are asked: "last week" is to mean the same in every run.
NOW: Final = datetime(2026, 3, 1, tzinfo=UTC)
NOW_VIEW: Final = view_at(NOW)

Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """A question that has evidence.

    Attributes:
        question: As the file has it.
        query: As recall reads it.
        vector: Its vector; None if it has none.
        view: From where memory is looked at.
        arms: What the arms say about each passage.
        share: Each passage's share of the evidence, shape (passages,); together 1, or 0 if no
            passage is evidence.
    """

    question: Question
    query: Query
    vector: Numbers | None
    view: View
    arms: PassageArms
    share: Matrix

    def parts(self) -> Matrix:
        """Return what `gralkord.recall.fusion` multiplies by weights, shape (passages, parts)."""
        table = np.zeros((len(self.share), len(PARTS)))
        for column, name in enumerate(PARTS):
            if (part := getattr(self.arms, name)) is not None:
                most = float(part.max(initial=0)) if name in GRADED else 1.0
                table[:, column] = part / (most or 1.0)
        return table


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation in memory, and its questions that have evidence."""

    name: str
    group: Group
    cache: GroupCache
    cases: tuple[Case, ...]


async def read_talks(files: Sequence[Path]) -> list[Talk]:
    """Return the conversations in LoCoMo *files*.

    Raises:
        InvalidInput: A file is not of the format, a turn cannot be kept, a conversation has no
            question with evidence or is there twice.
    """
    return await hold(read_conversations(files))


async def hold(conversations: Sequence[Conversation]) -> list[Talk]:
    """Return *conversations* as a daemon would hold them in memory.

    Raises:
        InvalidInput: A turn cannot be kept, a conversation has no question with evidence or is
            there twice.
    """
    for name, times in Counter(each.sample.id for each in conversations).items():
        if times > 1:
            raise InvalidInput(f"{name} is given {times} times")
    reader, embedder = QueryReader(), LocalEmbedder()
    return [
        await _talk(conversation, number, reader, embedder)
        for number, conversation in enumerate(conversations)
    ]


async def _talk(
    conversation: Conversation, number: int, reader: QueryReader, embedder: LocalEmbedder
) -> Talk:
    sample = conversation.sample
    if not any(question.evidence for question in conversation.asked):
        raise InvalidInput(f"{sample.id}: no answerable question has evidence")
    # Named as an evaluation names it: the uuids follow, and they decide between equals.
    group = Group(DEFAULT_TENANT, f"{sample.id}-{number}")
    cache = GroupCache(group.id, 1, "")
    passages = await embedded(embedder, list(_passages(sample, group)))
    cache.passages.put_all((_row(passage), passage.vector) for passage in passages)
    if conversation.told:
        vectors = encode(embedder.embed_now([told.text for told in conversation.told]))
        cache.facts.put_all(
            (_note(told, group, sample.id), vector)
            for told, vector in zip(conversation.told, vectors, strict=True)
        )
    offsets = [passage.offset for passage in passages]
    cases = (
        _case(question, cache, offsets, reader, embedder)
        for question in conversation.asked
        if question.evidence
    )
    return Talk(sample.id, group, cache, tuple(cases))


def _passages(sample: Sample, group: Group) -> Iterator[Passage]:
    ordinals: Counter[str] = Counter()
    for turn in locomo_turns(sample, operator=str(group.operator), agent=AGENT):
        if isinstance(turn, RejectedTurn):
            raise InvalidInput(f"{sample.id}: {turn.where}: {turn.reason}")
        body = turn.capture.model_dump(mode="json")
        messages, session = body["turn"], body["session"]
        yield from passages_of(
            group.id, body | {"messages": messages, "ordinal": ordinals[session]}
        )
        ordinals[session] += len(messages)


def _row(passage: Passage) -> PassageRow:
    """Return *passage* as a cache reads it from the graph."""
    values = {name: each for name, each in asdict(passage).items() if name in PassageRow._fields}
    values["event_time"] = to_iso(passage.event_time)
    values["event_ms"] = int(passage.event_time.timestamp() * 1_000)
    return PassageRow(**values, created_ms=0, waiting=True, episode=None, invalid_at=None, seq=1)


def _note(told: Told, group: Group, source: str) -> FactRow:
    """Return a memory as a cache reads it from the graph."""
    uuid = str(uuid5(NAMESPACE_OID, f"{group.id}/{told.id}"))
    return FactRow(
        uuid=uuid,
        name="MEMORY",
        fact=told.text,
        source_uuid=uuid,
        target_uuid=uuid,
        group_id=group.id,
        created_at=None,
        valid_at=told.time,
        invalid_at=None,
        expired_at=None,
        reference_time=told.time,
        episodes=(),
        attributes={"kind": told.kind},
        seq=1,
        source=source,
        offset=told.id,
        note_kind="memory",
    )


def _case(
    question: Question,
    cache: GroupCache,
    offsets: Sequence[str | None],
    reader: QueryReader,
    embedder: LocalEmbedder,
) -> Case:
    now = datetime.fromisoformat(question.as_of) if question.as_of else NOW
    query = reader.read(question.text, now)
    names = cache.passages.named(query.words)
    row = embedder.embed_now([reader.without(query, names)])[0]
    vector = row if row.any() else None
    view = view_at(NOW, now) if question.as_of else NOW_VIEW
    arms = passage_arms(cache, query, vector, names, view)
    evidence = np.array([float(offset in question.evidence) for offset in offsets])
    return Case(question, query, vector, view, arms, evidence / (evidence.sum() or 1.0))
