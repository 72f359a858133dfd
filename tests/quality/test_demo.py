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


def test_every_question_expects_turns_of_the_sample():
    """No question asks for what was never said."""
    known = {capture.turn_id for capture in load_sample()}
    assert len(QUESTIONS) >= 8
    assert all(set(question.expected) <= known for question in QUESTIONS)


def test_a_passage_of_the_expected_turn_answers():
    """The rank is the first place at which the turn stands."""
    turn = first_turn()
    results = [memory(turn_id="other"), memory(turn_id=turn.turn_id, text="here")]
    found = judge(DemoQuestion("?", (turn.turn_id,)), [turn], results, 1.0)
    assert (found.rank, found.memory, found.ok) == (2, "here", True)


def test_a_fact_taken_from_the_expected_turn_answers():
    """A fact that names the turn's passage is as good as the passage."""
    turn = first_turn()
    group = Group(DEFAULT_TENANT, OPERATOR, "default").id
    fact = memory("fact", passages=[passage_uuid(group, turn.turn_id, 0, 0)])
    assert judge(DemoQuestion("?", (turn.turn_id,)), [turn], [fact], 1.0).rank == 1


@pytest.mark.parametrize("before", [5, 50])
def test_an_answer_below_the_fifth_place_is_none(before):
    """What an agent does not read does not help it."""
    turn = first_turn()
    results = [memory(turn_id=f"other {place}") for place in range(before)]
    results.append(memory(turn_id=turn.turn_id))
    assert not judge(DemoQuestion("?", (turn.turn_id,)), [turn], results, 1.0).ok


def test_no_answer_shows_the_best_there_is():
    """Without the expected turn the table shows what came instead, or nothing."""
    turn = first_turn()
    question = DemoQuestion("?", (turn.turn_id,))
    assert judge(question, [turn], [memory(turn_id="other")], 1.0).memory == "words"
    assert judge(question, [turn], [], 1.0).memory == "nothing"


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
