from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
from fake_daemon import TOKEN, turn

from gralkord.cli import output
from gralkord.cli.app import run
from gralkord.errors import BackendUnavailable, NotFound, QueueFull
from gralkord.models import FlushResult, RecallResult

WHO = ["-o", "ada", "-s", "s1", "-a", "helper", "-u", "Ada"]
COMMAND = [sys.executable, "-c", "from gralkord.cli.app import main; main()"]


def captured(services):
    [(_, capture)] = services.turns
    return capture


def test_a_text_is_captured(cli, services):
    """The text becomes the user's message, and the receipt is printed."""
    code, out, err = cli("capture", "Ada likes tea", *WHO, "--turn-id", "t1")

    assert (code, err) == (0, "")
    assert out == "captured: turn t1, receipt 1-0, durability always\n"
    assert captured(services).turn[0].role == "user"
    assert cli("capture", "Ada likes tea", *WHO, "--turn-id", "t1")[1].startswith("captured before")


def test_every_option_arrives(cli, services):
    """Role, speaker, answer, time and source are part of the turn."""
    code, out, _ = cli(
        "capture",
        "Where is it?",
        *WHO,
        *("--speaker", "Ada L.", "--assistant", "Here", "--event-time", "2024-05-01T09:30"),
        *("--source", "chat", "--lens", "default", "--json"),
    )

    assert code == 0
    assert "no zone" in json.loads(out)["notes"][0]
    capture = captured(services)
    assert [(one.role, one.speaker, one.content) for one in capture.turn] == [
        ("user", "Ada L.", "Where is it?"),
        ("assistant", None, "Here"),
    ]
    assert (capture.source, capture.lenses) == ("chat", ["default"])


def test_a_text_is_read_from_standard_input(cli, services):
    """A dash reads the text, without its last line feed."""
    assert cli("capture", "-", *WHO, stdin="two\nlines é\n".encode())[0] == 0
    assert captured(services).turn[0].content == "two\nlines é"


def test_a_json_capture_is_read_from_standard_input(cli, services):
    """A dash reads a JSON capture too; options fill in what it leaves out."""
    body = turn("from JSON")
    del body["user"]
    code, _, _ = cli("capture", "-", "-u", "Filled", "-o", "other", stdin=json.dumps(body).encode())

    assert code == 0
    assert (captured(services).user, captured(services).operator) == ("Filled", "ada")


@pytest.mark.parametrize("text", ["{not json", '{"note": "a turn of phrase"}'])
def test_a_text_that_begins_with_a_brace_is_a_text(cli, services, text):
    """Only a JSON object with a turn is a capture."""
    assert cli("capture", "-", *WHO, stdin=text.encode())[0] == 0
    assert captured(services).turn[0].content == text


def test_a_json_capture_is_read_from_a_file(cli, services, home):
    """--json-input names a file."""
    (home / "turn.json").write_text(json.dumps(turn("filed")))

    assert cli("capture", "--json-input", str(home / "turn.json"))[0] == 0
    assert captured(services).turn[0].content == "filed"


def test_a_trace_is_captured(cli, services):
    """With --shape the JSON is what a framework tells of a turn; system text is left out."""
    trace = [{"role": "system", "content": "Obey."}, {"role": "user", "content": "Where?"}]
    words = ("--json-input", "-", "--shape", "openai-chat", "--failure", "no lamp")
    assert cli("capture", *words, *WHO, stdin=json.dumps(trace).encode())[0] == 0
    assert [(one.role, one.content) for one in captured(services).turn] == [
        ("user", "Where?"),
        ("behaviour", "request failed: no lamp"),
    ]


@pytest.mark.parametrize("trace", [[], [{"role": "system", "content": "Obey."}]])
def test_a_trace_without_words_is_skipped(cli, services, trace):
    """As `capture_trace` does: nothing is sent, and nothing has failed."""
    stdin = json.dumps(trace).encode()
    words = ("capture", "--json-input", "-", "--shape", "openai-chat", *WHO)
    assert cli(*words, stdin=stdin) == (0, "nothing to capture\n", "")
    code, out, _ = cli(*words, "--json", stdin=stdin)
    assert (code, json.loads(out)["receipt"]) == (0, None)
    assert services.turns == []


@pytest.mark.parametrize(
    ("words", "stdin", "answer"),
    [
        (["--json-input", "-", "--shape", "events", *WHO], b"{}", (5, "must be a list")),
        (["hello", *WHO, "--failure", "x"], None, (2, "--failure needs --shape")),
        (["hello"], None, (2, "missing --operator, --session, --agent, --user")),
        ([], None, (2, "either TEXT or --json-input")),
        (["x", "--json-input", "-"], None, (2, "either TEXT or --json-input")),
        (["--json-input", "/nowhere.json"], None, (2, "cannot read /nowhere.json")),
        (["x", *WHO, "--role", "robot"], None, (2, "robot")),
        (["--json-input", "-"], b"{", (5, "not JSON")),
        (["--json-input", "-"], b"", (5, "empty")),
        (["--json-input", "-"], b"[]", (5, "must be a JSON object")),
        (["--json-input", "-"], b"{}", (5, "is missing")),
        (["--json-input", "-"], b'{"turn": []}', (5, "is missing")),
        (["-", *WHO], b"\xff", (5, "byte 1 is not valid UTF-8")),
        (["-", *WHO], b"", (5, "all messages are empty")),
        (["-", *WHO], b"x" * 3_000_000, (5, "the limit is 2097152 bytes")),
        (["x" * 300_000, *WHO], None, (5, "the limit is 262144 bytes")),
        (["a\x1bb", *WHO], None, (5, "control character U+001B")),
        (["a\udcffb", *WHO], None, (5, "lone surrogate")),
        (["x", *WHO, "-o", " "], None, (5, "operator: must not be blank")),
        (["x", *WHO, "--event-time", "soon"], None, (5, "ISO 8601")),
        (["x", *WHO, "--lens", "work"], None, (5, "no lens")),
    ],
)
def test_bad_input_is_one_clear_sentence(cli, services, words, stdin, answer):
    """The exit code tells usage from refusal, the sentence says what is wrong, nothing is kept."""
    code, said = answer
    found, out, err = cli("capture", *words, stdin=stdin)

    assert found == code
    assert said in err
    assert out == ""
    assert len(err) < 500
    assert services.turns == []
    found, out, err = cli("capture", *words, "--json", stdin=stdin)
    assert found == code
    assert said in json.loads(out)["error"]["message"]
    assert err == ""


def test_the_operator_comes_from_the_environment(cli, monkeypatch):
    """GRALKORD_OPERATOR spares the option, which goes before it."""
    cli("capture", "Ada likes tea", *WHO)
    monkeypatch.setenv("GRALKORD_OPERATOR", "ada")

    assert "likes tea" in cli("recall", "tea")[1]
    assert cli("recall", "tea", "-o", "ben")[1] == ""


def test_operators_stay_apart(cli):
    """A recall finds what its operator captured."""
    cli("capture", "Ada likes tea", *WHO)
    cli("capture", "Ben likes tea", "-o", "ben", "-s", "s2", "-a", "helper", "-u", "Ben")
    _, out, _ = cli("recall", "tea", "-o", "ben")

    assert out == "1\t1.000\t-\tBen\tBen likes tea\n"


def test_a_recall_is_lines_when_piped(cli):
    """Piped, each memory is one line with its rank, score, time, speaker and text."""
    cli("capture", "tea\nwith milk", *WHO, "--event-time", "2024-05-01T09:30:00Z")
    code, out, err = cli("recall", "tea", "-o", "ada")

    assert (code, err) == (0, "")
    assert out == "1\t1.000\t2024-05-01 09:30\tAda\ttea\\nwith milk\n"


def test_what_a_piped_recall_lacks_is_noted_on_standard_error(cli, services, monkeypatch):
    """Nothing found and nothing searched are told apart."""

    async def recall(tenant, request):
        return RecallResult(
            results=[], memory_block="", partial=True, notes=["not searched"], took_ms=1
        )

    monkeypatch.setattr(services, "recall", recall)

    assert cli("recall", "tea", "-o", "ada") == (0, "", "note: not searched\n")


def test_a_recall_is_a_table_on_a_terminal(cli, monkeypatch):
    """On a terminal there is a table and a footer, or a sentence."""
    cli("capture", "Ada likes tea", *WHO)
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    _, out, _ = cli("recall", "tea", "-o", "ada")
    _, nothing, _ = cli("recall", "coffee", "-o", "ada")

    assert "memory" in out
    assert "Ada likes tea" in out
    assert "1 memories in 0.5 ms" in out
    assert nothing.startswith("nothing found")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_memory_cannot_command_the_terminal(cli, services, monkeypatch, terminal):
    """Escape sequences, turned text and markup of a memory are shown, not obeyed."""
    evil = "tea \x1b[2J \x1b]0;x\x07 \x9b1A \u202e [red]markup[/red] [link=x]y"
    cli("capture", "placeholder tea", *WHO)
    [(_, kept)] = services.turns
    message = kept.turn[0].model_copy(update={"content": evil, "speaker": "\x1b[31mAda"})
    services.turns = [("default", kept.model_copy(update={"turn": [message]}))]
    monkeypatch.setattr(output, "on_terminal", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = cli("recall", "tea", "-o", "ada")

    assert not set(out) & set("\x1b\x07\x9b\u202e")
    assert "\\x1b[2J" in out
    assert "[red]markup[/red]" in out


def test_a_recall_is_json_if_asked(cli):
    """With --json the whole answer is one object."""
    cli("capture", "Ada likes tea", *WHO)
    _, out, _ = cli("recall", "tea", "-o", "ada", "-n", "3", "--json")

    assert json.loads(out)["results"][0]["text"] == "Ada likes tea"


def test_a_query_is_read_from_standard_input(cli):
    """A dash reads the query."""
    cli("capture", "Ada likes tea", *WHO)

    assert "tea" in cli("recall", "-", "-o", "ada", stdin=b"tea\n")[1]


def test_an_expired_deadline_is_a_failure(cli):
    """Nothing in time is exit code 1 with its code."""
    code, out, _ = cli("recall", "tea", "-o", "ada", "--deadline-ms", "1", "--json")

    assert code == 1
    assert json.loads(out)["error"]["code"] == "recall_deadline_expired"


def test_a_flush_says_how_far_it_came(cli):
    """Without --wait it is queued, with it as far as asked."""
    assert cli("flush", "s1")[1] == "flush f1: queued, 0 turns\n"
    code, out, _ = cli("flush", "s1", "--wait", "--until", "indexed", "--timeout", "2", "--json")
    assert code == 0
    assert json.loads(out)["state"] == "indexed"


@pytest.mark.parametrize(
    ("reason", "code"), [("timeout", 1), ("model_outage", 1), ("dead_letters", 1), ("no_model", 0)]
)
def test_a_flush_that_is_not_done_fails(cli, services, reason, code):
    """Whatever keeps it from being complete is a failure; no model is none."""

    async def flush(tenant, request):
        return FlushResult(flush="f1", state="indexed", complete=code == 0, reason=reason)

    services.flush = flush

    assert cli("flush", "s1", "--wait")[:2] == (code, f"flush f1: indexed ({reason})\n")


def test_status_and_backfill_are_printed(cli, found):
    """Status is lines, backfill one sentence, both objects if asked."""
    _, status, _ = cli("status")
    assert f"daemon: {found}\n" in status
    assert "understand:\n  waiting: 3\n" in status
    assert json.loads(cli("status", "--json")[1])["url"] == found
    assert cli("backfill")[1] == "queued 1 items with 0 passages\n"
    assert json.loads(cli("backfill", "-o", "ada", "--json")[1])["operator"] == "ada"
    assert json.loads(cli("backfill", "-o", "ada", "--all", "--json")[1])["operator"] is None


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (BackendUnavailable("the queue does not answer", retry_after=0.01), 3),
        (NotFound("no such thing"), 4),
        (QueueFull("full", retry_after=0.01), 5),
        (RuntimeError("bug"), 1),
    ],
)
def test_the_exit_code_tells_the_kind_of_failure(cli, services, fault, code):
    """Scripts can tell an outage, an absence and a refusal apart."""
    services.fault = fault

    assert cli("status")[0] == code


def test_no_daemon_is_unreachable(home, capsys):
    """Without a daemon the exit code is 3 and the hint is the command that starts one."""
    assert run(["status"]) == 3
    assert "gralkord up" in capsys.readouterr().err
    assert run(["status", "--data-dir", str(home)]) == 3
    assert f"gralkord up --data-dir {home}" in capsys.readouterr().err


def test_a_daemon_can_be_named(daemon, home, capsys, monkeypatch):
    """A URL with a token from the environment needs no announcement."""
    monkeypatch.setenv("GRALKORD_TOKEN", TOKEN)
    assert run(["status", "--url", daemon]) == 0
    monkeypatch.setenv("GRALKORD_URL", daemon)
    assert run(["status"]) == 0
    monkeypatch.setenv("GRALKORD_TOKEN", "wrong")
    assert run(["status"]) == 5


def test_a_reader_that_has_seen_enough_is_no_error(found, services, home):
    """A closed pipe ends the command quietly."""
    run(["capture", "tea " * 20_000, *WHO])
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [*COMMAND, "recall", "tea", "-o", "ada"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)

    assert (process.returncode, process.stderr) == (0, b"")


@pytest.mark.parametrize("name", [b"\xff.jsonl", b"two\nlines.jsonl", b"\x9b" * 200])
def test_a_file_to_import_may_be_called_anything(cli, services, home, name):
    """A name that no id may have is the turns' source in a form that one may."""
    file = home / os.fsdecode(name)
    file.write_text(json.dumps(turn("filed")))
    code, out, err = cli("import", "--format", "jsonl", str(file), "-o", "ada")

    assert (code, err) == (0, "")
    assert out.startswith("1 turns added")
    assert captured(services).source.isprintable()


def test_an_import_goes_on_when_nobody_reads_its_complaints(found, services, home):
    """A closed standard error costs the complaints, not the turns after them."""
    file = home / "turns.jsonl"
    file.write_text(f"nonsense\n{json.dumps(turn('filed'))}\n")
    read, write = os.pipe()
    os.close(read)
    words = [*COMMAND, "import", "--format", "jsonl", str(file), "-o", "ada"]
    process = subprocess.run(words, stdout=subprocess.PIPE, stderr=write, check=False)
    os.close(write)

    assert process.returncode == 1
    assert captured(services).turn[0].content == "filed"


def test_an_interrupted_command_is_quiet(home):
    """Ctrl-C ends a waiting command with 130 and without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = subprocess.Popen(
            [*COMMAND, "status", "--url", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(4)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)

    assert (process.returncode, out, err) == (130, b"", b"")
