"""The queue's numbers in words."""

from __future__ import annotations

import pytest

from gralkord.cli.output import tree_lines
from gralkord.cli.status import queue_words


def lane(items, oldest=None, *, ready=0, leased=0, waiting=0, complete=True):
    """Return what the daemon says of a lane."""
    return {
        "items": items,
        "oldest_seconds": oldest,
        "ready": ready,
        "leased": leased,
        "waiting": waiting,
        "complete": complete,
    }


def queue(**parts):
    """Return what the daemon says of the queue."""
    return {
        "state": "ok",
        "intake": {"state": "open", "entries": 0, "oldest_seconds": None},
        "index": lane(0),
        "understand": lane(0),
        "memory": {"bytes": 2 * 1024 * 1024, "limit": None, "percent": None},
        "counters": {},
        **parts,
    }


def test_a_quiet_queue_is_told_in_few_words():
    """Nothing waits, and counters that never counted are left out."""
    assert list(tree_lines({"queue": queue_words(queue())})) == [
        "queue:",
        "  state: ok",
        "  intake: open; nothing waits",
        "  index: nothing waits",
        "  understand: nothing waits",
        "  memory: 2.0 MB",
    ]


def test_a_backlog_is_told_with_its_age():
    """Numbers, ages and the reason why intake is closed stand in one line each."""
    words = queue_words(
        queue(
            intake={"state": "closed: memory", "entries": 1, "oldest_seconds": 2.25},
            index=lane(12, 75.0, ready=2, leased=1),
            understand=lane(700, 7300.0, waiting=250, complete=False),
            memory={"bytes": 3 * 2**20, "limit": 4 * 2**20, "percent": 75.0},
            counters={"takeovers": 2},
        )
    )
    assert words["intake"] == "closed: memory; 1 waits, the oldest for 2.2 s"
    assert words["index"] == (
        "12 items wait, the oldest for 1 min 15 s; "
        "groups: 2 ready, 1 at work, 0 waiting for their next attempt"
    )
    assert words["understand"].startswith("at least 700 items wait, the oldest for 2 h 1 min; ")
    assert words["memory"] == "3.0 MB of 4.0 MB (75 %)"
    assert words["counters"] == {"takeovers": 2}


@pytest.mark.parametrize("said", [{"state": "the queue does not answer"}, {"intake": 3}])
def test_what_is_not_known_stays_as_it_is(said):
    """A queue that is away, and a daemon of another version, are shown as they tell."""
    assert queue_words(said) == said
