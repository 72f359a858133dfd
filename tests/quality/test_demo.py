from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from gralkord.demo.demo import judge
from gralkord.demo.sample import OPERATOR, QUESTIONS, DemoQuestion, load_sample
from gralkord.graph.passages import passage_uuid
from gralkord.groups import DEFAULT_TENANT, Group
from gralkord.models import Memory


def memory(kind="passage", **fields):
    return Memory(
        **{"kind": kind, "id": "x", "text": "words", "score": 0.5, "lens": "default"} | fields
    )


def first_turn():
    return load_sample()[0]


def test_the_sample_is_large_enough_to_mean_something():
    """At least sixty turns in six dated sessions, in order, each turn with an id of its own."""
    captures = load_sample()
    assert len(captures) >= 60
    assert len({capture.session for capture in captures}) >= 6
    assert len({capture.turn_id for capture in captures}) == len(captures)
    times = [capture.event_time for capture in captures]
    assert times == sorted(times)


def test_the_sample_has_one_operator_and_both_siblings_and_the_agent():
    """Three speakers, one memory."""
    captures = load_sample()
    assert {capture.operator for capture in captures} == {OPERATOR}
    speakers = {message.speaker for capture in captures for message in capture.turn}
    assert speakers == {"Nadia", "Owen", "Juno"}


def test_every_question_is_answered_by_a_turn_of_the_sample():
    """The word of the answer stands in the turn that is expected."""
    said = {
        capture.turn_id: " ".join(message.content for message in capture.turn)
        for capture in load_sample()
    }
    assert len(QUESTIONS) >= 8
    assert [one.text for one in QUESTIONS if one.answer not in said[one.turn_id]] == []


def test_the_passage_of_the_expected_turn_answers():
    """The rank is the first place at which the turn stands."""
    turn = first_turn()
    results = [memory(turn_id="other"), memory(turn_id=turn.turn_id, text="Here.")]
    found = judge(DemoQuestion("?", "here", turn.turn_id), turn, results, 1.0)
    assert (found.rank, found.memory, found.ok) == (2, "Here.", True)


def test_a_fact_taken_from_the_expected_turn_answers():
    """A fact that names the turn's passage is as good as the passage."""
    turn = first_turn()
    group = Group(DEFAULT_TENANT, OPERATOR, "default").id
    fact = memory("fact", passages=[passage_uuid(group, turn.turn_id, 0, 0)])
    assert judge(DemoQuestion("?", "words", turn.turn_id), turn, [fact], 1.0).rank == 1


def test_a_memory_that_does_not_say_it_is_no_answer():
    """Half of the expected turn is not enough if the answer is in the other half."""
    turn = first_turn()
    half = memory(turn_id=turn.turn_id, text="Morning, Owen.")
    assert judge(DemoQuestion("?", "Leeds", turn.turn_id), turn, [half], 1.0).rank is None


@pytest.mark.parametrize("before", [5, 50])
def test_an_answer_below_the_fifth_place_is_none(before):
    """What an agent does not read does not help it."""
    turn = first_turn()
    results = [memory(turn_id=f"other {place}") for place in range(before)]
    results.append(memory(turn_id=turn.turn_id))
    assert not judge(DemoQuestion("?", "words", turn.turn_id), turn, results, 1.0).ok


def test_no_answer_shows_the_best_there_is():
    """Without the expected turn the table shows what came instead, or nothing."""
    turn = first_turn()
    question = DemoQuestion("?", "words", turn.turn_id)
    assert judge(question, turn, [memory(turn_id="other")], 1.0).memory == "words"
    assert judge(question, turn, [], 1.0).memory == "nothing"


@pytest.mark.timeout(120)
def test_the_demo_answers_every_question_after_a_restart(tmp_path):
    """The whole path on real parts: captured, understood, restarted, found; nothing is left."""
    environ = dict(os.environ) | {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-m", "gralkord.cli.app", "demo", "--json"],
        capture_output=True,
        env=environ,
        text=True,
        timeout=110,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    result = json.loads(run.stdout)
    assert result["ok"]
    assert [one["rank"] for one in result["questions"] if not one["rank"] or one["rank"] > 5] == []
    assert not list(tmp_path.glob("gralkord-*"))
