"""What is done with candidates, as pure functions; and what of a conversation is read at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from gralkord.errors import MalformedOutput
from gralkord.graph.notes import FoundNote
from gralkord.graph.rows import FactRow
from gralkord.testing.consolidating import memory_candidates, memory_decisions
from gralkord.testing.prompts import Prompt
from gralkord.turns.consolidate.candidates import (
    CHARS_A_CALL,
    MOST_KEPT,
    Candidate,
    Line,
    extract,
    part,
)
from gralkord.turns.consolidate.decisions import Decision, decide, read_decisions, repeats
from gralkord.turns.consolidate.reconcile import nearest
from gralkord.turns.consolidate.writing import Origin, changes_of, told_before

WHEN = datetime(2026, 3, 4, tzinfo=UTC)
ORIGIN = Origin("g", "episode", WHEN)


def candidate(content, confidence=0.9):
    """Return a candidate."""
    return Candidate(content, "semantic", 0.5, confidence)


def known(text, uuid="m1"):
    """Return a memory of a group's cache."""
    times = dict.fromkeys(("created_at", "valid_at", "invalid_at", "expired_at", "reference_time"))
    return FactRow(
        uuid, "MEMORY", text, uuid, uuid, "g", episodes=(), attributes={}, seq=1, **times
    )


def found(text, score, uuid="m1"):
    """Return a memory that is near to something."""
    return FoundNote(known(text, uuid), score)


def said(index, action, target=-1):
    """Return what a model says of a candidate."""
    return {"index": index, "action": action, "target": target, "reason": " be\ncause "}


@pytest.mark.parametrize(
    ("near", "action"),
    [
        ([], "add"),
        ([found("Ann likes coffee", 0.96)], "add"),
        ([found("Ann is fond of tea", 0.97)], "noop"),
        ([found("ANN  likes tea", 0.0)], "noop"),
    ],
)
def test_what_is_nearly_known_is_dropped(near, action):
    """From a cosine of 0.97 on, or with the same words."""
    [decision] = decide([candidate("Ann likes tea")], [near])
    assert decision.action == action
    assert (decision.known is not None) == (action == "noop")


def test_what_shares_words_or_is_near_is_looked_at():
    """The nearest come first, at most five; what is of something else is left out."""
    some = [
        found("The sky is blue", 0.02, "m1"),
        found("Ada lives in Rome", 0.25, "m2"),
        found("Ada has moved", 0.4, "m3"),
        *(found("Oslo", 0.0, f"o{at}") for at in range(5)),
    ]
    near = [one.row.uuid for one in nearest("Ada lives in Oslo", some)]
    assert near[:2] == ["m2", "m3"]
    assert len(near) <= 5
    assert "m1" not in near


def test_near_is_not_the_same_where_a_model_decides():
    """It may say the opposite; the same words need nobody to decide."""
    near = [[found("Ann likes no tea", 0.99)], [found("ann likes TEA", 0.99)]]
    decisions = decide([candidate("Ann likes tea")] * 2, near, by_words=True)
    assert [each.action for each in decisions] == ["add", "noop"]


def test_a_repeat_within_a_batch_is_found_by_vector_or_words():
    """It names the first that says it."""
    batch = [candidate(text) for text in ("tea", "Ann skis", "green tea", "ann SKIS")]
    vectors = np.array([[1, 0], [0, 1], [0.99, 0.14], [0, 0]], dtype=np.float32)
    assert repeats(batch, vectors) == {2: 0, 3: 1}
    assert repeats(batch, None) == {3: 1}


@pytest.mark.parametrize(
    "answer",
    [
        [said(0, "add")],
        [said(0, "add"), said(1, "update")],
        [said(0, "add"), said(1, "update", 3)],
        [said(0, "forget", 1), said(1, "add")],
    ],
)
def test_a_decision_that_does_not_fit_spoils_all(answer):
    """One that is missing, or about a memory that this candidate was not shown with."""
    shown = [{0: known("a")}, {0: known("a"), 1: known("b", "m2")}]
    with pytest.raises(MalformedOutput):
        read_decisions(answer, [candidate("x"), candidate("y")], shown)


def test_the_first_decision_about_a_candidate_counts_and_a_memory_is_ended_once():
    """A second one that would end it adds, or does nothing."""
    rows = {0: known("a")}
    answer = [
        said(0, "update", 0),
        said(0, "forget", 0),
        said(9, "forget", 0),
        said(1, "update", 0),
        said(2, "forget", 0),
        said(3, "noop", 7),
    ]
    batch = [candidate(text) for text in "wxyz"]
    decisions = read_decisions(answer, batch, [rows] * 4)
    assert [each.action for each in decisions] == ["update", "add", "noop", "noop"]
    assert decisions[0].reason == "be cause"
    assert decisions[3].known is None


def test_changes_are_one_set_of_notes_and_ends():
    """A forgotten memory is ended by the episode, an updated one by what takes its place."""
    decisions = [
        Decision("update", candidate("new"), known("old")),
        Decision("forget", candidate("gone"), known("gone", "m2")),
        Decision("noop", candidate("new!"), like=0),
    ]
    changes = changes_of(decisions, ORIGIN)
    [note] = changes.notes
    assert (note.text, note.confidence, note.attributes["importance"]) == ("new", 0.9, 0.5)
    assert [(end.uuid, end.by, end.reason) for end in changes.ends] == [
        ("m1", note.uuid, "updated"),
        ("m2", "episode", "forgotten"),
    ]
    assert [(one["id"], one["target"]) for one in changes.answers] == [
        (note.uuid, "m1"),
        (None, "m2"),
        (None, note.uuid),
    ]
    assert changes.counts() == {"add": 0, "update": 1, "forget": 1, "noop": 1}
    made = [replace(known("new", note.uuid), episodes=("episode",))]
    ended = [
        replace(known("old"), superseded_by=note.uuid),
        replace(known("gone", "m2"), superseded_by="episode"),
    ]
    told = told_before("episode", made, ended)
    assert [(one["action"], one["id"], one["target"]) for one in told] == [
        ("update", note.uuid, "m1"),
        ("forget", None, "m2"),
    ]


class Model:
    """Answers with the same candidates for each part of a conversation."""

    name = "fake"

    def __init__(self, *memories):
        self.memories = list(memories)
        self.prompts = []

    async def complete(self, messages, schema, **_):
        """Return the candidates."""
        self.prompts.append(messages[-1].content)
        return {"memories": self.memories}


def raw(content, confidence=0.9):
    """Return a candidate as a model gives it."""
    return {"content": content, "kind": "semantic", "importance": 7, "confidence": confidence}


async def test_a_long_conversation_is_read_in_parts_without_losing_a_word():
    """No call has more than so many characters, and a message that is longer is cut."""
    model = Model(raw("  Ann\n skis "), raw(" "), raw("Bob", float("nan")))
    lines = [Line("Ann", "user", "x" * (CHARS_A_CALL + 10)), Line("Bob", "user", "yes")]
    out = await extract(model, lines, WHEN, group=None, min_confidence=0.5)
    assert [one.content for one in out.kept] == ["Ann skis", "Ann skis"]
    assert {one.importance for one in out.kept} == {1.0}
    assert out.left_out == 2
    texts = [
        one["text"] for prompt in model.prompts for one in Prompt(prompt).literal("CONVERSATION")
    ]
    assert "".join(texts) == "x" * (CHARS_A_CALL + 10) + "yes"


async def test_of_too_many_candidates_the_surest_are_kept():
    """In the order in which they were said."""
    rows = [raw(f"fact {at}", 0.6 + at / 1000) for at in range(MOST_KEPT + 5)]
    out = await extract(
        Model(*rows), [Line("Ann", "user", "x")], WHEN, group=None, min_confidence=0
    )
    assert [one.content for one in out.kept] == [f"fact {at}" for at in range(5, MOST_KEPT + 5)]
    assert out.left_out == 5


def test_the_scripted_model_finds_and_decides_by_rules():
    """It keeps what is stated, and ends what is denied or so now."""
    lines = [
        {"speaker": "Ann", "role": "user", "text": "I like tea. Really? Maybe I ski there."},
        {"speaker": "bot", "role": "assistant", "text": "I like tea, too."},
    ]
    out = memory_candidates(Prompt(part("CONVERSATION", lines)))["memories"]
    assert [(one["content"], one["kind"], one["confidence"]) for one in out] == [
        ("Ann likes tea.", "preference", 0.9),
        ("Maybe Ann ski there.", "semantic", 0.3),
    ]
    known_ = [{"number": 4, "content": "Ann lives in Rome."}]
    asked = [
        {"index": at, "content": text, "known": [4]}
        for at, text in enumerate(
            (
                "Ann lives in Rome",
                "Ann now lives in Oslo.",
                "Ann does not live in Rome any more.",
                "Ann lives in peace.",
            )
        )
    ]
    prompt = Prompt(part("KNOWN", known_) + "\n" + part("CANDIDATES", asked))
    actions = [one["action"] for one in memory_decisions(prompt)["decisions"]]
    assert actions == ["noop", "update", "forget", "add"]
