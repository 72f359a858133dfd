"""Score retrieval: which share of a question's evidence turns is among what recall returns."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from gralkord.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gralkord.evaluation.locomo import Question
    from gralkord.models import Memory, RecallResult

RANKS: Final = (5, 10, 20, 50)
TOKEN_BUDGETS: Final = (500, 1_000, 2_000)
MAX_RESULTS: Final = max(RANKS)
CHARACTERS_A_TOKEN: Final = 4


class RecallClient(Protocol):
    """What an evaluation needs of a client."""

    async def recall(self, operator: str, query: str, *, max_results: int = 10) -> RecallResult:
        """Return what *operator*'s memory holds that helps with *query*."""
        ...


@dataclass(frozen=True, slots=True)
class Score:
    """The result of one question.

    Attributes:
        category: The question's.
        at: Number of results to share of the evidence among them, 0 to 1.
        tokens: Token budget to share of the evidence in the results that fit into it, 0 to 1.
        milliseconds: How long the recall took, as its caller saw it.
    """

    category: int
    at: Mapping[int, float]
    tokens: Mapping[int, float]
    milliseconds: float


def score(question: Question, results: Sequence[Memory], milliseconds: float) -> Score:
    """Return how much of *question*'s evidence is among *results*, best first.

    A result is the evidence that its ``offset`` names. It counts for a token budget if it lies
    wholly within the budget's first tokens; its tokens are a quarter of the characters of its text
    and its speaker.

    Raises:
        InvalidInput: The question has no evidence.
    """
    if not question.evidence:
        raise InvalidInput("the question has no evidence", field="evidence")
    reached = [0]  # characters up to and including each result
    for result in results:
        reached.append(reached[-1] + len(returned_text(result)))

    def share(count: int) -> float:
        found = {result.offset for result in results[:count]}
        return len(question.evidence & found) / len(question.evidence)

    def within(budget: int) -> int:
        return sum(end <= budget * CHARACTERS_A_TOKEN for end in reached[1:])

    return Score(
        category=question.category,
        at={rank: share(rank) for rank in RANKS},
        tokens={budget: share(within(budget)) for budget in TOKEN_BUDGETS},
        milliseconds=milliseconds,
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
    """Ask each of *questions* that has evidence, one after the other, and return their scores."""
    scores = []
    for question in questions:
        if not question.evidence:
            continue
        started = time.perf_counter()
        answer = await client.recall(operator, question.text, max_results=MAX_RESULTS)
        took = (time.perf_counter() - started) * 1_000
        scores.append(score(question, answer.results, took))
        on_progress(1)
    return scores


def summarize(scores: Sequence[Score]) -> dict[str, Any]:
    """Return the means over *scores*, overall and by category number, and the latency.

    Raises:
        InvalidInput: There are no scores.
    """
    if not scores:
        raise InvalidInput("no question of categories 1 to 4 has evidence: nothing to score")
    by_category: defaultdict[int, list[Score]] = defaultdict(list)
    for one in scores:
        by_category[one.category].append(one)
    return {
        "overall": _means(scores),
        "by_category": {str(number): _means(by_category[number]) for number in sorted(by_category)},
        "latency_ms": {
            "p50": round(percentile([one.milliseconds for one in scores], 50), 2),
            "p95": round(percentile([one.milliseconds for one in scores], 95), 2),
        },
        "questions": len(scores),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest of *values* that at least *percent* per cent of them do not exceed."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


def _means(scores: Sequence[Score]) -> dict[str, dict[str, float]]:
    def mean(shares: Iterable[float]) -> float:
        return round(sum(shares) / len(scores), 4)

    return {
        "at": {str(rank): mean(one.at[rank] for one in scores) for rank in RANKS},
        "tokens": {
            str(budget): mean(one.tokens[budget] for one in scores) for budget in TOKEN_BUDGETS
        },
    }
