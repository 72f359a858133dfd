"""How new facts are compared with known ones: many in one call."""

from __future__ import annotations

import json

import pytest
from fakes import FakeModel
from test_dating import fact

from gralkord.errors import MalformedOutput
from gralkord.graph.llm import EpisodeModel
from gralkord.graph.names import Spellings
from gralkord.graph.verdicts import FACTS_A_CALL, Comparison, judge

NOTHING = {"same_as": -1, "made_false": []}


def part(prompt: str, name: str):
    """Return what stands in a part of a prompt, but for its example."""
    return json.loads(prompt.rpartition(f"<{name}>\n")[2].partition(f"\n</{name}>")[0])


async def verdicts(comparisons, *answers):
    """Return the verdicts, and what was asked."""
    asked = []

    def answer(prompt):
        asked.append((part(prompt, "KNOWN FACTS"), part(prompt, "NEW FACTS")))
        return {"verdicts": list(answers)}

    model = EpisodeModel(FakeModel(FactVerdicts=answer), Spellings(lambda _: ()))
    return await judge(comparisons, model), asked


async def test_each_known_fact_is_shown_once():
    """A known fact that several new ones are compared with stands in the prompt one time."""
    old, other = fact("Ann likes tea."), fact("Ann likes rum.")
    new = [fact("Ann loves tea."), fact("Ann hates rum.")]
    comparisons = [Comparison(new[0], [old], [old]), Comparison(new[1], [], [other, old])]
    found, asked = await verdicts(
        comparisons,
        {"id": 0, "same_as": 0, "made_false": []},
        {"id": 1, "same_as": -1, "made_false": [1]},
    )
    assert asked == [
        (
            [{"id": 0, "fact": "Ann likes tea."}, {"id": 1, "fact": "Ann likes rum."}],
            [
                {"id": 0, "fact": "Ann loves tea.", "may_repeat": [0], "may_end": [0]},
                {"id": 1, "fact": "Ann hates rum.", "may_repeat": [], "may_end": [1, 0]},
            ],
        )
    ]
    assert found[new[0].uuid].same_as is old
    assert found[new[1].uuid].contradicted == (other,)


async def test_facts_with_nothing_to_compare_are_not_asked_about():
    """Where nothing known can be the same or end, there is no call."""
    assert await verdicts([Comparison(fact("Ann met Bob."), [], [])]) == ({}, [])


async def test_many_facts_are_several_calls():
    """A call has no more facts than a small model can keep apart."""
    known = fact("Ann likes tea.")
    new = [Comparison(fact(f"Ann likes {number}."), [], [known]) for number in range(30)]
    _, asked = await verdicts(new)
    assert [len(facts) for _, facts in asked] == [FACTS_A_CALL, FACTS_A_CALL, 6]


async def test_long_facts_are_several_calls():
    """A call is no longer than it may be, however long the facts."""
    new = [Comparison(fact("new " * 400), [], [fact("old " * 1_600)]) for _ in range(6)]
    _, asked = await verdicts(new)
    assert [len(facts) for _, facts in asked] == [3, 3]


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 0, "same_as": 1, "made_false": []},  # it is not one that it may repeat
        {"id": 0, "same_as": 7, "made_false": [-1, 9]},
        {"id": 0, "same_as": -2, "made_false": [0]},  # it is not one that it may end
        {"id": 5, **NOTHING},
    ],
)
async def test_what_was_not_asked_is_no_answer(answer):
    """Ids that do not stand in the lists of a fact say nothing about it."""
    new, repeated, ended = fact("Ann likes tea."), fact("Ann loves tea."), fact("Ann hates tea.")
    found, _ = await verdicts([Comparison(new, [repeated], [ended])], answer)
    verdict = found.get(new.uuid)
    assert verdict is None or (verdict.same_as, verdict.contradicted) == (None, ())


async def test_of_two_verdicts_the_first_counts():
    """A model that repeats itself does not change its mind."""
    new, old = fact("Ann likes tea."), fact("Ann loves tea.")
    first = {"id": 0, "same_as": 0, "made_false": []}
    found, _ = await verdicts([Comparison(new, [old], [])], first, {"id": 0, **NOTHING})
    assert found[new.uuid].same_as is old


async def test_a_model_that_cannot_keep_many_apart_is_asked_about_fewer():
    """An answer about several facts that does not fit is asked for in halves, not given up."""
    asked = []

    def answer(prompt):
        facts = part(prompt, "NEW FACTS")
        asked.append(len(facts))
        if len(facts) > 2:
            raise MalformedOutput
        return {"verdicts": [{"id": each["id"], "same_as": 0, "made_false": []} for each in facts]}

    old = fact("Ann loves tea.")
    new = [Comparison(fact(f"Ann likes tea {number}."), [old], []) for number in range(5)]
    model = EpisodeModel(FakeModel(FactVerdicts=answer), Spellings(lambda _: ()))
    found = await judge(new, model)
    assert sorted(asked) == [1, 2, 2, 3, 5]
    assert [found[each.fact.uuid].same_as for each in new] == [old] * 5


async def test_an_answer_of_another_shape_is_malformed():
    """It is the model's fault."""
    new, old = fact("Ann likes tea."), fact("Ann loves tea.")
    with pytest.raises(MalformedOutput):
        await verdicts([Comparison(new, [old], [])], {"id": "x"})
