from __future__ import annotations

import pytest

from gralkord.client.import_locomo import DialogueTurn, Sample, Session
from gralkord.clock import SystemClock
from gralkord.errors import InvalidInput
from gralkord.evaluation.locomo import Question, read_evidence, read_questions
from gralkord.evaluation.retrieval import ask, percentile, score, summarize
from gralkord.models import Memory, RecallResult


def memory(offset, text="x" * 10, speaker=None):
    return Memory(
        kind="passage",
        id=f"id-{offset}",
        text=text,
        score=0.5,
        lens="default",
        speaker=speaker,
        offset=offset,
    )


def question(*evidence, category=1, text="Who?"):
    return Question(text, category, frozenset(evidence))


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


def test_adversarial_questions_are_left_out():
    """Categories 1 to 4 are asked, 5 is not."""
    asked = read_questions(
        sample(
            {"question": "Who?", "category": 4, "evidence": ["D1:1"]},
            {"question": "Who not?", "category": 5, "evidence": ["D1:1"]},
        )
    )
    assert [one.category for one in asked] == [4]


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
        score(question("D1:1", category=1), [memory("D1:1")], 2.0),
        score(question("D1:2", category=4), [memory("D1:1")], 4.0),
    ]
    means = {"at": {"5": 0.5, "10": 0.5, "20": 0.5, "50": 0.5}}
    summary = summarize(scores)
    assert list(summary) == ["overall", "by_category", "latency_ms", "questions"]
    assert summary["overall"] == means | {"tokens": {"500": 0.5, "1000": 0.5, "2000": 0.5}}
    assert list(summary["by_category"]) == ["1", "4"]
    assert summary["by_category"]["1"]["at"]["5"] == 1.0
    assert summary["latency_ms"] == {"p50": 2.0, "p95": 4.0}
    assert summary["questions"] == 2


def test_no_question_is_no_score():
    """Nothing to score is an error, not a nought."""
    with pytest.raises(InvalidInput, match="nothing to score"):
        summarize([])


def test_percentiles_are_values_that_occurred():
    """The 95th percentile of a hundred values is the ninety-fifth."""
    values = [float(number) for number in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 95)) == (50.0, 95.0)
    assert percentile([3.0], 95) == 3.0


async def test_questions_without_evidence_are_not_asked():
    """They are left out, and the others are asked of their operator with fifty results."""
    asked = []

    class Client:
        async def recall(self, operator, query, *, max_results=10):
            asked.append((query, operator, max_results))
            return RecallResult(results=[memory("D1:1")], memory_block="", took_ms=1.0)

    questions = [question(text="Nothing?"), question("D1:1", text="Who?")]
    scores = await ask(Client(), "tale-1", questions)
    assert asked == [("Who?", "tale-1", 50)]
    assert [one.at[5] for one in scores] == [1.0]
