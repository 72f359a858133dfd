"""What an erasure takes of a group, worked out without a graph."""

from __future__ import annotations

import pytest

from gralkord.graph.doomed import Doomed, KnownFact, settle_entities, settle_facts


def fact(uuid, *episodes, by=None, reason="same_relation_and_source", source=None, **fields):
    return KnownFact(
        uuid,
        episodes,
        fields.get("ends", ("a", "b")),
        source,
        fields.get("told", False),
        by,
        reason if by else None,
        fields.get("before"),
        fields.get("invalid_at"),
    )


def settled(*facts, episodes=(), named=(), source=None):
    doomed = Doomed(episodes=set(episodes))
    settle_facts(doomed, {one.uuid: one for one in facts}, named=named, source=source)
    return doomed


def test_a_fact_goes_with_its_last_episode():
    """One that others say as well forgets the episode; one that was told by itself stays."""
    doomed = settled(
        fact("only", "e1"),
        fact("both", "e1", "e2"),
        fact("told", "e1", told=True),
        fact("sourced", "e1", source="crm"),
        fact("other", "e2"),
        episodes={"e1"},
    )
    assert doomed.facts == {"only"}
    kept = {row["uuid"]: row["episodes"] for row in doomed.kept}
    assert kept == {"both": ["e2"], "told": [], "sourced": []}


def test_a_source_takes_what_was_told_from_it():
    """A fact of the source goes, unless an episode says it, too; then it forgets the source."""
    doomed = settled(
        fact("told", source="crm", told=True),
        fact("said", "e1", source="crm"),
        fact("other", source="book", told=True),
        source="crm",
    )
    assert doomed.facts == {"told"}
    assert doomed.kept == [{"uuid": "said", "episodes": ["e1"], "forget": True}]


def test_what_an_erased_fact_has_ended_comes_back():
    """It ends again when it had ended before, and what others have ended stays so."""
    doomed = settled(
        fact("old", "e1", by="new", before="2023-01-01", invalid_at="2024-01-01"),
        fact("new", "e2"),
        fact("elsewhere", "e1", by="kept", invalid_at="2024-01-01"),
        fact("kept", "e1"),
        episodes={"e2"},
    )
    assert doomed.revived == [{"uuid": "old", "invalid_at": "2023-01-01", "by": None, "back": True}]


@pytest.mark.parametrize("reason", ["same_relation_and_source", "same_entities"])
def test_the_successor_of_an_erased_fact_ends_what_that_had_ended(reason):
    """From A to B to C without B is from A to C, but only where all ended for the same reason."""
    doomed = settled(
        fact("a", "e1", by="b", invalid_at="2022"),
        fact("b", "e2", by="c", reason=reason, invalid_at="2023"),
        fact("c", "e3"),
        episodes={"e2"},
    )
    same = reason == "same_relation_and_source"
    assert doomed.revived == [
        {"uuid": "a", "invalid_at": "2023" if same else None, "by": "c" if same else None}
        | {"back": not same}
    ]


def test_facts_that_have_ended_each_other_go_together():
    """A circle of erased facts ends no search, and nothing comes back for what is gone itself."""
    doomed = settled(
        fact("a", "e1", by="b"),
        fact("b", "e2", by="c"),
        fact("c", "e2", by="b"),
        episodes={"e2"},
    )
    assert [row["back"] for row in doomed.revived] == [True]
    assert settled(fact("a", "e1", by="b"), fact("b", "e1"), episodes={"e1"}).revived == []


def test_entities_that_nothing_is_said_of_go():
    """Others are told anew from what is left, and no longer than a summary may be."""
    doomed = Doomed(episodes={"e1"})
    long = "x" * 1_500
    settle_entities(
        doomed,
        {"gone": ["e1"], "mentioned": ["e1", "e2"], "known": ["e1"], "long": []},
        {"known": ["It is so.", "It is so.", "And so."], "long": [long, long + "y"]},
    )
    assert doomed.entities == {"gone"}
    assert doomed.summaries == {"mentioned": "", "known": "It is so.\nAnd so.", "long": long}
