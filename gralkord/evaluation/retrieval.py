"""Ask questions, and score which share of the evidence of each is among what recall returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

from gralkord.errors import InvalidInput
from gralkord.evaluation.question import Question
from gralkord.models import Memory, RecallResult
from gralkord.models.recall import InterpretMode

RANKS: Final = (5, 10, 20, 50)
TOKEN_BUDGETS: Final = (500, 1_000, 2_000)
MAX_RESULTS: Final = max(RANKS)
CHARACTERS_A_TOKEN: Final = 4
# Where what is wrong with an answer is counted, not only what is missing.
MEASURED: Final = (1, 3, 5, 10)
# Below which score of a result it could be left out; how that would do is told.
THRESHOLDS: Final = (0.05, 0.1, 0.2, 0.3, 0.5)
THRESHOLD_RANK: Final = 10


class RecallClient(Protocol):
    """What an evaluation needs of a client."""

    async def recall(
        self,
        operator: str,
        query: str,
        *,
        max_results: int = 10,
        as_of: str | None = None,
        interpret: InterpretMode | None = None,
    ) -> RecallResult:
        """Return what *operator*'s memory holds that helps with *query*."""
        ...


@dataclass(frozen=True, slots=True)
class Within:
    """What is among the first results.

    Attributes:
        results: How many there are; fewer than asked for if no more were found.
        relevant: How many of them are evidence.
        evidence: How many pieces of evidence they hold.
        distractors: How many distractors they hold.
        repeats: How many say what a better one says in the same words.
    """

    results: int
    relevant: int
    evidence: int
    distractors: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Score:
    """The result of one question.

    Attributes:
        question: The question.
        at: Number of results to share of the evidence among them, 0 to 1; none without evidence.
        tokens: Token budget to share of the evidence in the results that fit into it, likewise.
        milliseconds: How long the recall took, as its caller saw it.
        within: What is among so many of the first results.
        first: The place of the first piece of evidence, from 1; None if it was not found.
        misled: Whether a distractor stands before the first piece of evidence.
        best: The highest score of a result; 0 if there is none.
        above: Score to share of the evidence among the first ten results that have at least it.
    """

    question: Question
    at: Mapping[int, float]
    tokens: Mapping[int, float]
    milliseconds: float
    within: Mapping[int, Within] = field(default_factory=dict)
    first: int | None = None
    misled: bool = False
    best: float = 0.0
    above: Mapping[float, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the machine form, by which runs are compared."""
        asked = self.question
        return {
            "id": asked.id,
            "question": asked.text,
            "category": asked.category,
            "answerable": asked.answerable,
            "evidence": sorted(asked.evidence),
            "at": _named(self.at),
            "tokens": _named(self.tokens),
            "first": self.first,
            "misled": self.misled,
            "best": round(self.best, 4),
            "within": {str(rank): asdict(part) for rank, part in self.within.items()},
            "milliseconds": round(self.milliseconds, 2),
        }


def score(question: Question, results: Sequence[Memory], milliseconds: float) -> Score:
    """Return how much of *question*'s evidence is among *results*, best first.

    A result is the evidence that its ``offset`` names. It counts for a token budget if it lies
    wholly within the budget's first tokens; its tokens are a quarter of the characters of its text
    and its speaker.

    Raises:
        InvalidInput: The question is answerable and has no evidence.
    """
    if not question.asked:
        raise InvalidInput("the question has no evidence", field="evidence")
    best = max((result.score for result in results), default=0.0)
    within = {rank: _within(question, results[:rank]) for rank in MEASURED}
    if not question.evidence:
        return Score(question, {}, {}, milliseconds, within=within, best=best)
    reached = [0]  # characters up to and including each result
    for result in results:
        reached.append(reached[-1] + len(returned_text(result)))

    def share(some: Iterable[Memory]) -> float:
        found = {result.offset for result in some}
        return len(question.evidence & found) / len(question.evidence)

    def fitting(budget: int) -> int:
        return sum(end <= budget * CHARACTERS_A_TOKEN for end in reached[1:])

    shown = results[:THRESHOLD_RANK]
    first = _place(results, question.evidence)
    misleading = _place(results, question.distractors)
    return Score(
        question,
        at={rank: share(results[:rank]) for rank in RANKS},
        tokens={budget: share(results[: fitting(budget)]) for budget in TOKEN_BUDGETS},
        milliseconds=milliseconds,
        within=within,
        first=first,
        misled=misleading is not None and (first is None or misleading < first),
        best=best,
        above={
            least: share(result for result in shown if result.score >= least)
            for least in THRESHOLDS
        },
    )


def returned_text(result: Memory) -> str:
    """Return what an agent reads of *result*: its speaker and its text."""
    return f"{result.speaker}: {result.text}" if result.speaker else result.text


async def ask(
    client: RecallClient,
    operator: str,
    questions: Iterable[Question],
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[Score]:
    """Ask each of *questions* that can be judged, one after the other; return their scores."""
    scores = []
    for question in questions:
        if not question.asked:
            continue
        started = time.perf_counter()
        answer = await client.recall(
            operator,
            question.text,
            max_results=MAX_RESULTS,
            as_of=question.as_of,
            interpret="off",  # what is measured is what is found
        )
        took = (time.perf_counter() - started) * 1_000
        scores.append(score(question, answer.results, took))
        on_progress(1)
    return scores


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest of *values* that at least *percent* per cent of them do not exceed."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def _within(question: Question, results: Sequence[Memory]) -> Within:
    offsets = [result.offset for result in results]
    texts = {returned_text(result).casefold() for result in results}
    return Within(
        results=len(results),
        relevant=sum(offset in question.evidence for offset in offsets),
        evidence=len(question.evidence.intersection(filter(None, offsets))),
        distractors=len(question.distractors.intersection(filter(None, offsets))),
        repeats=len(results) - len(texts),
    )


def _place(results: Sequence[Memory], offsets: frozenset[str]) -> int | None:
    return next((at for at, each in enumerate(results, 1) if each.offset in offsets), None)


def _named(shares: Mapping[int, float]) -> dict[str, float]:
    return {str(name): round(share, 4) for name, share in shares.items()}
