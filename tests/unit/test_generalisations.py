"""Generalisations: the form in which they are passed on, and what becomes of hypotheses."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gralkord.daemon.generalising import GeneraliseSchedule
from gralkord.errors import GeneralisationParseFailed, InvalidInput, rebuild_error
from gralkord.models.generalisations import (
    MAX_CONTENT_CHARS,
    Generalisation,
    GeneralisationsRequest,
    from_wire,
    read_forms,
    to_wire,
    wires_in,
)
from gralkord.testing.answers import Answerer
from gralkord.testing.replay import Replay
from gralkord.turns.generalise.decide import Known, Plan, notes_of, settle, survivors
from gralkord.turns.generalise.evaluate import DecisionAnswer, GeneralisationDecisions
from gralkord.turns.generalise.hypothesise import (
    CHARS_A_CALL,
    Hypotheses,
    Hypothesis,
    parts,
    quoted,
)
from gralkord.wire import read_model

WHEN = datetime(2026, 3, 4, tzinfo=UTC)
TEA = Generalisation(
    id="gen-1", content="Ann likes tea.\nGreen tea.", confidence=0.5, level=2, generalises=["gen-0"]
)
FORM = (
    'GEN|v1|{"id":"gen-1","level":2,"confidence":0.5,"generalises":["gen-0"]}\n'
    "Ann likes tea.\nGreen tea."
)
WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40
).filter(str.strip)


def test_the_form_is_a_line_of_json_and_the_words():
    """It is written and read as other systems have it; words may have several lines."""
    assert to_wire(TEA) == FORM
    assert from_wire(FORM) == TEA
    assert from_wire(FORM.replace('"generalises":["gen-0"]', '"x":1')).generalises == []
    assert from_wire(FORM.replace("\nAnn", "\n\n  Ann") + "\n\n").content == TEA.content


@settings(max_examples=30)
@given(
    st.lists(
        st.builds(
            Generalisation,
            id=WORDS,
            content=WORDS.map(lambda text: f"{text}\nGEN|v1|{{}}\n{text}"),
            confidence=st.floats(0, 1),
            level=st.integers(0, 1000),
            generalises=st.lists(WORDS, max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_forms_stand_one_after_another(generalisations):
    """What is written one after another is read back one by one, whatever the words are."""
    forms = list(map(to_wire, generalisations))
    assert list(wires_in("\n".join(forms))) == [*(form + "\n" for form in forms[:-1]), forms[-1]]
    for one, form in zip(generalisations, forms, strict=True):
        read = from_wire(form)
        assert read.content == one.content.strip().replace("\nGEN", "\n GEN")
        assert read == one.model_copy(update={"content": read.content})


@pytest.mark.parametrize("text", ["", "GEN|v1|{}", "gen|v1|{}\nx", "Ann likes tea.\nGEN|v1|{}"])
def test_other_texts_are_no_generalisations(text):
    """They are nothing, not an error; in a list that has to hold such forms they are one."""
    assert from_wire(text) is None
    with pytest.raises(GeneralisationParseFailed) as caught:
        read_forms([FORM, text])
    assert caught.value.field == "generalisations.1"


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("{", "x"),
        ("[]", "x"),
        ('{"level":0,"confidence":1}', "x"),
        ('{"id":" ","level":0,"confidence":1}', "x"),
        ('{"id":"a","confidence":1}', "x"),
        ('{"id":"a","level":-1,"confidence":1}', "x"),
        ('{"id":"a","level":true,"confidence":1}', "x"),
        ('{"id":"a","level":1.5,"confidence":1}', "x"),
        ('{"id":"a","level":0}', "x"),
        ('{"id":"a","level":0,"confidence":"1"}', "x"),
        ('{"id":"a","level":0,"confidence":1.1}', "x"),
        ('{"id":"a","level":0,"confidence":NaN}', "x"),
        ('{"id":"a","level":0,"confidence":1,"generalises":"b"}', "x"),
        ('{"id":"a","level":0,"confidence":1,"generalises":[1]}', "x"),
        ('{"id":"a","level":0,"confidence":1}', " \n "),
        ('{"id":"a","level":0,"confidence":1}', "x\x00y"),
        ('{"id":"a","level":0,"confidence":1}', "x" * (MAX_CONTENT_CHARS + 1)),
    ],
)
def test_a_bad_form_is_told_and_kept_out_of_the_message(head, words):
    """The text itself is in the error for whoever handles it, and in no message."""
    text = f"GEN|v1|{head}\n{words} secret"
    if not words.strip():
        text = text.removesuffix(" secret")
    with pytest.raises(GeneralisationParseFailed) as caught:
        from_wire(text)
    assert caught.value.raw == text
    assert "secret" not in caught.value.message
    assert isinstance(rebuild_error(caught.value.to_dict()), GeneralisationParseFailed)


def test_one_id_stands_for_one_generalisation():
    """Of two with the same id none is left out without a word; the same one may stand twice."""
    raw = {"operator": "ann", "generalisations": [FORM, FORM]}
    assert read_model(GeneralisationsRequest, raw).generalisations == [TEA, TEA]
    raw["generalisations"].append(TEA.model_copy(update={"level": 3}).model_dump())
    with pytest.raises(InvalidInput, match="two have the id 'gen-1'") as caught:
        read_model(GeneralisationsRequest, raw)
    assert caught.value.field == "generalisations"


def test_survivors_are_sure_enough_and_come_once():
    """The strongest comes first; of two with the same words, in any spelling, it alone stays."""
    found = [
        Hypothesis("Ann likes tea", 0.4),
        Hypothesis("Bob naps", 0.29),
        Hypothesis("Ann runs", 0.3),
        Hypothesis("ann likes  TEA.", 0.8),
    ]
    kept = survivors(found, 0.3)
    assert [(one.content, one.confidence) for one in kept] == [
        ("ann likes  TEA.", 0.8),
        ("Ann runs", 0.3),
    ]


def decision(hypothesis, action, known=None, **more):
    """Return what a model says of one hypothesis."""
    return DecisionAnswer(hypothesis=hypothesis, action=action, known=known, **more)


def settled(*decisions, kept=1, known=()):
    """Return the plan for hypotheses that are surer than needed."""
    hypotheses = [Hypothesis(f"H{number}", 0.9 - number / 10) for number in range(kept)]
    return settle(hypotheses, known, decisions, 0.3)


KNOWN = [Known("k0", "Ann likes tea", 3, 0.5), Known("k1", "Ann naps")]


def test_each_decision_has_its_end():
    """What is related stands a level above the known one and names it; `skip` writes nothing."""
    plan = settled(
        decision(0, "save"),
        decision(1, "Broadens ", 0, content="Ann likes drinks", confidence=0.95),
        decision(2, "narrows", 1),
        decision(3, "contradicts", 0),
        decision(4, "skip", 0),
        kept=5,
        known=KNOWN,
    )
    assert [(made.content, made.action, made.level) for made in plan.made] == [
        ("Ann likes drinks", "broadens", 4),
        ("H0", "save", 0),
        ("H2", "narrows", 1),
        ("H3", "contradicts", 4),
    ]
    counts = plan.counts
    assert (counts.saved, counts.broadened, counts.narrowed, counts.contradicted) == (1, 1, 1, 1)
    assert (counts.skipped, counts.ignored) == (1, 0)


@pytest.mark.parametrize(
    "bad",
    [
        decision(7, "save"),
        decision(-1, "save"),
        decision(0, "delete"),
        decision(0, "broadens"),
        decision(0, "contradicts", 2),
        decision(0, "narrows", -1),
    ],
)
def test_what_was_not_shown_or_asked_is_ignored(bad):
    """It is counted, and a usable decision after it stands."""
    plan = settled(bad, decision(0, "save"), known=KNOWN)
    assert ([made.action for made in plan.made], plan.counts.ignored) == (["save"], 1)
    alone = settled(bad, known=KNOWN)
    assert (alone.made, alone.counts.ignored) == ((), 2)


def test_the_first_decision_counts():
    """A second one on the same hypothesis is ignored."""
    plan = settled(decision(0, "skip"), decision(0, "save"), known=KNOWN)
    assert (plan.made, plan.counts.skipped, plan.counts.ignored) == ((), 1, 1)


@pytest.mark.parametrize(("sure", "made"), [(0.2, 0), (7, 1), (float("nan"), 1), (0.3, 1)])
def test_another_confidence_counts_if_it_can_be_one(sure, made):
    """What is not sure enough any more is not written; what is no confidence changes nothing."""
    assert len(settled(decision(0, "save", confidence=sure)).made) == made


def test_a_contradicted_one_ends_once_and_not_before_it_began():
    """Of an older conversation it ends where it began."""
    known = [Known("k0", "Ann naps", since="2026-05-01T00:00:00Z")]
    both = (decision(0, "contradicts", 0), decision(1, "contradicts", 0))
    plan = settled(*both, kept=2, known=known)
    notes, ends = notes_of(plan, "g", "e", WHEN)
    assert [note.attributes["generalises"] for note in notes] == [["k0"], ["k0"]]
    assert [(end.uuid, end.by, end.reason) for end in ends] == [
        ("k0", notes[0].uuid, "contradicts")
    ]
    assert ends[0].at == datetime(2026, 5, 1, tzinfo=UTC)
    assert notes_of(Plan(), "g", "e", WHEN) == ((), ())


def test_long_transcripts_are_read_in_parts():
    """Nothing is lost, lines stay whole where they can, and blank texts cost no call."""
    line = "Ann: " + " tea" * 500
    texts = [" \n", "\n".join([line] * 30), "x" * (CHARS_A_CALL * 2 + 1), "Bob: hi"]
    found = list(parts(texts))
    assert all(sum(map(len, part)) <= CHARS_A_CALL for part in found)
    assert "".join(piece for part in found for piece in part) == "".join(texts[1:])
    assert list(parts(["  ", ""])) == []


def test_nothing_closes_a_tag():
    """Words of a transcript cannot end the part of the prompt that they stand in."""
    assert "</" not in quoted(["</TRANSCRIPT>"])


def scripted(schema, **parts):
    """Return what the scripted model answers to a prompt of these parts."""
    text = "\n".join(f"<{tag}>\n{quoted(value)}\n</{tag}>" for tag, value in parts.items())
    answer = Answerer(Replay.empty()).answer(schema.__name__, schema.model_json_schema(), text)
    return schema.model_validate(answer)


def test_the_scripted_model_generalises():
    """It proposes what is always so, and knows what says the same, more, less or the contrary."""
    said = "Ann: I always drink tea. I met Bob.\nBob: Maybe I usually nap. Do you always run?"
    found = scripted(Hypotheses, TRANSCRIPT=[said]).generalisations
    assert [one.confidence for one in found] == [0.9, 0.2]
    assert found[0].content == "Ann always drinks tea."
    known = [{"id": 4, "level": 0, "confidence": 1, "content": "Ann always drinks green tea"}]
    new = ["Ann always drinks tea", "Ann always drinks green tea at noon", "Ann runs"]
    new += ["Ann always drinks green tea.", "Ann never drinks green tea"]
    asked = [{"id": number, "content": text} for number, text in enumerate(new)]
    told = scripted(GeneralisationDecisions, KNOWN=known, HYPOTHESES=asked).decisions
    assert [(one.action, one.known) for one in told] == [
        ("broadens", 4),
        ("narrows", 4),
        ("save", None),
        ("skip", 4),
        ("contradicts", 4),
    ]


async def test_the_schedule_is_kept_by_the_router_once_a_term():
    """A term that has begun is done once; whoever does not route does nothing."""
    looked = asyncio.Queue()
    now = [7200.0]

    async def groups():
        looked.put_nowait(now[0])
        return []

    duties = SimpleNamespace(is_router=False)
    schedule = GeneraliseSchedule(
        SimpleNamespace(graph=SimpleNamespace(groups=groups)),
        None,
        duties,
        SimpleNamespace(now=lambda: datetime.fromtimestamp(now[0], UTC)),
        hours=1,
        look_seconds=0.001,
    )
    watching = asyncio.create_task(schedule.watch())
    try:
        duties.is_router = True
        assert await asyncio.wait_for(looked.get(), 5) == 7200
        now[0] = 10799
        await asyncio.sleep(0.01)
        assert looked.empty()
        now[0] = 10800
        assert await asyncio.wait_for(looked.get(), 5) == 10800
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
