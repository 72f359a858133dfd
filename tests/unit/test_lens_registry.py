"""Where turns go and what questions reach, by the lenses they name and by the agent's own."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from gralkord.config import Agent, Lens
from gralkord.daemon.services import DaemonServices
from gralkord.errors import UnknownLens
from gralkord.graph.passages import StoredPassage
from gralkord.groups import Group, parse_group
from gralkord.lenses.registry import LensRegistry

LENSES = LensRegistry(
    {
        "work": Lens(),
        "kept": Lens(ingestion="index"),
        "own": Lens(ingestion="shop:run"),
        "lessons": Lens(ingestion="generalise"),
        "all": Lens(scope="global"),
        "habits": Lens(scope="global", ingestion="generalise"),
    },
    agents={
        "bot": Agent(
            default_lens="work", search_lenses=["kept", "global"], generalise_lens="habits"
        ),
        "plain": Agent(default_lens="kept"),
    },
)
ALL = Group("t")


def of(*names, operator="ann"):
    """Return the groups of an operator's lenses."""
    return tuple(ALL if name == "global" else Group("t", operator, name) for name in names)


@pytest.mark.parametrize(
    ("agent", "named", "through"),
    [
        (None, [], ["default"]),
        ("nobody", [], ["default"]),
        ("bot", [], ["work", "habits"]),
        ("bot", ["default"], ["default", "habits"]),
        ("bot", ["habits"], ["habits"]),
        ("bot", ["own", "all", "own"], ["own", "all", "habits"]),
        ("plain", [], ["kept"]),
        ("plain", ["work"], ["work"]),
    ],
)
def test_a_turn_goes_through_the_lenses_that_it_names_or_its_agents(agent, named, through):
    """What is named for one turn comes before the agent's; it is generalised in any case, once."""
    assert list(LENSES.captured(named, agent)) == through


@pytest.mark.parametrize(
    ("named", "homes", "understood"),
    [
        (["default"], ["default"], [["default"]]),
        (["default", "work"], ["default", "work"], [["default"], ["work"]]),
        # Other processes keep words only where they would have no home.
        (["default", "own", "lessons"], ["default"], [["default", "own", "lessons"]]),
        (["own", "lessons"], ["own"], [["own", "lessons"]]),
        (["kept"], ["kept"], [[]]),
        (["kept", "own"], ["kept"], [["own"]]),
        (["all"], ["default"], [["global"]]),
        (["all", "habits", "work"], ["work"], [["work", "global"]]),
        (["kept", "all"], ["kept"], [["global"]]),
    ],
)
def test_words_are_kept_and_understood_where_lenses_say(named, homes, understood):
    """Each operator has groups of its own; what global lenses share keeps no words."""
    for operator in ("ann", "bob"):
        targets = LENSES.targets("t", operator, named)
        assert targets.homes == of(*homes, operator=operator)
        assert [targets.understood[home] for home in targets.homes] == [
            of(*names, operator=operator) for names in understood
        ]


@pytest.mark.parametrize(
    ("agent", "named", "searched"),
    [
        (None, [], ["default"]),
        (None, ["work", "default", "work"], ["default", "work"]),
        ("bot", [], ["default", "work", "kept", "global"]),
        ("bot", ["own"], ["default", "work", "own"]),
        ("plain", [], ["default", "kept"]),
        (None, ["all", "global", "habits"], ["default", "global"]),
    ],
)
def test_a_question_reaches_default_first_then_the_agents_lens_then_others(agent, named, searched):
    """Each once; two lenses that share a memory are one."""
    assert LENSES.searched("t", "ann", named, agent) == list(of(*searched))


def test_names_that_are_not_configured_are_refused():
    """With the names that are."""
    for refused in (LENSES.targets, LENSES.searched):
        with pytest.raises(UnknownLens, match="'gone'") as caught:
            refused("t", "ann", ["work", "gone"])
        assert "work" in (caught.value.hint or "")
    with pytest.raises(UnknownLens):
        LENSES.targets("t", "ann", ["global"])


def said(number, through):
    """Return a passage that waits."""
    when = datetime(2026, 3, 4, tzinfo=UTC)
    place = {"session": "s", "ordinal": number, "part": 0, "event_time": when}
    words = {"text": "tea", "speaker": "Ann", "role": "user", "agent": "bot"}
    return StoredPassage(f"p{number}", turn_id=f"t{number}", through=through, **place, **words)


async def test_a_backfill_leaves_alone_what_an_index_lens_keeps():
    """But for what went through other lenses as well."""
    groups = of("kept", "work", "global", "gone", operator="bob")
    assert [LENSES.keeps_only_words(group) for group in groups] == [True, False, False, False]
    queued = []

    class Mailbox:
        async def deliver(self, items):
            queued.extend((group, item.body.get("lens")) for _, group, item in items)
            return []

    class Passages:
        async def waiting(self, group, _limit, after=None):
            waits = after is None and parse_group(group).lens == "kept"
            return [said(0, ()), said(1, ("kept", "all"))] if waits else []

    async def names(*_):
        return [group.id for group in groups]

    async def ring(_rings):
        pass

    daemon = SimpleNamespace(
        model="scripted",
        _groups=names,
        lenses=LENSES,
        passages=Passages(),
        mailbox=Mailbox(),
        duties=SimpleNamespace(ring=ring),
    )
    done = await DaemonServices.backfill(daemon, "t", None)
    assert done["items"] == 1
    assert queued == [(Group("t").id, "all")]


@pytest.mark.parametrize(
    ("ask", "field"),
    [
        (lambda: LENSES.lens("nope"), "lens"),
        (lambda: LENSES.alone("t", "ann", "nope"), "lens"),
        (lambda: LENSES.reached("t", "ann", ["nope"]), "lenses"),
        (lambda: LENSES.targets("t", "ann", ["nope"]), "lenses"),
    ],
)
def test_an_unknown_lens_is_told_by_the_field_that_names_it(ask, field):
    """One lens stands in `lens`, several in `lenses`."""
    with pytest.raises(UnknownLens) as refused:
        ask()
    assert refused.value.field == field


def test_one_lens_is_asked_by_its_name_or_as_global():
    """All global lenses are one memory, whichever of their names is used."""
    asked = [LENSES.memory("t", "ann", name) for name in ("work", "default", "all", "global")]
    assert asked == [*of("work", "default"), ALL, ALL]
    with pytest.raises(UnknownLens):
        LENSES.memory("t", "ann", "nope")
