"""How the scripted model reads English: names, facts, changes; and never more than is there."""

from __future__ import annotations

import pytest

from gralkord.testing.rules import (
    contradicts,
    facts_in,
    messages_in,
    names_in,
    same_fact,
    tells_time,
    third_person,
)


def facts(body):
    """Return the facts of a transcript as (subject, relation, target, text)."""
    messages = messages_in(body)
    return [
        (fact.subject, fact.relation, fact.target, fact.text)
        for fact in facts_in(messages, names_in(messages))
    ]


@pytest.mark.parametrize(
    ("body", "speakers"),
    [
        ("Ann: Hi.\nBob: Hello.", ["Ann", "Bob"]),
        ("Ann: one\ntwo\n\nthree\nBob: four", ["Ann", "Bob"]),
        ("alice@example.org: Hi", ["alice@example.org"]),
        ("שרה: שלום\n😀: ok", ["שרה", "😀"]),
        ("https://example.org: a link", [None]),
        ("Just a text. Note: not a speaker.", [None]),
    ],
)
def test_speakers(body, speakers):
    """A line that begins with a name and a colon is a message; other lines continue one."""
    assert [message.speaker for message in messages_in(body)] == speakers


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I work at Acme Corp in Berlin.", ["Acme Corp", "Berlin"]),
        ("We saw the Museum of Modern Art!", ["Museum of Modern Art"]),
        ("My sister's dog is called Biscuit's Revenge.", ["Biscuit"]),
        ("The IT department likes it.", ["IT"]),
        ("On Monday in March I met São Paulo's mayor, O'Neil.", ["São Paulo", "O'Neil"]),
        ("Skiing is fun. Wow. Thanks! Yes.", []),
        ("Yesterday was nice, I think.", []),
        ("I LOVE THIS", []),
        ("You've won. It'll do. They're here. Sounds like fun.", []),
        ("i met nobody", []),
        ("", []),
    ],
)
def test_names(text, names):
    """Capitalised words are names; sentence starts, weekdays, months and shouting are not."""
    found = names_in(messages_in(f"Ann: {text}"))
    assert [name for name in found if name not in {"Ann", "Skiing", "Revenge"}] == names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm from Rome.", ("Ann", "IS_FROM", "Rome", "Ann is from Rome.")),
        ("I live in Rome now.", ("Ann", "LIVES_IN", "Rome", "Ann lives in Rome now.")),
        ("I've moved to Rome!", ("Ann", "LIVES_IN", "Rome", "Ann has moved to Rome!")),
        ("I no longer live in Rome.", ("Ann", "LIVES_IN", "Rome", "Ann no longer lives in Rome.")),
        ("Just moved to Rome.", ("Ann", "LIVES_IN", "Rome", "Ann just moved to Rome.")),
        ("My dog Rex loves Rome.", ("Rex", "LOVES", "Rome", "Ann's dog Rex loves Rome.")),
        ("We visited Rome.", ("Ann", "VISITS", "Rome", "Ann and others visited Rome.")),
        ("Clara teaches at Rome High.", ("Clara", "TEACHES_AT", "Rome High", None)),
    ],
)
def test_facts(text, expected):
    """A sentence about the speaker or a name, and another name, is a fact in the third person."""
    subject, relation, target, written = expected
    assert facts(f"Ann: {text}") == [(subject, relation, target, written or text)]


@pytest.mark.parametrize(
    "text", ["Do you know Rome?", "Rome is warm.", "I like swimming.", "Move to Rome!", "Hey Rome!"]
)
def test_nothing_is_made_up(text):
    """Questions, orders and sentences about one thing alone state no relation."""
    assert facts(f"Ann: {text}") == []


@pytest.mark.parametrize(
    "text", ["Thanks, Bob, I like it.", "Hey Bob! I like it.", "Bob, I like it.", "I agree, Bob."]
)
def test_calling_a_name_says_nothing_about_it(text):
    """A speaker who is only addressed is no part of a fact."""
    assert facts(f"Ann: {text}\nBob: OK.") == []


def test_every_fact_stands_in_the_text():
    """Names are copied from the text, and facts differ from it in pronouns only."""
    body = "Ann: I met Bob in Rome, and he sold me Rex.\nBob: Ann owes me nothing, Carl knows Ann."
    for subject, _, target, text in facts(body):
        assert subject in body
        assert target in body
        assert set(text.split()) - set(body.split()) <= {"Ann", "Bob", "Bob.", "Ann."}


def test_names_of_others_do_not_matter():
    """Only names on the list become ends of facts, a longer one hides one inside it."""
    messages = messages_in("Ann: I read the New York Times.")
    found = facts_in(messages, ["Ann", "New York Times", "New York"])
    assert [fact.target for fact in found] == ["New York Times"]
    assert facts_in(messages, ["Ann"]) == []


def test_lower_case_words_are_not_names():
    """The auxiliary "will" is not the person Will."""
    messages = messages_in("Ann: I will see him with Will.")
    assert [fact.text for fact in facts_in(messages, ["Ann", "Will"])] == [
        "Ann will see him with Will."
    ]
    assert facts_in(messages_in("Ann: I will see him."), ["Ann", "Will"]) == []


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("Ann now lives in Rome.", "Ann lives in Berlin.", True),
        ("Now Ann lives in Rome.", "Ann lives in Berlin.", True),
        ("Ann moved to Rome.", "Ann lives in Berlin.", True),
        ("Ann no longer works at Acme.", "Ann works at Acme.", True),
        ("Ann left Acme.", "Ann works at Acme.", True),
        ("Ann sold the Volvo.", "Ann drives a Volvo.", True),
        ("Ann lives in Rome.", "Ann lives in Berlin.", False),
        ("Ann now lives in Berlin.", "Ann lives in Berlin.", False),
        ("Bob now lives in Rome.", "Ann lives in Berlin.", False),
        ("Ann now plays tennis.", "Ann lives in Berlin.", False),
        ("Ann no longer works at Acme.", "Ann works at Globex.", False),
        ("Ann is happy now.", "Ann knows Bob.", False),
        ("", "", False),
    ],
)
def test_contradictions(new, old, expected):
    """Only a sentence that says so ends a fact of the same subject and state."""
    assert contradicts(new, old) is expected


@pytest.mark.parametrize(
    ("fact", "tells"),
    [
        ("Ann works at Acme.", True),
        ("Ann is in Rome.", True),
        ("Ann moved to Rome.", True),
        ("Ann met Bob last week.", True),
        ("Ann met Bob in 2019.", True),
        ("Ann met Bob in Rome.", False),
    ],
)
def test_times_are_told_or_not(fact, tells):
    """What is so, or has changed, holds when it is told; other things past have to be dated."""
    assert tells_time(fact) is tells


def test_same_facts():
    """The same words are the same fact, whatever the case and the full stop."""
    assert same_fact("Ann lives in Rome.", "ann lives in Rome")
    assert not same_fact("Ann lives in Rome.", "Ann lives in Berlin.")


@pytest.mark.parametrize("speaker", ["a\\1b", "{}", "I", "x.*", "😀"])
def test_strange_speakers(speaker):
    """A speaker's name may look like a pattern."""
    assert third_person("I like my tea.", speaker).startswith(f"{speaker} likes")
