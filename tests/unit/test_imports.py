from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest

from gralkord.client.import_jsonl import MAX_LINE_BYTES, Defaults, jsonl_turns
from gralkord.client.import_locomo import locomo_turns, parse_date, read_samples
from gralkord.client.imports import (
    BATCH_TURNS,
    OPEN_SESSIONS,
    Import,
    ImportTurn,
    RejectedTurn,
)
from gralkord.errors import BackendUnavailable, InvalidInput, QueueFull
from gralkord.models import Capture, CaptureReceipt, FlushResult, Message

SAMPLE = {
    "sample_id": "tale-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Ben",
        "session_10_date_time": "12:05 am on 1 March, 2024",
        "session_10": [{"speaker": "Ada", "dia_id": "D10:1", "text": "Last one."}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ada", "dia_id": "D2:1", "text": "I bought a kite."},
            {"speaker": "Ben", "dia_id": "D2:2", "text": "Look!", "blip_caption": "a red kite"},
        ],
        "session_3_date_time": "1:56 pm on 9 May, 2023",
    },
    "qa": [],
}


class Recorder:
    """A client that remembers what it was asked and answers as told."""

    def __init__(self, refuse=None, known=()):
        self.known = set(known)
        self.batches = []
        self.flushed = []
        self.refuse = refuse or (lambda capture: None)

    async def capture_many(self, captures):
        self.batches.append(list(captures))
        return [self.answer(capture) for capture in captures]

    def answer(self, capture):
        if error := self.refuse(capture):
            return error
        known = capture.turn_id in self.known
        self.known.add(capture.turn_id)
        return CaptureReceipt(
            receipt="1-0", turn_id=capture.turn_id, duplicate=known, durability="always"
        )

    async def flush_and_await(self, session, *, operator=None, until="understood", **_):
        self.flushed.append((session, operator, until))
        return FlushResult(flush="f", state="indexed", complete=True)


def sample_file(tmp_path, sample=SAMPLE):
    path = tmp_path / "tale.json"
    path.write_text(json.dumps(sample))
    return path


def turns_of(sample_path, operator="ada@example.org"):
    (sample,) = read_samples(sample_path)
    return list(locomo_turns(sample, operator=operator, agent="importer"))


def jsonl(text, **defaults):
    stream = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    given = {"operator": "ada", "agent": "importer", "user": "Ada"} | defaults
    return list(jsonl_turns(stream, name="turns.jsonl", defaults=Defaults(**given)))


def a_line(number=1, **fields):
    return json.dumps(
        {"session": "s", "turn": [{"role": "user", "content": f"word {number}"}]} | fields
    )


def numbered(count, session="s"):
    return [
        ImportTurn(
            f"line {number}",
            Capture(
                session=session if isinstance(session, str) else session(number),
                operator="ada",
                agent="importer",
                user="Ada",
                turn=[{"role": "user", "content": str(number)}],
                turn_id=str(number),
            ),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:05 am on 1 March, 2024", datetime(2024, 3, 1, 0, 5, tzinfo=UTC)),
        ("12:30 PM on 31 December 2022", datetime(2022, 12, 31, 12, 30, tzinfo=UTC)),
    ],
)
def test_locomo_dates_are_read_as_utc(text, moment):
    """A date such as 1:56 pm on 8 May, 2023 is that moment in UTC."""
    assert parse_date(text) == moment


@pytest.mark.parametrize(
    "text", ["8 May 2023", "13:56 pm on 8 May, 2023", "1:56 pm on 31 June, 2023", ""]
)
def test_a_date_that_is_none_is_refused(text):
    """A text that names no moment is an error, not a guess."""
    with pytest.raises(ValueError, match=r"."):
        parse_date(text)


def test_a_dialogue_turn_becomes_a_captured_turn_of_its_speaker(tmp_path):
    """Each dialogue turn is one captured turn with its own speaker and its place in the source."""
    first, second, _ = (turn.capture for turn in turns_of(sample_file(tmp_path)))
    assert [first.turn[0].speaker, second.turn[0].speaker] == ["Ada", "Ben"]
    assert (second.source, second.offset) == ("tale-1", "D2:2")
    assert first.session.startswith("tale-1/session_2")


def test_photo_captions_are_part_of_the_text(tmp_path):
    """What a photo shows is recallable like what was said."""
    captures = [turn.capture for turn in turns_of(sample_file(tmp_path))]
    assert captures[1].turn[0].content == "Look! [photo: a red kite]"


def test_turns_of_a_session_keep_their_order_by_time(tmp_path):
    """A later turn of a session has a later event time, starting from the session's date."""
    first, second, _ = (turn.capture for turn in turns_of(sample_file(tmp_path)))
    assert first.event_time == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert second.event_time > first.event_time


def test_sessions_are_read_in_order_of_their_number(tmp_path):
    """Session 10 comes after session 2, and a date without a session is no session."""
    offsets = [turn.capture.offset for turn in turns_of(sample_file(tmp_path))]
    assert offsets == ["D2:1", "D2:2", "D10:1"]


def test_the_user_is_the_speaker_who_is_not_the_operator(tmp_path):
    """Ben's memory of the talk has Ada as its user, everybody else's has Ben."""
    path = sample_file(tmp_path)
    assert turns_of(path, operator="ben")[0].capture.user == "Ada"
    assert turns_of(path, operator="somebody")[0].capture.user == "Ben"


def test_two_operators_can_import_the_same_file(tmp_path):
    """Sessions and turn ids of two operators never meet; those of one are the same each time."""
    path = sample_file(tmp_path)
    ids = [
        {(turn.capture.session, turn.capture.turn_id) for turn in turns_of(path, operator=operator)}
        for operator in ("ada", "ben", "ada")
    ]
    assert ids[0] == ids[2]
    assert not ids[0] & ids[1]


def test_a_file_may_hold_a_list_of_samples(tmp_path):
    """The published form, a list of conversations, is read whole."""
    path = sample_file(tmp_path, [SAMPLE, SAMPLE | {"sample_id": "tale-2"}])
    assert [sample.id for sample in read_samples(path)] == ["tale-1", "tale-2"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conversation": None}, "conversation: an object is missing"),
        ({"conversation": {}}, "it has no session_1"),
        ({"conversation": {"session_1": []}}, "session_1_date_time: is missing"),
        (
            {"conversation": {"session_1": [], "session_1_date_time": "soon"}},
            "session_1_date_time: 'soon' is not a date",
        ),
        (
            {
                "conversation": {
                    "session_1_date_time": "1:56 pm on 8 May, 2023",
                    "session_1": [{"speaker": "Ada", "text": "Hi"}],
                }
            },
            r"session_1\[0\].dia_id: a text is missing",
        ),
        (
            {
                "conversation": {
                    "session_1_date_time": "1:56 pm on 8 May, 2023",
                    "session_1": [{"speaker": "Ada", "text": "Hi", "dia_id": "D1:1"}] * 2,
                }
            },
            r"session_1\[1\].dia_id: 'D1:1' is .*session_1\[0\] too",
        ),
    ],
)
def test_a_malformed_locomo_file_says_where(tmp_path, change, message):
    """An error names the place in the file and what is wrong there."""
    with pytest.raises(InvalidInput, match=message):
        read_samples(sample_file(tmp_path, SAMPLE | change))


def test_a_file_that_is_not_json_is_refused_with_its_name(tmp_path):
    """Not JSON, or not there: one sentence with the path."""
    path = tmp_path / "tale.json"
    with pytest.raises(InvalidInput, match=r"cannot read .*tale\.json"):
        read_samples(path)
    path.write_text("{")
    with pytest.raises(InvalidInput, match=r"tale\.json is not JSON"):
        read_samples(path)
    path.write_bytes(b'"\xff"')
    with pytest.raises(InvalidInput, match=r"is not JSON: byte 2 is not valid UTF-8"):
        read_samples(path)


def test_a_blank_dialogue_turn_is_rejected_alone(tmp_path):
    """A turn without words fails by name, the others are imported."""
    sample = json.loads(json.dumps(SAMPLE))
    sample["conversation"]["session_2"][0]["text"] = " "
    kinds = [type(turn) for turn in turns_of(sample_file(tmp_path, sample))]
    assert kinds == [RejectedTurn, ImportTurn, ImportTurn]


def test_a_line_is_a_capture_request(tmp_path):
    """A line's own fields win over the defaults."""
    (turn,) = jsonl(a_line(operator="ben", event_time="2024-05-01"))
    assert (turn.capture.operator, turn.capture.agent) == ("ben", "importer")
    assert turn.capture.event_time == datetime(2024, 5, 1, tzinfo=UTC)


def test_a_bad_line_is_rejected_by_number_and_the_rest_goes_on():
    """Broken JSON, a wrong field and broken UTF-8 each name their line."""
    good = a_line().encode()
    lines = [good, b"{oops", b'{"session": "s"}', b"", b'"\xff"', a_line(role=1).encode(), good]
    read = jsonl(b"\n".join(lines))
    assert [turn.where for turn in read if isinstance(turn, RejectedTurn)] == [
        *("line 2", "line 3", "line 5", "line 6")
    ]
    assert [turn.where for turn in read if isinstance(turn, ImportTurn)] == ["line 1", "line 7"]
    reasons = [turn.reason for turn in read if isinstance(turn, RejectedTurn)]
    assert reasons[0].startswith("not JSON: ")
    assert reasons[0].endswith(" at column 2")
    assert reasons[2] == "not JSON: byte 2 is not valid UTF-8"
    assert reasons[1] == "turn: is missing"
    assert reasons[3].startswith("role: no such field")


def test_a_line_without_a_user_says_how_to_name_one():
    """Without a default user, a line must name its own."""
    (turn,) = jsonl(a_line(), user=None)
    assert turn.reason == "user: is missing (name one with --user)"


def test_an_endless_line_is_rejected_without_being_read_whole():
    """A line over the limit fails alone; the next line is read as itself."""
    read = jsonl(b"x" * (MAX_LINE_BYTES * 2 + 5) + b"\n" + a_line().encode())
    assert [type(turn) for turn in read] == [RejectedTurn, ImportTurn]
    assert [turn.where for turn in read] == ["line 1", "line 2"]


def test_a_byte_order_mark_is_no_part_of_the_first_line():
    """Files that Windows programs write are read."""
    assert isinstance(jsonl(b"\xef\xbb\xbf" + a_line().encode())[0], ImportTurn)


def test_made_turn_ids_repeat_and_differ():
    """The same file gives the same ids, and the same words on two lines are two turns."""
    text = f"{a_line()}\n{a_line()}"
    ids = [turn.capture.turn_id for turn in jsonl(text)]
    assert ids == [turn.capture.turn_id for turn in jsonl(text)]
    assert len(set(ids)) == 2


async def test_turns_go_in_batches_and_in_order():
    """250 turns are three requests, in the order of the file."""
    client = Recorder()
    report = await Import(client).run(numbered(2 * BATCH_TURNS + 50))
    assert [len(batch) for batch in client.batches] == [BATCH_TURNS, BATCH_TURNS, 50]
    sent = [int(capture.turn_id) for batch in client.batches for capture in batch]
    assert sent == list(range(2 * BATCH_TURNS + 50))
    assert (report.turns, report.added, report.sessions) == (250, 250, 1)


async def test_batches_are_bounded_in_bytes():
    """Turns of 200 kB each do not all go in one request, which the daemon would refuse."""
    client = Recorder()
    big = [
        ImportTurn("line", turn.capture.model_copy(update={"turn": [message]}))
        for turn in numbered(10)
        for message in [Message(role="user", content="x" * 200_000)]
    ]
    await Import(client).run(big)
    assert [len(batch) for batch in client.batches] == [5, 5]


async def test_a_second_run_adds_nothing():
    """Turns that are there already are counted as duplicates."""
    client = Recorder()
    await Import(client).run(numbered(30))
    report = await Import(client).run(numbered(40))
    assert (report.added, report.duplicates, report.failed) == (10, 30, 0)


async def test_every_session_is_flushed_until_indexed():
    """Each session touched is flushed once, for its operator, and awaited until indexed."""
    client = Recorder()
    await Import(client).run(numbered(6, session=lambda number: f"s{number % 3}"))
    assert sorted(client.flushed) == [(f"s{number}", "ada", "indexed") for number in range(3)]


async def test_very_many_sessions_are_flushed_on_the_way():
    """The number of sessions held open is bounded, and each is counted once."""
    client = Recorder()
    count = OPEN_SESSIONS + 3 * BATCH_TURNS
    report = await Import(client).run(numbered(count, session=lambda number: f"s{number}"))
    assert report.sessions == count
    assert len({session for session, _, _ in client.flushed}) == count


async def test_a_refused_turn_is_reported_and_the_rest_goes_on():
    """A turn that can never be taken fails by its place in the file."""
    client = Recorder(refuse=lambda one: InvalidInput("no") if one.turn_id == "2" else None)
    rejected = []
    report = await Import(client, on_rejected=rejected.append).run(numbered(4))
    assert rejected == [RejectedTurn("line 2", "no")]
    assert (report.turns, report.added, report.failed) == (4, 3, 1)


async def test_a_full_queue_is_waited_for():
    """A turn refused for now is offered again, and only that one."""
    refusals = iter([QueueFull("full", retry_after=0.01)])
    client = Recorder(refuse=lambda one: next(refusals, None) if one.turn_id == "1" else None)
    report = await Import(client).run(numbered(3))
    assert [[one.turn_id for one in batch] for batch in client.batches] == [["0", "1", "2"], ["1"]]
    assert (report.added, report.failed) == (3, 0)


async def test_patience_ends():
    """A queue that stays full ends in a failed turn, not in an endless import."""
    client = Recorder(refuse=lambda one: QueueFull("full"))
    report = await Import(client, patience=0.0).run(numbered(2))
    assert report.failed == 2


async def test_a_flush_that_does_not_finish_is_an_error():
    """An import never claims that turns are recallable when they are not."""

    class Slow(Recorder):
        async def flush_and_await(self, session, **_):
            return FlushResult(flush="f", state="queued", complete=False, reason="timeout")

    with pytest.raises(Exception, match="'s' was captured but is not recallable yet: timeout"):
        await Import(Slow()).run(numbered(1))


async def test_a_daemon_that_goes_away_ends_the_import():
    """A connection error is raised as itself."""

    class Gone(Recorder):
        async def capture_many(self, captures):
            raise BackendUnavailable("gone")

    with pytest.raises(BackendUnavailable, match="gone"):
        await Import(Gone()).run(numbered(1))
