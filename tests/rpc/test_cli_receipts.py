"""``gralkord jobs`` and ``gralkord dead`` against a real HTTP server."""

from __future__ import annotations

import io
import json

import pytest
from fake_daemon import job, letter

from gralkord.cli import output
from gralkord.models.jobs import JobError, JobGroup


@pytest.fixture
def letters(services):
    """Three dead letters in the daemon."""
    found = (letter(1), letter(2, reason="odd"), letter(3, detail="a\x1b[31m\ttab"))
    services.letters = {one.id: one for one in found}
    return services.letters


def test_a_job_is_shown(cli, services):
    """Stages, position, the last error and the groups are lines; nothing commands the terminal."""
    services.states["7-0"] = [
        job(
            "buffered",
            position=3,
            attempts=2,
            operator="ada\x1b[2J",
            last_error=JobError(code="poison", message="it is bad", at="2026-05-01T09:31:00Z"),
            groups=[JobGroup(group="op__default__ada__default", lens="default", state="buffered")],
        )
    ]
    code, out, err = cli("jobs", "show", "7-0")
    assert (code, err) == (0, "")
    first, second, *_ = out.splitlines()
    assert first.startswith("turn 7-0: buffered, 3 in front, attempt 2, last error at 2026-05-01")
    assert first.endswith(": poison: it is bad")
    assert second == r"operator: ada\x1b[2J"
    assert "group default: buffered, 0 passages, 0 facts, 0 entities" in out
    assert json.loads(cli("jobs", "show", "7-0", "--json")[1])["position"] == 3


def test_a_job_is_watched(cli, services):
    """One line a change; the exit code says how it ended."""
    services.states["7-0"] = [job(), job("buffered", position_at_least=1000), job("understood")]
    code, out, _ = cli("jobs", "watch", "7-0")
    assert code == 0
    assert out.splitlines() == [
        "turn 7-0: queued",
        "turn 7-0: buffered, at least 1000 in front",
        "turn 7-0: understood",
    ]
    services.states["7-0"] = [job("indexed", reason="no_model")]
    code, out, _ = cli("jobs", "watch", "7-0", "--json")
    assert (code, json.loads(out)["reason"]) == (0, "no_model")
    services.states["7-0"] = [job("dead", dead=["1-0"])]
    assert cli("jobs", "watch", "7-0")[0] == 1
    services.states["7-0"] = [job()]
    code, _, err = cli("jobs", "watch", "7-0", "--timeout", "0.05")
    assert (code, "the work goes on" in err) == (1, True)


def test_jobs_that_are_not_there_have_their_exit_code(cli):
    """An unknown receipt ends with 4, what is no receipt with 5."""
    code, _, err = cli("jobs", "watch", "7-0")
    assert (code, "7 days" in err) == (4, True)
    assert cli("jobs", "show", "nonsense")[0] == 5


def test_dead_letters_are_listed(cli, letters):
    """Piped they are lines between tabs, escaped, without words; as JSON without bodies."""
    code, out, err = cli("dead", "list", "--limit", "2")
    assert (code, err) == (0, "more: --after 1-0\n")
    assert out.splitlines() == [
        f"{number}-0\t2026-05-01 09:30:00\tunderstand\t{reason}\tada\tt1\tit is bad"
        for number, reason in ((1, "poison"), (2, "odd"))
    ]
    assert r"a\x1b[31m\ttab" in cli("dead", "list")[1]
    content = json.loads(cli("dead", "list", "--reason", "odd", "--lane", "index", "--json")[1])
    assert [set(one) & {"body", "raw"} for one in content["letters"]] == [set()]


def test_dead_letters_are_a_table_on_a_terminal(cli, letters, services, monkeypatch):
    """The table names its columns; an empty list says so."""
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "140")
    out = cli("dead", "list")[1]
    assert [word for word in out.split() if word.isalpha()][:3] == ["id", "when", "lane"]
    assert "\x1b" not in out
    services.letters = {}
    assert cli("dead", "list")[1] == "no dead letters\n"


def test_a_dead_letter_is_shown_with_its_words(cli, services):
    """The body is there, with every character that commands a terminal escaped."""
    body = {"kind": "turn", "messages": [{"role": "user", "content": "tea\x1b[31m\nmilk"}]}
    services.letters = {"1-0": letter(1, body=body, raw="kind=turn\ndata={")}
    code, out, _ = cli("dead", "show", "1-0")
    assert code == 0
    assert r"content: tea\x1b[31m\nmilk" in out
    assert r"raw: kind=turn\ndata={" in out
    assert json.loads(cli("dead", "show", "1-0", "--json")[1])["body"] == body
    assert cli("dead", "show", "9-0")[0] == 4


def test_dead_letters_are_retried_and_dropped_by_their_ids(cli, letters):
    """What is done is counted; what was not there is named and ends with 4."""
    assert cli("dead", "retry", "1-0") == (0, "retried: 1\n", "")
    code, out, _ = cli("dead", "drop", "1-0", "2-0")
    assert (code, out) == (4, "dropped: 1\nleft: 1-0 (not_found)\n")
    assert list(letters) == ["3-0"]


def test_all_letters_are_handled_only_after_a_yes(cli, letters, monkeypatch):
    """Without a terminal --yes is needed; on one the answer counts."""
    code, _, err = cli("dead", "drop", "--all", stdin=b"")
    assert (code, "--yes" in err, len(letters)) == (2, True, 3)
    assert cli("dead", "drop", "--all", "--json")[0] == 2
    assert cli("dead", "retry", "--all", "--reason", "odd", "--yes")[:2] == (0, "retried: 1\n")
    for answer, code in (("n\n", 1), ("y\n", 0)):
        terminal = io.StringIO(answer)
        terminal.isatty = lambda: True
        monkeypatch.setattr("sys.stdin", terminal)
        assert cli("dead", "drop", "--all")[0] == code
    assert letters == {}


@pytest.mark.parametrize("words", [[], ["1-0", "--all"], ["1-0", "--reason", "odd"]])
def test_ids_and_filters_do_not_go_together(cli, letters, words):
    """Neither or both of them is wrong usage, and nothing happens."""
    assert cli("dead", "retry", *words)[0] == 2
    assert len(letters) == 3
