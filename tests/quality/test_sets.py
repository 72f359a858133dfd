from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pytest

from gralkord.errors import InvalidInput
from gralkord.evaluation import ablations
from gralkord.evaluation.generated import generate
from gralkord.evaluation.sets import FIXTURES, conversation_of, read_set

SMALL = {
    "name": "small",
    "sessions": [
        {
            "name": "s1",
            "time": "2024-05-01T10:00:00+02:00",
            "turns": [
                {"id": "a", "speaker": "Ada", "text": "I keep bees on the roof."},
                {"id": "b", "speaker": "Ben", "text": "I am learning the cello."},
            ],
        }
    ],
    "memories": [{"id": "m", "text": "Bees need care.", "time": "2024-05-02T10:00:00Z"}],
    "questions": [
        {"id": "1", "question": "Who has bees?", "category": "direct", "evidence": ["a", "m"]},
        {"id": "2", "question": "Who has goats?", "category": "nothing"},
    ],
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "set.json"


def test_a_set_becomes_a_conversation(path):
    """Turns with their times, memories, and questions that know whether they have an answer."""
    path.write_text(json.dumps(SMALL))
    read = read_set(path)
    assert (read.turns, read.questions) == (3, 2)
    assert [told.id for told in read.told] == ["m"]
    assert read.sample.sessions[0].date.isoformat() == "2024-05-01T08:00:00+00:00"
    first, second = read.asked
    assert (first.id, first.evidence, first.answerable) == ("small/1", {"a", "m"}, True)
    assert not second.answerable


def test_memories_can_be_said_instead(path):
    """Each is a turn in a session of its own, under the same id."""
    path.write_text(json.dumps(SMALL))
    read = read_set(path, as_turns=True)
    assert not read.told
    assert [turn.dia_id for session in read.sample.sessions for turn in session.turns] == [
        *("a", "b", "m")
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questions": []}, "questions"),
        ({"questions": [SMALL["questions"][0]] * 2}, "questions: id '1' is there twice"),
        ({"memories": [SMALL["memories"][0] | {"id": "a"}]}, "id 'a' is there twice"),
        ({"memories": []}, "'1' names 'm', which is not there"),
        ({"mistake": 1}, "mistake"),
    ],
)
def test_what_is_wrong_with_a_set_is_said(path, change, message):
    """The file and the place are named."""
    path.write_text(json.dumps(SMALL | change))
    with pytest.raises(InvalidInput, match=r"set\.json") as caught:
        read_set(path)
    assert message in caught.value.message


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_a_file_that_is_no_set_is_refused(path, text):
    """Neither broken JSON nor another shape is a set."""
    path.write_text(text)
    with pytest.raises(InvalidInput, match=r"set\.json"):
        read_set(path)


def test_the_fixtures_have_every_occasion():
    """Look-alikes, contradictions, changes, times, tokens, and questions without an answer."""
    asked = read_set(FIXTURES).asked
    assert sum(not one.answerable for one in asked) >= 10
    assert sum(bool(one.distractors) for one in asked) >= 20
    assert sum(one.whole for one in asked) >= 3
    assert {"direct", "paraphrase", "token", "several", "date", "change", "earlier"} <= {
        one.category for one in asked
    }


def test_the_same_seed_makes_the_same_set():
    """Size and seed decide everything; another seed asks something else."""
    made = generate(300, 5, 5)
    assert made == generate(300, 5, 5)
    assert made.questions != generate(300, 6, 5).questions


@pytest.mark.parametrize(("turns", "questions"), [(0, 3), (1, 1), (47, 20), (20, 100)])
def test_a_generated_set_is_whole_at_any_size(turns, questions):
    """All noise is there, and whatever is asked for is said, once."""
    made = generate(turns, 2, questions)
    read = conversation_of(made)  # it refuses what is there twice or names what is not
    ids = [turn.id for session in made.sessions for turn in session.turns]
    assert sum(name.startswith("n") for name in ids) == turns
    kinds = Counter(question.category for question in made.questions)
    assert len(kinds) == 10
    assert max(kinds.values()) == questions
    assert read.turns == len(ids)


def test_times_of_a_generated_set_fit_its_questions():
    """What was done in a month was done in it, and what was so earlier is not what came later."""
    made = generate(100, 3)
    said = {turn.id: session.time for session in made.sessions for turn in session.turns}
    for question in made.questions:
        times = [said[name] for name in question.evidence]
        if question.category == "month":
            assert times[0].strftime("%B %Y") in question.question
        if question.category == "ago":
            first = question.as_of.replace(day=1, hour=0)
            assert (first - timedelta(days=1)).month == times[0].month
            assert times[0] < first
        if question.category == "change":
            assert all(said[name] < times[0] for name in question.distractors)
        if question.category == "earlier":
            assert times[0] < question.as_of


async def test_parts_of_a_score_are_left_out_one_by_one(path, monkeypatch):
    """Each variant has its figures and the difference to those with all parts."""
    path.write_text(json.dumps(SMALL))
    told = []
    report = await ablations.ablate([read_set(path)], told.append)
    assert next(iter(report["variants"])) == ablations.WHOLE
    assert len(told) == len(ablations.VARIANTS)
    assert report["questions"] == 1
    whole = report["variants"][ablations.WHOLE]
    assert whole["overall"]["at"]["5"] == 1.0
    assert whole["difference"]["at"]["5"] == 0.0
    deaf = ablations.Variant("deaf", tuple(ablations.PARTS), vectors=False)
    monkeypatch.setattr(ablations, "VARIANTS", (ablations.VARIANTS[0], deaf))
    assert list((await ablations.ablate([read_set(path)]))["variants"]) == [
        *(ablations.WHOLE, "deaf")
    ]
