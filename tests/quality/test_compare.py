from __future__ import annotations

import json

import pytest
import typer

from gralkord.cli import eval as command
from gralkord.cli import eval_shown
from gralkord.errors import InvalidInput
from gralkord.evaluation.compare import compare, read_run, sign_test
from gralkord.evaluation.question import Question
from gralkord.evaluation.retrieval import score
from gralkord.evaluation.summary import summarize
from gralkord.models import Memory


def record(name, *offsets, evidence=("a",)):
    return scored(name, *offsets, evidence=evidence).to_dict()


def scored(name, *offsets, evidence=("a",)):
    question = Question(f"{name}?", "1", frozenset(evidence), name, answerable=bool(evidence))
    found = [
        Memory(kind="passage", id=at, text="x", score=0.5, lens="default", offset=at)
        for at in offsets
    ]
    return score(question, found, 1.0)


@pytest.fixture
def run(tmp_path):
    def write(name, *records):
        path = tmp_path / name
        path.write_text(json.dumps({"records": records}))
        return read_run(path)

    return write


def test_each_question_that_differs_is_named(run):
    """The worst first, the means of all, and what only one run has."""
    before = run("a", record("p", "a"), record("q"), record("r", "a"), record("s"))
    after = run("b", record("p"), record("q", "a"), record("r", "a"), record("t"))
    report = compare(before, after, "@5")
    assert report["overall"] == {"before": 0.6667, "after": 0.6667, "difference": 0.0}
    assert [(row["id"], row["difference"]) for row in report["differences"]] == [
        *(("p", -1.0), ("q", 1.0))
    ]
    assert (report["better"], report["worse"], report["chance"]) == (1, 1, 1.0)
    assert (report["only_before"], report["only_after"]) == (1, 1)


def test_silence_is_compared_too(run):
    """Questions without an answer count for nothing but how often nothing was answered."""
    silent, loud = record("z", evidence=()), record("z", "a", evidence=())
    report = compare(run("a", record("p"), silent), run("b", record("p"), loud))
    assert report["answered_with_nothing"] == {"before": 1, "after": 0}
    assert report["questions"] == 1


@pytest.mark.parametrize(
    ("better", "worse", "chance"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (8, 2, 0.109375)]
)
def test_the_sign_test_is_exact(better, worse, chance):
    """Two-sided, and never above one."""
    assert sign_test(better, worse) == sign_test(worse, better) == pytest.approx(chance)


def test_what_cannot_be_compared_is_refused(run, tmp_path):
    """An unknown measure, nothing in common, and files that no measurement wrote."""
    one, other = run("a", record("p")), run("b", record("q"))
    with pytest.raises(InvalidInput, match="@7"):
        compare(one, one, "@7")
    with pytest.raises(InvalidInput, match="in common"):
        compare(one, other)
    for name, text in (("x", "{"), ("y", "[]"), ("z", '{"records": [{"id": "p"}]}')):
        (tmp_path / name).write_text(text)
        with pytest.raises(InvalidInput, match=str(tmp_path / name)):
            read_run(tmp_path / name)
    with pytest.raises(InvalidInput, match="cannot read"):
        read_run(tmp_path / "none")


def test_a_run_that_is_worse_than_allowed_fails(run, tmp_path, capsys):
    """It is shown, and the exit code is 1; within what is allowed it is 0."""
    run("a", record("p", "a"), record("q", "a"))
    run("b", record("p"), record("q", "a"))
    runs = {"before": tmp_path / "a", "after": tmp_path / "b"}
    with pytest.raises(typer.Exit) as caught:
        command.compare(**runs, worse_than=0.4)
    assert caught.value.exit_code == 1
    shown = capsys.readouterr().out
    assert "-0.500" in shown
    assert "0 better, 1 worse" in shown
    assert "1.00 -> 0.00  p  p?" in shown
    command.compare(**runs, worse_than=0.6)


def test_the_figures_of_a_run_are_shown(capsys):
    """The evidence by category, what is wrong with answers, and silence."""
    scores = [scored("p", "a"), scored("q", "b"), scored("z", evidence=())]
    eval_shown.show_run(summarize(scores))
    shown = capsys.readouterr().out
    assert "category 1" in shown
    assert "near distractors -" in shown
    assert "1 questions without an answer: nothing for 1.000 of them" in shown
    assert "recall p50 1.0 ms" in shown


def test_what_parts_are_worth_is_shown_in_eighty_columns(capsys, monkeypatch):
    """Each variant is a line, with its difference."""
    monkeypatch.setenv("COLUMNS", "80")
    at, tokens = dict.fromkeys(("5", "10", "20", "50"), 0.5), dict.fromkeys("abc", 0.25)
    figures = {"overall": {"at": at, "tokens": tokens}, "difference": {"at": {"10": -0.125}}}
    eval_shown.show_ablations({"questions": 3, "variants": {"without fact_vector": figures}})
    (line,) = (each for each in capsys.readouterr().out.splitlines() if "without" in each)
    assert line.split("│")[1:-1] == [
        *("without fact_vector ", " 0.500 ", " 0.500 ", " 0.500 "),
        *(" 0.250 ", "  0.250 ", "  0.250 ", " -0.125"),
    ]
