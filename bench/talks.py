"""Conversations of LoCoMo files in memory, and what the arms say of their passages."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from gralkord.client.import_locomo import locomo_turns
from gralkord.client.imports import RejectedTurn
from gralkord.clock import to_iso
from gralkord.errors import InvalidInput
from gralkord.evaluation.run import AGENT, read_conversations
from gralkord.graph.cache import GroupCache
from gralkord.graph.rows import PassageRow
from gralkord.graph.validity import view_at
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
    from gralkord.evaluation.locomo import Question
    from gralkord.evaluation.run import Conversation
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
        arms: What the arms say about each passage.
        share: Each passage's share of the evidence, shape (passages,); together 1.
    """

    question: Question
    query: Query
    vector: Numbers | None
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
    """Return the conversations in *files*.

    Raises:
        InvalidInput: A file is not of the format, a turn cannot be kept, a conversation has no
            question with evidence or is there twice.
    """
    conversations = read_conversations(files)
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
    if not conversation.questions:
        raise InvalidInput(f"{sample.id}: no question of categories 1 to 4 has evidence")
    # Named as an evaluation names it: the uuids follow, and they decide between equals.
    group = Group(DEFAULT_TENANT, f"{sample.id}-{number}")
    cache = GroupCache(group.id, 1, "")
    passages = await embedded(embedder, list(_passages(sample, group)))
    cache.passages.put_all((_row(passage), passage.vector) for passage in passages)
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
    values = asdict(passage)
    del values["vector"], values["content"]
    values["event_time"] = to_iso(passage.event_time)
    values["event_ms"] = int(passage.event_time.timestamp() * 1_000)
    return PassageRow(**values, created_ms=0, waiting=True, episode=None, invalid_at=None, seq=1)


def _case(
    question: Question,
    cache: GroupCache,
    offsets: Sequence[str | None],
    reader: QueryReader,
    embedder: LocalEmbedder,
) -> Case:
    query = reader.read(question.text, NOW)
    names = cache.passages.named(query.words)
    row = embedder.embed_now([reader.without(query, names)])[0]
    vector = row if row.any() else None
    arms = passage_arms(cache, query, vector, names, NOW_VIEW)
    evidence = np.array([float(offset in question.evidence) for offset in offsets])
    return Case(question, query, vector, arms, evidence / evidence.sum())
