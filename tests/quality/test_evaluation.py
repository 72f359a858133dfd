from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import redis

from gralkord import AsyncClient
from gralkord.evaluation.run import evaluate
from gralkord.evaluation.sets import read_set
from gralkord.evaluation.stack import Stack

SMALL = {
    "name": "small",
    "memories": [
        {"id": "a", "text": "Rides a red bicycle.", "time": "2024-01-05T08:00:00Z"},
        {"id": "b", "text": "Rides a grey bicycle.", "time": "2024-06-05T08:00:00Z"},
    ],
    "questions": [
        {
            "id": "1",
            "question": "Which bicycle?",
            "category": "earlier",
            "evidence": ["a"],
            "distractors": ["b"],
            "as_of": "2024-02-01T00:00:00Z",
        },
        {"id": "2", "question": "Zeppelin?", "category": "nothing"},
    ],
}

COMMAND = [sys.executable, "-m", "gralkord.cli.app"]

TALE = {
    "sample_id": "tale-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "I keep bees on the roof."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "I am learning the cello."},
            {"speaker": "Ada", "dia_id": "D1:3", "text": "Look!", "blip_caption": "a red kite"},
        ],
        "session_2_date_time": "9:05 am on 2 June, 2023",
        "session_2": [
            {"speaker": "Ben", "dia_id": "D2:1", "text": "My cello teacher is called Orsolya."},
            {"speaker": "Ada", "dia_id": "D2:2", "text": "The bees swarmed yesterday."},
        ],
    },
    "qa": [
        {"question": "Where does Ada keep bees?", "evidence": ["D1:1"], "category": 4},
        {"question": "What did Ada photograph? a kite?", "evidence": ["D1:3"], "category": 4},
        {"question": "Who teaches Ben the cello?", "evidence": ["D1:2; D2:1"], "category": 1},
        {"question": "Who knows?", "evidence": ["D"], "category": 3},
        {"question": "Who is nobody?", "evidence": ["D1:1"], "category": 5},
    ],
}


@pytest.fixture
def environ(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GRALKORD_")}
    return kept | {"HOME": str(home), "TMPDIR": str(tmp_path)}


@pytest.fixture
def tale(tmp_path):
    path = tmp_path / "tale.json"
    path.write_text(json.dumps(TALE))
    return path


def run(environ, *words, stdin=""):
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        input=stdin,
        capture_output=True,
        env=environ,
        text=True,
        timeout=55,
        check=False,
    )


def test_retrieval_is_measured_on_a_stack_of_its_own(environ, tale, tmp_path):
    """One command: start, import, ask, score, stop; nothing is left behind."""
    out = tmp_path / "run.json"
    done = run(environ, "eval", "retrieval", tale, "--format", "locomo", "--json", "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads(done.stdout)
    assert summary["questions"] == 3
    assert summary["overall"]["at"]["5"] == 1.0
    assert set(summary["by_category"]) == {"1", "4"}
    assert "1 questions without readable evidence left out" in done.stderr
    assert summary["abstention"]["unanswerable"] == 1
    assert not list(tmp_path.glob("gralkord-*"))
    written = json.loads(out.read_text())
    assert written | summary == written
    assert [one["id"] for one in written["records"]] == [f"tale-1/{at}" for at in (0, 1, 2, 4)]


def test_a_malformed_file_starts_nothing(environ, tmp_path):
    """What is wrong is said before anything runs."""
    path = tmp_path / "tale.json"
    path.write_text(json.dumps(TALE | {"conversation": {}}))
    done = run(environ, "eval", "retrieval", path)
    assert done.returncode == 2
    assert "it has no session_1" in done.stderr


def test_an_interrupted_evaluation_clears_away(environ, tale, tmp_path):
    """SIGTERM in the middle stops the stack and removes its directory."""
    process = subprocess.Popen(
        [*COMMAND, "eval", "retrieval", str(tale)],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob("gralkord-*/owner")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(tmp_path.glob("gralkord-*/owner"))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=40) != 0
    assert not list(tmp_path.glob("gralkord-*"))


async def test_imports_end_to_end(environ, tale, tmp_path):
    """Both formats reach the memory of their operator; a second run adds nothing; bad lines fail alone.

    The memories of a set are told, found as such, and asked for as of their day.
    """
    async with Stack(tmp_path / "d", ["--model", "none"], environ=environ) as stack:
        with redis.Redis(unix_socket_path=str(stack.graph_socket)) as graph:
            graph.config_set("appendfsync", "always")  # each flush would wait a second
        path = tmp_path / "set.json"
        path.write_text(json.dumps(SMALL))
        first, second = (await evaluate([read_set(path)], data_dir=stack.data_dir)).scores
        assert (first.at[5], first.within[5].results, first.misled) == (1.0, 1, False)
        assert second.within[5].results == 0
        to = ["--data-dir", stack.data_dir, "--json"]
        for operator in ("ada@example.org", "\U0001f41d/אב"):
            words = ["import", "--format", "locomo", tale, "--operator", operator, *to]
            first, again = (json.loads(run(environ, *words).stdout) for _ in range(2))
            assert (first["turns"], first["added"], first["sessions"]) == (5, 5, 2)
            assert (again["added"], again["duplicates"], again["failed"]) == (0, 5, 0)
        line = {"session": "s", "turn": [{"role": "user", "content": "The ferry leaves at noon."}]}
        lines = f"{json.dumps(line)}\nnonsense\n"
        words = ["import", "--format", "jsonl", "-", "--operator", "ben", "--user", "Ben", *to]
        done = run(environ, *words, stdin=lines)
        assert done.returncode == 1
        assert done.stderr.startswith("line 2: not JSON")
        assert json.loads(done.stdout)["added"] == 1
        async with AsyncClient(stack.endpoint.url, stack.endpoint.token) as client:
            found = await client.recall("ben", "when does the ferry leave?")
            assert [one.text for one in found.results] == ["The ferry leaves at noon."]
            first = (await client.recall("ada@example.org", "bees")).results[0]
        assert (first.speaker, first.source) == ("Ada", "tale-1")
        assert first.event_time.startswith("2023-0")
