"""Memories moved to another installation, and one that is put back after a disaster."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from itertools import count

import pytest
from up_process import UpProcess, eventually

from gralkord.cli.app import run
from gralkord.client.sync import Client
from gralkord.errors import NotFound

pytestmark = pytest.mark.timeout(120)

QUESTIONS = ("blue kettle 7", "Who has a kettle?", "garden", "number 3 or number 11")


TRIPLES = [
    {"subject": "Ada", "predicate": "OWNS", "object": "red kettle", "valid_at": "2020-01-01"},
    {
        "subject": "Ada",
        "predicate": "OWNS",
        "object": "blue kettle",
        "valid_at": "2024-01-01",
        "supersede": True,
    },
]


def facts(page: dict) -> list:
    """Return the facts of a page, as they can be compared."""
    [name] = [name for name, value in page.items() if isinstance(value, list)]
    return page[name]


@pytest.fixture
def gralkord(capsys, monkeypatch):
    """Run a command with --json in this process; return what it prints."""
    monkeypatch.setattr("gralkord.log.configure", lambda **_: None)

    def call(*words: str, data_dir=None) -> dict:
        place = () if data_dir is None else ("--data-dir", str(data_dir))
        capsys.readouterr()
        code = run([*words, *place, "--json"])
        out, err = capsys.readouterr()
        assert code == 0, (words, out, err)
        return json.loads(out)

    return call


def answers(up: UpProcess, operator: str) -> list:
    """Return what is recalled for all questions: ids, texts and scores, in their order."""
    asked = [{"operator": operator, "query": query, "max_results": 30} for query in QUESTIONS]
    return [
        [(one["id"], one["text"], round(one["score"], 5)) for one in found["results"]]
        for found in (up.request("/v1/recall", body) for body in asked)
    ]


def words_of(up: UpProcess, operator: str) -> set[str]:
    """Return the words of all passages of an operator; none while it has none."""
    with Client(data_dir=up.data_dir) as client:
        try:
            _, *rows, _ = map(json.loads, client.export(operator))
        except NotFound:
            return set()
    assert {row["operator"] for row in rows} <= {operator}
    return {row["properties"]["text"] for row in rows if row["kind"] == "passage"}


def test_an_export_is_recalled_elsewhere_as_here(tmp_path, start_up, gralkord):
    """What one installation exports, another one without a model imports and recalls alike."""
    here, there = start_up(tmp_path / "here").ready(), start_up(tmp_path / "there").ready()
    for number in range(12):
        here.capture(f"The kettle number {number} is blue.", session=f"s{number % 3}")
    here.capture("Bob's garden is full of kettles.", operator="bob", session="b")
    eventually(lambda: len(here.recall("kettle")) >= 10 and here.recall("garden", "bob"))
    here.request("/v1/triples", {"operator": "ada", "triples": TRIPLES})
    eventually(lambda: len(answers(here, "ada")[0]) >= 13)
    file = tmp_path / "all.jsonl"
    rows = gralkord("export", "--everything", "-o", str(file), data_dir=here.data_dir)["rows"]
    done = gralkord("import", str(file), data_dir=there.data_dir)
    assert (done["created"], done["failed"], done["fault"]) == (rows, 0, None)
    for operator in ("ada", "bob"):
        assert answers(there, operator) == answers(here, operator)
    again = gralkord("import", str(file), data_dir=there.data_dir)
    assert (again["created"], again["known"]) == (0, rows)
    told = "/v1/triples?operator=ada&subject=Ada"
    assert facts(there.request(told)) == facts(here.request(told))
    assert len(facts(here.request(told))) == 1
    assert there.request("/v1/status")["graph"]["passages"] == 13


def test_a_backup_under_load_loses_nothing(tmp_path, start_up, gralkord):
    """Everything acknowledged before a backup is there after SIGKILL of all and a restore."""
    up = start_up().ready()
    told: list[tuple[str, str]] = []
    stop = threading.Event()

    def load(operator: str) -> None:
        for number in count():
            if stop.is_set():
                return
            text = f"note {number} of {operator}"
            up.capture(text, operator=operator, session=f"{operator}{number % 5}")
            told.append((operator, text))

    threads = [threading.Thread(target=load, args=(name,)) for name in ("ada", "bob")]
    for thread in threads:
        thread.start()
    eventually(lambda: len(told) >= 40)
    before = list(told)
    made = gralkord("backup", str(tmp_path / "backup"), data_dir=up.data_dir)
    stop.set()
    for thread in threads:
        thread.join()
    for pid in (up.process.pid, *up.pids.values()):
        with suppress(ProcessLookupError):  # it ends with its parent
            os.kill(pid, signal.SIGKILL)
    assert gralkord("backup", "verify", str(tmp_path / "backup")) == made
    gralkord("restore", str(tmp_path / "backup"), data_dir=tmp_path / "new")
    again = start_up(tmp_path / "new").ready()
    for operator in ("ada", "bob"):
        wanted = {text for owner, text in before if owner == operator}
        eventually(lambda wanted=wanted, operator=operator: wanted <= words_of(again, operator))
        others = {text for owner, text in told if owner != operator}
        assert not others & words_of(again, operator)
    again.capture("It goes on.")
    eventually(lambda: "It goes on." in again.recall("goes on"))
