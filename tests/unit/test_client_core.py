from __future__ import annotations

import inspect
import json
import math
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx
import orjson
import pytest

import gralkord
from gralkord import errors
from gralkord.client import calls
from gralkord.client.answers import Failure, failure_of
from gralkord.client.client import AsyncClient
from gralkord.client.discovery import Endpoint
from gralkord.client.receipts import Watch
from gralkord.client.sync import Client
from gralkord.client.transport import Retry, broken, connection
from gralkord.errors import (
    BackendUnavailable,
    ConfigError,
    DeadlineExpired,
    GralkorError,
    InvalidInput,
    Permanent,
    QueueFull,
    RateLimited,
    SessionConflict,
    Transient,
    Unauthorized,
    rebuild_error,
)
from gralkord.models import Capture, CaptureReceipt, Message
from gralkord.rpc.errors import STATUS, error_content

ENDPOINT = Endpoint("http://127.0.0.1:7767", "secret")


def fields(**changes):
    return {"session": "s", "operator": "o", "agent": "a", "user": "u"} | changes


def body_of(call):
    return json.loads(call.body)


def all_kinds():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return [kind for kind in kinds if issubclass(kind, GralkorError)]


def test_no_two_errors_share_a_code():
    """A code on the wire means one class."""
    assert len({kind.code for kind in all_kinds()}) == len(all_kinds()) > 20


def test_a_turn_gets_an_id_before_it_is_sent():
    """Two captures have two ids, one capture has one for all its tries."""
    first = calls.capture("hello", **fields())
    second = calls.capture("hello", **fields())

    assert len(body_of(first)["turn_id"]) == 32
    assert body_of(first)["turn_id"] != body_of(second)["turn_id"]
    assert first.repeatable


def test_a_turn_may_be_text_or_messages():
    """Text is the user's; messages are taken as they are, models or mappings."""
    text = calls.capture("hello", **fields())
    many = calls.capture(
        (Message(role="user", content="hi"), {"role": "assistant", "content": "yes"}), **fields()
    )

    assert body_of(text)["turn"] == [{"role": "user", "content": "hello"}]
    assert [one["role"] for one in body_of(many)["turn"]] == ["user", "assistant"]


def test_a_time_is_sent_as_it_was_given():
    """A time without a zone arrives without one, so that the daemon can note it."""
    naive = calls.capture("x", event_time=datetime(2024, 5, 1, 9, 30), **fields())  # noqa: DTZ001
    aware = calls.capture("x", event_time=datetime(2024, 5, 1, 9, 30, tzinfo=UTC), **fields())

    assert body_of(naive)["event_time"] == "2024-05-01T09:30:00"
    assert body_of(aware)["event_time"] == "2024-05-01T09:30:00+00:00"


@pytest.mark.parametrize(
    ("turn", "changes", "field"),
    [
        ("x", {"operator": " "}, "operator"),
        ("x", {"session": None}, "session"),
        ("", {}, "turn"),
        (None, {}, "turn"),
        (5, {}, "turn"),
        ([{"role": "robot", "content": "x"}], {}, "turn.0.role"),
        ("a\x00", {}, "turn.0.content"),
        ("\ud800", {}, "turn.0.content"),
        ("x", {"event_time": "soon"}, "event_time"),
        ("x", {"lenses": "work"}, "lenses"),
    ],
)
def test_a_bad_turn_is_refused_before_it_is_sent(turn, changes, field):
    """The client says the same about a bad turn as the daemon would."""
    with pytest.raises(InvalidInput) as caught:
        calls.capture(turn, **fields(**changes))

    assert caught.value.field == field


def drive(captures, answer):
    """Run a batch capture; *answer* makes the answer of each call. Return outcomes and calls."""
    made = []
    steps = calls.capture_all(captures)
    try:
        call = next(steps)
        while True:
            made.append(call)
            call = steps.send(answer(call))
    except StopIteration as end:
        return end.value, made


def receipts(call):
    count = len(body_of(call)["captures"])
    results = [
        {
            "index": n,
            "receipt": {
                "receipt": f"{n}-0",
                "turn_id": body_of(call)["captures"][n]["turn_id"],
                "durability": "always",
                "field_of_a_newer_daemon": 1,
            },
        }
        for n in range(count)
    ]
    return call.read(orjson.dumps({"results": results}))


def capture_of(text, **changes):
    return fields(turn=[{"role": "user", "content": text}], **changes)


def test_many_captures_are_cut_into_requests():
    """A request holds at most 100 captures and 1.5 MB, in order."""
    outcomes, made = drive([capture_of(f"turn {n}") for n in range(250)], receipts)
    _, large = drive([capture_of("x" * 200_000)] * 20, receipts)

    assert [len(body_of(call)["captures"]) for call in made] == [100, 100, 50]
    assert len(outcomes) == 250
    assert max(len(call.body) for call in large) < 1_600_000
    assert sum(len(body_of(call)["captures"]) for call in large) == 20


def test_a_bad_capture_is_not_sent_and_stops_no_other():
    """Each bad capture has its error at its place, the others are sent."""
    outcomes, [call] = drive(
        [capture_of("one"), capture_of("two", user=""), "three", capture_of("four")], receipts
    )

    assert [type(one) for one in outcomes] == [
        CaptureReceipt,
        InvalidInput,
        InvalidInput,
        CaptureReceipt,
    ]
    assert outcomes[1].field == "user"
    assert len(body_of(call)["captures"]) == 2


def test_only_bad_captures_send_nothing():
    """There is no request without a capture."""
    outcomes, made = drive([capture_of("", user="")], receipts)

    assert made == []
    assert isinstance(outcomes[0], InvalidInput)
    assert drive([], receipts) == ([], [])


def test_after_a_failure_for_now_nothing_more_is_sent():
    """The failure is the outcome of its turns and of all after them, which keeps the order."""
    full = QueueFull("full", retry_after=3)
    answers = iter([receipts, lambda _: full])

    def answer(call):
        return next(answers)(call)

    outcomes, made = drive([capture_of(f"{n}") for n in range(350)], answer)

    assert len(made) == 2
    assert all(isinstance(one, CaptureReceipt) for one in outcomes[:100])
    assert outcomes[100:] == [full] * 250


def test_a_refusal_of_the_caller_is_raised():
    """A wrong token concerns no single turn."""
    with pytest.raises(Unauthorized):
        drive([capture_of("x")], lambda _: Unauthorized("no"))


def test_an_error_in_a_batch_names_the_field_of_its_turn():
    """The index of a request that the caller never saw is left out."""
    content = {
        "error": error_content(
            InvalidInput("captures.0.turn: too long", field="captures.0.turn", limit=9)
        )
    }
    [outcome], _ = drive(
        [capture_of("x")],
        lambda call: call.read(orjson.dumps({"results": [{"index": 0} | content]})),
    )

    assert (outcome.field, outcome.message, outcome.limit) == ("turn", "turn: too long", 9)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"results": []}', b'{"results": [{}]}', b"<p>"]
)
def test_an_answer_that_makes_no_sense_is_an_error(body):
    """A success in another form is said to be one, not taken for a receipt."""
    with pytest.raises(GralkorError, match="cannot be read"):
        drive([capture_of("x")], lambda call: call.read(body))
    with pytest.raises(GralkorError, match="cannot be read"):
        calls.recall("o", "q").read(body)


def test_a_capture_model_is_sent_without_what_it_leaves_out():
    """Defaults are not sent; the id is added."""
    _, [call] = drive([Capture(**capture_of("x"))], receipts)

    assert set(body_of(call)["captures"][0]) == {*fields(), "turn", "turn_id"}


def test_a_waiting_flush_is_given_the_time_it_waits():
    """The client waits a little longer than the daemon was told to."""
    waiting = calls.flush("s", operator="o", until="indexed", timeout=90)
    quick = calls.flush("s", operator=None, until="understood")

    assert body_of(waiting) == {
        "session": "s",
        "operator": "o",
        "wait": True,
        "until": "indexed",
        "timeout_ms": 90_000,
    }
    assert waiting.timeout > 90
    assert body_of(quick)["wait"] is False
    assert quick.timeout is None


@pytest.mark.parametrize("timeout", [0, -1, 601, math.nan, math.inf])
def test_a_flush_timeout_has_limits(timeout):
    """A timeout that the daemon would refuse is refused at once."""
    with pytest.raises(InvalidInput):
        calls.flush("s", operator=None, until="indexed", timeout=timeout)


def test_a_job_is_followed_for_a_time_that_is_a_number():
    """However long is as long as there is; what is no number is refused."""
    assert Watch("1-1", math.inf).call(0.0).path.endswith("timeout_ms=600000")
    with pytest.raises(InvalidInput, match="finite"):
        Watch("1-1", math.nan).call(0.0)


def test_a_recall_with_a_deadline_is_waited_for():
    """A deadline longer than the client's timeout lengthens that."""
    assert calls.recall("o", "q", deadline_ms=60_000).timeout > 60
    assert body_of(calls.recall("o", "q", lenses=("a",), session=None))["lenses"] == ["a"]


def test_every_error_survives_the_wire():
    """Each class comes back as itself, with all it knows."""
    for kind in all_kinds():
        error = kind("words", field="turn.0", limit=7, hint="try", retry_after=2.5)
        again = rebuild_error(json.loads(orjson.dumps(error_content(error))))

        assert type(again) is kind
        assert again.to_dict() == error.to_dict()


def test_an_unknown_code_keeps_its_nature():
    """An error of a newer daemon is transient or permanent as it says."""
    assert type(rebuild_error({"code": "new", "message": "m", "retry": True})) is Transient
    assert type(rebuild_error({"code": "new", "message": "m", "retry": False})) is Permanent
    assert rebuild_error({"detail": "m"}) is None


def test_every_error_class_has_a_status():
    """No error is answered with a status by accident."""
    for kind in all_kinds():
        assert any(base in STATUS for base in kind.__mro__)


@pytest.mark.parametrize(
    ("status", "kind", "again"),
    [
        (401, Unauthorized, False),
        (404, GralkorError, False),
        (302, Permanent, False),
        (429, RateLimited, True),
        (500, Transient, False),
        (502, BackendUnavailable, False),
        (503, BackendUnavailable, True),
    ],
)
def test_an_answer_of_another_program_is_an_error(status, kind, again):
    """An answer without our form is judged by its status."""
    failure = failure_of(status, {}, b"<h1>hello</h1>")

    assert isinstance(failure.error, kind)
    assert failure.again is again


def test_a_success_is_no_failure():
    """2xx, and the one status that a call reads too, are answers."""
    assert failure_of(202, {}, b"") is None
    assert failure_of(503, {}, b"", read_also=503) is None


def test_an_expired_deadline_is_not_tried_again():
    """A recall that took its whole deadline is not sent once more by itself."""
    body = orjson.dumps({"error": error_content(DeadlineExpired())})

    assert failure_of(504, {}, body).again is False


def test_retry_after_is_taken_from_the_header():
    """The header counts where the body names no time."""
    failure = failure_of(
        429, {"retry-after": "7"}, orjson.dumps({"error": error_content(QueueFull())})
    )

    assert failure.error.retry_after == 7


def test_pauses_grow_and_end():
    """Each pause is within its bound; after the last try there is none."""
    retry = Retry(retries=3, base=0.1, cap=0.3)
    failure = Failure(BackendUnavailable(), again=True)

    for tried, bound in ((1, 0.1), (2, 0.2), (3, 0.3)):
        assert 0 <= retry.pause(failure, tried=tried, waited=0) <= bound
    assert retry.pause(failure, tried=4, waited=0) is None


def test_a_daemon_that_asks_for_more_patience_is_given_up():
    """Retry-After is obeyed within the patience, and not waited for beyond it."""
    retry = Retry(patience=10)

    soon = retry.pause(Failure(QueueFull(retry_after=4), again=True), tried=1, waited=0)
    assert 4 <= soon <= 5
    assert retry.pause(Failure(QueueFull(retry_after=60), again=True), tried=1, waited=0) is None
    assert retry.pause(Failure(QueueFull(retry_after=4), again=True), tried=2, waited=7) is None
    assert retry.pause(Failure(SessionConflict(), again=False), tried=1, waited=0) is None


def test_what_may_have_been_done_is_repeated_only_if_harmless():
    """A capture is repeated after a broken connection, a flush only if it was never sent."""
    capture, flush = (
        calls.capture("x", **fields()),
        calls.flush("s", operator=None, until="indexed"),
    )

    assert broken(capture, ENDPOINT, httpx.ReadError("x")).again is True
    assert broken(capture, ENDPOINT, httpx.ReadTimeout("x")).again is True
    assert broken(flush, ENDPOINT, httpx.ReadError("x")).again is False
    assert broken(flush, ENDPOINT, httpx.ConnectError("x")).again is True


def test_an_unreachable_daemon_comes_with_the_command_that_starts_it():
    """The hint names the data directory if it is known."""
    endpoint = Endpoint("http://127.0.0.1:1", None, Path("/data/memory"))
    error = broken(calls.status(), endpoint, httpx.ConnectError("x")).error

    assert isinstance(error, BackendUnavailable)
    assert error.hint == "start it with `gralkord up --data-dir /data/memory`"


@pytest.mark.parametrize(
    ("url", "base", "socket"),
    [
        ("http://127.0.0.1:7767", "http://127.0.0.1:7767", None),
        ("https://memory.example", "https://memory.example", None),
        ("unix:/run/a b.sock", "http://localhost", "/run/a b.sock"),
        ("unix:///run/g.sock", "http://localhost", "/run/g.sock"),
    ],
)
def test_urls_lead_to_ports_and_sockets(url, base, socket):
    """TCP and Unix sockets are both addresses."""
    options, found = connection(Endpoint(url, "secret"))

    assert (options["base_url"], found) == (base, socket)
    assert options["headers"]["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("url", ["127.0.0.1:7767", "ftp://x", "http://", "http://h:x", "unix:", ""])
def test_other_urls_are_refused(url):
    """What is no URL of a daemon is said to be none."""
    with pytest.raises(ConfigError, match="URL"):
        connection(Endpoint(url))


def test_a_token_is_not_shown():
    """An endpoint can be printed without giving the token away."""
    assert "secret" not in repr(ENDPOINT)


def test_both_clients_have_the_same_methods():
    """The sync client is the async one without the waiting."""
    for name, method in inspect.getmembers(AsyncClient, inspect.isfunction):
        if name.startswith("_") and name not in {"__init__", "_send"}:
            continue
        twin = getattr(Client, name)
        waiting = str(inspect.signature(method))
        assert str(inspect.signature(twin)) == waiting.replace("AsyncIterator", "Iterator")
        assert twin.__doc__ == method.__doc__


def test_the_clients_are_names_of_the_package():
    """`gralkord.Client` and `gralkord.AsyncClient` are there, other names are not."""
    assert gralkord.Client is Client
    assert gralkord.AsyncClient is AsyncClient
    assert {"Client", "AsyncClient", "__version__"} <= set(dir(gralkord))
    with pytest.raises(AttributeError, match="Server"):
        gralkord.Server  # noqa: B018


def test_importing_the_package_loads_nothing_heavy():
    """`import gralkord` waits for no library."""
    code = (
        "import sys, gralkord, gralkord.client\n"
        "heavy = {'httpx', 'numpy', 'graphiti_core', 'pydantic', 'fastapi', 'redis', 'structlog'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
