"""The audit of `make chaos` sees what it is there to see."""

from __future__ import annotations

import json

from chaos.audit import Audit, Check
from chaos.producers import Session
from chaos.report import Report, errors, events

GROUP = "op__default__ada__default"


def session():
    """Three turns, the second of two messages; the first states something."""
    turns = {"s.0": ["Babo works at Dedu."], "s.1": ["one", "two"], "s.2": ["three"]}
    return Session("s", "ada", "http", turns=turns, facts={"Babo"})


def passage(turn, ordinal, text, **others):
    """One row as the graph has it, understood in the episode ``e``."""
    row = {"uuid": f"{turn}/{ordinal}", "turn_id": turn, "session": "s", "ordinal": ordinal}
    return row | {"part": 0, "text": text, "episode": "e", "waiting": None} | others


def written(*more):
    """All that `session` said, as it should be."""
    first = passage("s.0", 5, "Babo works at Dedu.")
    rest = [passage("s.1", 6, "one"), passage("s.1", 7, "two"), passage("s.2", 9, "three")]
    return [first, *rest, *more]


def faults(passages, *, parts=None, facts=("Babo",)):
    """Return the faults of each check that found some."""
    audit = Audit(None, [session(), Session("t", "bob", "http", facts={"Gugu"})])
    parts = [row | {"done": True, "seq": 3} for row in passages] if parts is None else parts
    audit._once(GROUP, [session()], passages)
    audit._order([session()], passages)
    audit._understood(GROUP, [session()], passages, parts)
    rows = [{"fact": f"{who} works at Dedu", "source": who, "target": "Dedu"} for who in facts]
    audit._facts(GROUP, [session()], rows)
    return {name: check.faults for name, check in audit._checks.items() if check.faults}


def test_what_is_right_passes():
    """A turn, a turn of two messages and a turn, each once, in order, understood."""
    assert faults(written()) == {}


def test_a_missing_message_is_a_loss():
    """Also when the other message of its turn is there."""
    found = faults([row for row in written() if row["text"] != "two"])
    assert list(found) == ["every acknowledged turn is written, word by word"]


def test_a_message_written_twice_is_a_duplicate():
    """Even under an ordinal of its own."""
    found = faults(written(passage("s.2", 10, "three")))
    assert list(found) == ["no turn is written twice"]


def test_the_turn_of_another_operator_is_foreign():
    """Whatever session it names."""
    assert list(faults(written(passage("t.0", 11, "else")))) == [
        "a graph holds turns of its own operator only"
    ]


def test_turns_that_changed_places_are_out_of_order():
    """Ordinals follow the order in which turns were said."""
    first, *rest, last = written()
    found = faults([first | {"ordinal": 20}, *rest, last])
    assert "turns stand in the order in which they were said" in found


def test_a_passage_is_understood_once():
    """Not never, and not in two episodes."""
    rows = written()
    parts = [row | {"done": True, "seq": 3} for row in rows]
    assert list(faults(rows, parts=parts[1:])) == ["every passage is part of a finished episode"]
    assert list(faults(rows, parts=[parts[0], *parts])) == ["no passage is part of two episodes"]


def test_episodes_of_a_session_follow_one_another():
    """A later turn is not understood by an earlier write."""
    rows = written()
    parts = [row | {"done": True, "seq": 9 - at} for at, row in enumerate(rows)]
    assert list(faults(rows, parts=parts)) == ["a session's episodes follow one another"]


def test_facts_are_the_operators_own_and_stand_there_once():
    """Neither missing, nor twice, nor of what somebody else said."""
    assert list(faults(written(), facts=())) == ["every statement became a fact"]
    assert list(faults(written(), facts=("Babo", "Babo"))) == ["no statement became two facts"]
    assert list(faults(written(), facts=("Babo", "Gugu"))) == ["no fact speaks of what others said"]


def test_the_last_line_counts_faults_by_their_kind():
    """It is the one line that says it all."""
    checks = [
        Check("a", "lost", faults=["x", "y"]),
        Check("b", "duplicated", faults=["z"]),
        Check("c", "reordered"),
        Check("d", faults=["w"]),
    ]
    report = Report(checks, 10, 8, takeovers=3, worst_takeover=2.345, figures={})
    assert report.last_line() == (
        "chaos: acknowledged 10, written 8, lost 2, duplicated 1, reordered 0, foreign 0, dead 0, "
        "takeovers 3, worst takeover 2.3 s"
    )
    assert not report.good


def test_events_of_the_logs_are_counted(tmp_path):
    """By their lane or reason; what is no event of ours is passed over."""
    log = tmp_path / "worker.log"
    lines = [{"event": "lease_lost", "lane": "index"}] * 2 + [{"event": "other"}]
    log.write_text("\n".join(map(json.dumps, lines)) + "\nno json\n")
    assert events([log]) == {"lease_lost index": 2}


def test_errors_of_the_logs_are_told(tmp_path):
    """Warnings are expected where there is violence, errors are not."""
    log = tmp_path / "worker.log"
    lines = [{"event": "duty_failed", "level": "error"}, {"event": "x", "level": "warning"}]
    log.write_text("\n".join(map(json.dumps, lines)))
    assert [error.strip() for error in errors([log])] == ["duty_failed"]
