from __future__ import annotations

import pytest

from gralkord.client.import_locomo import DialogueTurn, Sample, Session
from gralkord.clock import SystemClock
from gralkord.errors import InvalidInput
from gralkord.evaluation.locomo import read_evidence, read_questions
from gralkord.evaluation.question import Question
from gralkord.evaluation.retrieval import ask, percentile, score
from gralkord.evaluation.summary import summarize
from gralkord.models import Memory, RecallResult


def memory(offset, text="x" * 10, speaker=None, score=0.5):
    return Memory(
        kind="passage",
        id=f"id-{offset}",
        text=text,
        score=score,
        lens="default",
        speaker=speaker,
        offset=offset,
    )


def question(*evidence, category="1", text="Who?", distractors=(), **more):
    return Question(text, category, frozenset(evidence), distractors=frozenset(distractors), **more)


def nobody_knows():
    return question(category="5", answerable=False)


def sample(*questions):
    turns = tuple(DialogueTurn("t", "Ada", f"D1:{number}", "words") for number in range(1, 4))
    session = Session("session_1", SystemClock().now(), turns)
    return Sample("tale-1", ("Ada", "Ben"), (session,), tuple(questions))


@pytest.mark.parametrize(
    ("texts", "ids"),
    [
        (["D1:3"], {"D1:3"}),
        (["D8:6; D9:17"], {"D8:6", "D9:17"}),
        (["D8:6, D9:17", "D8:6"], {"D8:6", "D9:17"}),
        (["D:11:26"], {"D11:26"}),
        (["D30:05"], {"D30:5"}),
        (["D"], set()),
        ([], set()),
    ],
)
def test_evidence_is_read_leniently(texts, ids):
    """However turn ids are strung together, each is found; what is none gives none."""
    assert read_evidence(texts) == ids


def test_adversarial_questions_have_no_answer():
    """Of category 5 nothing is to be found, whatever the file names; 6 is not asked."""
    asked = read_questions(
        sample(
            {"question": "Who?", "category": 4, "evidence": ["D1:1"]},
            {"question": "Who not?", "category": 5, "evidence": ["D1:1"]},
            {"question": "Who else?", "category": 6, "evidence": ["D1:1"]},
        )
    )
    assert [(one.category, one.answerable) for one in asked] == [("4", True), ("5", False)]
    assert asked[1].evidence == frozenset()
    assert [one.id for one in asked] == ["tale-1/0", "tale-1/1"]


def test_evidence_that_names_no_turn_is_not_expected():
    """A turn that the conversation does not have cannot be found, so it does not count."""
    (one,) = read_questions(
        sample({"question": "Who?", "category": 1, "evidence": ["D1:1", "D1:99"]})
    )
    assert one.evidence == {"D1:1"}


@pytest.mark.parametrize("item", [{"category": 1}, {"question": "Who?", "category": "1"}])
def test_a_malformed_question_says_which(item):
    """A question without text or category is an error with its number."""
    with pytest.raises(InvalidInput, match=r"tale-1: qa\[0\]"):
        read_questions(sample(item))


def test_a_score_is_the_share_of_the_evidence_found():
    """One of two evidence turns among the first five is a half, both among ten are one."""
    results = [memory(f"D1:{number}") for number in range(1, 11)]
    found = score(question("D1:2", "D1:9"), results, 1.0)
    assert (found.at[5], found.at[10]) == (0.5, 1.0)


def test_a_turn_found_twice_counts_once():
    """Two parts of one long turn are one piece of evidence."""
    found = score(question("D1:1", "D1:2"), [memory("D1:1"), memory("D1:1")], 1.0)
    assert found.at[5] == 0.5


def test_a_result_counts_for_a_budget_only_if_it_fits_whole():
    """500 tokens are 2,000 characters: the result that crosses that line is out, and so is what follows."""
    results = [memory("D1:1", "a" * 1_990), memory("D1:2", "b" * 11), memory("D1:3", "c")]
    found = score(question("D1:1", "D1:2", "D1:3"), results, 1.0)
    assert found.tokens == {500: pytest.approx(1 / 3), 1_000: 1.0, 2_000: 1.0}


def test_the_speaker_is_part_of_what_is_returned():
    """A name costs tokens too."""
    results = [memory("D1:1", "a" * 1_996, speaker="Ada")]
    assert score(question("D1:1"), results, 1.0).tokens[500] == 0.0
    results = [memory("D1:1", "a" * 1_995, speaker="Ada")]
    assert score(question("D1:1"), results, 1.0).tokens[500] == 1.0


def test_the_summary_has_exactly_its_shape():
    """Overall, by category number, latency and the number of questions."""
    scores = [
        score(question("D1:1", category="1"), [memory("D1:1")], 2.0),
        score(question("D1:2", category="4"), [memory("D1:1")], 4.0),
    ]
    means = {"at": {"5": 0.5, "10": 0.5, "20": 0.5, "50": 0.5}}
    summary = summarize(scores)
    assert list(summary) == [
        *("overall", "by_category", "measures", "abstention", "latency_ms", "questions")
    ]
    assert summary["overall"] == means | {"tokens": {"500": 0.5, "1000": 0.5, "2000": 0.5}}
    assert list(summary["by_category"]) == ["1", "4"]
    assert summary["by_category"]["1"]["at"]["5"] == 1.0
    assert summary["latency_ms"] == {"p50": 2.0, "p95": 4.0}
    assert summary["questions"] == 2


def test_what_is_wrong_with_answers_is_counted():
    """Recall and precision over all results, look-alikes, who stands first, both accounts."""
    twin = question("a", "b", distractors=["c", "d"], whole=True)
    scores = [
        score(twin, [memory("c"), memory("a", "one"), memory("a", "two"), memory("x", "one")], 1.0),
        score(question("e"), [memory("e"), memory("f", "other")], 1.0),
    ]
    measures = summarize(scores)["measures"]
    assert measures["within"]["3"] == {
        "recall": pytest.approx(2 / 3, abs=1e-4),
        "precision": 0.6,
        "hit_rate": 1.0,
        "near_distractors": 0.5,
        "whole": 0.0,
        "repeats": 0.0,
    }
    assert measures["within"]["5"]["repeats"] == pytest.approx(1 / 6, abs=1e-4)
    assert (measures["mrr"], measures["misled"]) == (0.75, 1.0)


def test_a_measure_without_occasion_is_none():
    """No distractors and no contradictions: not a nought that looks like success."""
    measures = summarize([score(question("a"), [memory("a")], 1.0)])["measures"]
    assert measures["misled"] is None
    assert measures["within"]["5"]["near_distractors"] is None
    assert measures["within"]["5"]["whole"] is None


def test_silence_where_nothing_is_right_is_reported():
    """Its share, what a threshold would do to it and to the evidence, and whether scores tell."""
    scores = [
        score(question("a"), [memory("a", score=0.9)], 1.0),
        score(question("b"), [memory("b", score=0.15)], 1.0),
        score(nobody_knows(), [], 1.0),
        score(nobody_knows(), [memory("c", score=0.2)], 1.0),
    ]
    summary = summarize(scores)
    abstention = summary["abstention"]
    assert summary["questions"] == 2
    assert summary["overall"]["at"]["5"] == 1.0
    assert abstention["unanswerable"] == 2
    assert (abstention["answered_with_nothing"], abstention["answerable_with_nothing"]) == (0.5, 0)
    assert abstention["told_apart"] == 0.75
    assert abstention["thresholds"]["0.2"] == {"nothing": 0.5, "at_10": 0.5}
    assert abstention["thresholds"]["0.3"] == {"nothing": 1.0, "at_10": 0.5}


def test_no_question_is_no_score():
    """Nothing to score is an error, not a nought."""
    with pytest.raises(InvalidInput, match="nothing to score"):
        summarize([])
    with pytest.raises(InvalidInput, match="nothing to score"):
        summarize([score(nobody_knows(), [], 1.0)])


def test_percentiles_are_values_that_occurred():
    """The 95th percentile of a hundred values is the ninety-fifth."""
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 95)) == (50.0, 95.0)
    assert percentile([3.0], 95) == 3.0


async def test_questions_without_evidence_are_not_asked():
    """They are left out, and the others are asked of their operator with fifty results."""
    asked = []

    class Client:
        async def recall(self, operator, query, *, max_results=10, as_of=None, interpret=None):
            asked.append((query, operator, max_results))
            return RecallResult(results=[memory("D1:1")], memory_block="", took_ms=1.0)

    questions = [question(text="Nothing?"), question("D1:1", text="Who?")]
    scores = await ask(Client(), "tale-1", questions)
    assert asked == [("Who?", "tale-1", 50)]
    assert [one.at[5] for one in scores] == [1.0]
