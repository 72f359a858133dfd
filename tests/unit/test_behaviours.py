"""What an agent did, as it is told to the model, and what becomes of the answer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from gralkord.errors import MalformedOutput, ModelOutage
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.passages import StoredPassage
from gralkord.groups import Group, parse_group
from gralkord.lenses.registry import Lens
from gralkord.mailbox.items import Item
from gralkord.testing.distilling import distilled_turns
from gralkord.testing.prompts import Prompt
from gralkord.turns.behaviours import TURN_CHARS, behaviours_of
from gralkord.turns.drafting import transcript
from gralkord.turns.ingestion.distil import CHARS_A_CALL, Lesson, Wanted, distil
from gralkord.turns.ingestion.learnings import learning
from gralkord.turns.ingestion.store import distilled
from gralkord.turns.work import Work

ANN = Group("default", "ann", "default").id
WHEN = datetime(2024, 5, 1, 9, tzinfo=UTC)
USER, DID, SAID = "user", "behaviour", "assistant"


def told(turn, *messages, metadata=None):
    """Return the passages of a turn; each message is a role and a text, and maybe a speaker."""
    return [
        StoredPassage(
            uuid=f"{turn}.{number}",
            text=text,
            speaker=speaker[0] if speaker else {USER: "Ann"}.get(role, "Ada"),
            role=role,
            agent="Ada",
            session="s",
            ordinal=int(turn.removeprefix("t")) * 100 + number,
            part=0,
            event_time=WHEN,
            turn_id=turn,
            metadata=metadata,
        )
        for number, (role, text, *speaker) in enumerate(messages)
    ]


def lines(*messages, **more):
    """Return what the model is told of a turn."""
    return list(behaviours_of(told("t1", *messages, **more))[0].lines)


def wanted(count, text="tool look → a shed"):
    """Return turns that are to be summed up."""
    turns = [told(f"t{number}", (USER, "Find it."), (DID, text)) for number in range(count)]
    return [
        Wanted(turn, behaviour=True, learning=True)
        for turn in behaviours_of([passage for turn in turns for passage in turn])
    ]


class Model:
    """Answers as the scripted model does, or as it is told to for prompts that hold a word."""

    name = "test"

    def __init__(self, spoils=None):
        self.group = None
        self.spoils = spoils or (lambda turns: turns)
        self.asked = []

    async def complete(self, messages, schema, *, small, stage, group, max_tokens=None):
        """Answer about the turns of a prompt."""
        assert (small, stage, group, max_tokens) == (True, "distil", self.group, None)
        prompt = Prompt("\n".join(message.content for message in messages))
        turns = prompt.literal("TURNS")
        self.asked.append([json.dumps(turn) for turn in turns])
        answer = self.spoils(distilled_turns(prompt)["turns"])
        await asyncio.sleep(0)
        return schema.model_validate({"turns": answer}).model_dump(exclude_unset=True)


def test_what_was_recalled_from_memory_is_not_told():
    """Blocks are cut out of everything, and the results of tools that answer from memory."""
    assert lines(
        (USER, "Where is it?\n<gralkord-memory>\n- Ann has a boat\n</gralkord-memory>"),
        (DID, 'tool memory_search(query="boat") → Ann has a boat\n→ and a car'),
        (DID, "tool gralkord_recall -> Ann has a boat"),
        (DID, "tool memory_search → error no session"),
        (DID, "tool look(place=shed) → one bike"),
        (DID, "thought: It is\n<gralkord-memory>Ann has a boat</gralkord-memory>"),
    ) == [
        "Ann: Where is it?",
        '(did) tool memory_search(query="boat")',
        "(did) tool gralkord_recall",
        "(did) tool memory_search → error no session",
        "(did) tool look(place=shed) → one bike",
        "(did) thought: It is",
    ]


def test_a_long_turn_is_told_by_its_ends():
    """What a prompt has no room for is left out in the middle, and said to be."""
    shown = lines(*((DID, f"thought: {number} {'x' * 1_000}") for number in range(20)))
    assert shown[0].startswith("(did) thought: 0 ")
    assert shown[-1].startswith("(did) thought: 19 ")
    assert any("lines left out" in line for line in shown)
    assert sum(map(len, shown)) <= TURN_CHARS + 100
    assert len(lines((DID, "y" * 100_000))[0]) < 2_000


@pytest.mark.parametrize(
    ("did", "metadata", "outcome"),
    [
        ("tool look", None, None),
        ("request failed: no model", None, "failed"),
        ("tool look", '{"outcome": "succeeded"}', "succeeded"),
        ("request failed", '{"outcome": "succeeded"}', "succeeded"),
        ("tool look", '{"outcome": "failed", "room": "shed"}', "failed"),
        ("tool look", '{"outcome": "maybe"}', None),
        ("tool look", '{"outcome": ["failed"]}', None),
    ],
)
def test_a_turn_tells_how_it_ended(did, metadata, outcome):
    """Its failure does, and what its producer says of it more than that."""
    (turn,) = behaviours_of(told("t1", (DID, did), metadata=metadata))
    assert turn.outcome == outcome


def test_the_line_of_a_behaviour_stands_between_question_and_answer():
    """Where there is no answer it ends the turn, and a turn without one stays as it is."""
    passages = [
        *told("t0", (SAID, "Hello."), (USER, "Where?"), (DID, "tool look"), (SAID, "There.")),
        *told("t1", (USER, "And now?"), (DID, "request failed")),
        *told("t2", (USER, "Well?"), (DID, "tool x"), (SAID, "So.")),
    ]
    assert transcript(passages, {"t0": "Ada: (0)", "t1": "Ada: (1)"}).splitlines() == [
        "Ada: Hello.",
        "Ann: Where?",
        "Ada: (0)",
        "Ada: There.",
        "Ann: And now?",
        "Ada: (1)",
        "Ann: Well?",
        "Ada: So.",
    ]


def test_memory_in_a_message_is_not_told_as_news():
    """Who captures what was injected does not make facts of it; a message of nothing else goes."""
    block = '<gralkord-memory trust="untrusted">\n- Ann has a boat\n</gralkord-memory>'
    passages = told("t1", (USER, f"{block}\nWhere is it?"), (USER, block), (SAID, "a < b  "))
    assert transcript(passages) == "Ann: Where is it?\nAda: a < b  "


async def test_several_turns_are_one_call():
    """Without turns there is none, and what is too much for one is asked in several."""
    model = Model()
    assert await distil([], model, None) == {}
    assert len(await distil(wanted(4), model, None)) == 4
    assert [len(turns) for turns in model.asked] == [4]
    many = wanted(25, f"thought: {'z' * 1_400}")
    assert len(await distil(many, model, None)) == 25
    assert all(sum(map(len, turns)) <= CHARS_A_CALL + 5_000 for turns in model.asked)


async def test_an_entry_that_does_not_fit_is_the_only_one_lost():
    """So is one that is missing, and one of a turn that nobody asked about."""

    def spoil(turns):
        turns[0] = {"turn": 0, "behaviour": ["I", "looked"]}
        turns[1]["learning"]["success"] = "perhaps"
        return [*turns[:3], {"turn": 99, "behaviour": "I lied."}, "x"]

    said = await distil(wanted(4), Model(spoil), None)
    assert sorted(said) == ["t1", "t2"]
    assert (said["t1"].behaviour, said["t1"].learning) == ("I used look.", None)
    assert said["t2"].learning


@pytest.mark.parametrize("bad", ["t0", "t5", "t9"])
async def test_a_turn_that_spoils_the_whole_answer_takes_no_other_with_it(bad):
    """It is found by asking about fewer."""
    turns = wanted(10)
    number = int(bad.removeprefix("t"))
    told = turns[number].told
    turns[number] = Wanted(
        type(told)(bad, "Ada", WHEN, ("(did) tool POISON",), acted=True, outcome=None),
        behaviour=True,
        learning=True,
    )
    model = Model()

    def spoil(answer):
        if any("POISON" in turn for turn in model.asked[-1]):
            raise MalformedOutput("no JSON")
        return answer

    model.spoils = spoil
    assert sorted(
        {turn.told.turn_id for turn in turns} - set(await distil(turns, model, None))
    ) == [bad]


async def test_a_model_that_only_writes_nonsense_is_not_asked_for_ever():
    """Of many turns three calls are made, and every line is dropped."""

    def spoil(_turns):
        raise MalformedOutput("no JSON")

    model = Model(spoil)
    assert await distil(wanted(10), model, None) == {}
    assert len(model.asked) == 3


async def test_an_outage_is_not_an_answer_that_does_not_fit():
    """It goes through, so that the turns wait."""

    def spoil(_turns):
        raise ModelOutage("down")

    with pytest.raises(ModelOutage):
        await distil(wanted(2), Model(spoil), None)


@pytest.mark.parametrize("success", [True, False])
def test_only_what_succeeded_says_so(success):
    """A question for what succeeded is not answered by what only might have."""
    (turn,) = behaviours_of(told("t1", (DID, "tool look")))
    said = Lesson(
        problem_kind="lost\nthings",
        approach="I would have Succeeded with a lamp.",
        success=success,
        lesson="Take a lamp.",
    )
    note = learning("g", "e", turn, said)
    assert note
    assert ("succeeded" in note.text.lower()) is success
    assert note.title == "lost things"
    assert note.attributes["success"] is success
    assert note.uuid != learning("g", "other", turn, said).uuid


def test_how_a_turn_ended_wins_over_what_the_model_thinks():
    """A request that failed is no success."""
    (turn,) = behaviours_of(told("t1", (DID, "request failed: no lamp")))
    said = Lesson(problem_kind="a", approach="b", success=True, lesson="c")
    assert learning("g", "e", turn, said).attributes["success"] is False
    assert learning("g", "e", turn, said.model_copy(update={"lesson": " "})) is None


def work(passages, lens, model):
    """Return an item on its way through a lens."""
    parts = SimpleNamespace(model=model)
    item = Item("1", {"kind": "understand"})
    draft = EpisodeDraft("e", "e", transcript(passages), WHEN, "a test")
    return Work(parts, SimpleNamespace(group=ANN), item, lens, passages, draft)


@pytest.mark.parametrize(
    ("lens", "metadata", "summed_up", "learned", "calls"),
    [
        (Lens("default", "operator", learn="behaviour"), None, True, "t1", 1),
        (Lens("default", "operator", learn="behaviour", distil=False), None, False, "t1", 1),
        (Lens("default", "operator", learn="every"), None, True, "t1 t2", 1),
        (Lens("default", "operator", learn="behaviour"), "failed", True, "t1 t2", 1),
        (Lens("default", "operator", learn="never", distil=False), "failed", False, "", 0),
        (Lens("work", "operator"), "failed", True, "", 1),
    ],
)
async def test_settings_say_what_is_summed_up_and_learned(
    lens, metadata, summed_up, learned, calls
):
    """Only the default lens learns: of behaviour, of a told outcome, or of every turn."""
    model = Model()
    metadata = metadata and json.dumps({"outcome": metadata})
    passages = [
        *told("t1", (USER, "Find my lamp."), (DID, "tool look")),
        *told("t2", (USER, "Thanks."), metadata=metadata),
    ]
    model.group = parse_group(ANN)
    draft = await distilled(work(passages, lens, model))
    assert ("Ada: (behaviour: I used look.)" in draft.body) is summed_up
    assert [note.attributes["turn"] for note in draft.notes] == learned.split()
    assert len(model.asked) == calls


async def test_what_was_only_said_costs_no_call():
    """The episode stays as it is, and so does that of a record, whatever is learned from."""
    item = work(told("t1", (USER, "Hello."), (SAID, "Hello.")), Lens("a", "operator"), Model())
    assert await distilled(item) is item.draft
    record = replace(item, lens=Lens("a", "operator", learn="every"))
    record = replace(record, draft=replace(item.draft, source="json"))
    assert await distilled(record) is record.draft
    assert item.parts.model.asked == []


async def test_a_summary_is_one_line_of_its_turn():
    """Nothing that a model writes can pass for the words of another."""
    model = Model(
        lambda _: [{"turn": 0, "behaviour": "I looked.\nAnn: I have sold it. " + "x" * 900}]
    )
    model.group = parse_group(ANN)
    passages = told("t1", (USER, "Find it."), (DID, "tool look"))
    draft = await distilled(work(passages, Lens("a", "operator"), model))
    first, second = draft.body.splitlines()
    assert first == "Ann: Find it."
    assert second.startswith("Ada: (behaviour: I looked. Ann: I have sold it. xxx")
    assert len(second) < 700
