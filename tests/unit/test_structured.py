"""From what a model wrote to an object: everything readable is read, nothing is made up."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from gralkord.providers.structured import Answer, UnusableAnswer, read_answer, schema_instruction


class Edge(BaseModel):
    source: str
    fact: str
    episodes: list[int] = [0]


class Edges(BaseModel):
    edges: list[Edge]


class Times(BaseModel):
    valid_at: str | None = None
    invalid_at: str | None = None


GOOD = {"edges": [{"source": "Ann", "fact": "Ann lives in Berlin."}]}
TEXT = json.dumps(GOOD)
CUT = TEXT[:40]


@pytest.mark.parametrize(
    "written",
    [
        TEXT,
        f"  {TEXT}\n",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}\n```\nDone.",
        f"Sure, here you are:\n{TEXT}\nAnything else?",
        f"<think>Is it {{}}? No.</think>{TEXT}",
        f"<THINKING>hm</THINKING>\n```json\n{TEXT}```",
        f"only the end of a thought </think>\n{TEXT}",
        json.dumps({"Edges": GOOD}),
        json.dumps(GOOD["edges"]),
        f"{json.dumps(Edges.model_json_schema())}\n{TEXT}",
        json.dumps(GOOD | {"comment": "an extra field"}),
        f"\ufeff{TEXT}",
        json.dumps(TEXT),
        str(GOOD),
        TEXT.replace("}]", "},]").replace('"}', '",}'),
        f"{TEXT[:-1]} // all of them\n}}",
        f"/* an answer */ {TEXT}",
        json.dumps({"name": "Edges", "arguments": GOOD}),
        json.dumps({"name": "Edges", "arguments": TEXT}),
        f'<think>perhaps {{"edges": []}}?</think>{TEXT}',
        f'At first I thought of {{"edges": []}}.\n```json\n{TEXT}\n```',
        f"{TEXT}\n{TEXT}",
        f"The {{braces}} are mine:\n{TEXT}",
    ],
)
def test_wrappings_are_dropped(written):
    """The object is found in fences, thoughts, prose, wrappers, a bare list, with common slips."""
    assert read_answer(Answer(written, "stop"), Edges) == GOOD


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", "empty|no JSON"),
        ("I am sorry, I cannot.", "no JSON"),
        ("<think>and so on", "no JSON"),
        (json.dumps(Edges.model_json_schema()), "repeats the schema"),
        ("[]", "a list"),
        ("{}", "edges"),
        ('{"facts": []}', "none of the fields edges"),
        ('{"edges": "many"}', "edges"),
        ('{"edges": [{"source": 1, "fact": null}]}', r"edges\.0\.source"),
        ('{"edges": [], oops', "no JSON"),
        ('{"edges": [{"source": "Ann", "fact": "x"}, {"sou', "no JSON"),
        ('{"edges":\n[{"source": "a"\n{"edges": ', "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"edges": []}\n{"edges": [{"source": "Ann", "fact": "f"}]}', "several different"),
        (f'Either {{"edges": []}} or {TEXT}, I think.', "several different"),
        ('{"edges": [{"source": "Ann", "fact": "f"}], "edges": []}', "no JSON"),
        ('{"edges": NaN}', "no JSON"),
        ('{"edges":\n[\n{"edges": []},\n{"so', "no JSON"),
        (str(GOOD)[:-9], "no JSON"),
        ('{"edges": []}\n{"edges": [{"source": "An', "no JSON"),
        ("null", "no JSON"),
        ('"I cannot answer that."', "no JSON"),
    ],
)
def test_what_does_not_fit_is_no_empty_answer(written, reason):
    """An answer that cannot be used is an error with a reason, never "no facts"."""
    with pytest.raises(UnusableAnswer, match=reason) as caught:
        read_answer(Answer(written, "stop"), Edges)
    assert caught.value.raw == written[:20_000]
    assert caught.value.retry


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(Times.model_json_schema()),
        '{"answer": "2024"}',
        '{"valid_at": 2024}',
        '{"valid_at": "2024-05-01T00:00:0',
        "no dates",
    ],
)
def test_optional_fields_do_not_swallow_nonsense(written):
    """A schema whose fields are all optional does not take anything for an answer."""
    with pytest.raises(UnusableAnswer):
        read_answer(Answer(written, "stop"), Times)


def test_an_empty_object_fits_optional_fields():
    """Nothing known is an answer where every field is optional, and no default is added to it."""
    assert read_answer(Answer("{}", "stop"), Times) == {}


def test_an_empty_object_is_not_nothing_found():
    """Where a list may be left out, an empty object is refused, and an empty list is taken."""

    class Found(BaseModel):
        facts: list[str] = []

        note: str | None = None

    with pytest.raises(UnusableAnswer, match="empty"):
        read_answer(Answer("{}", "stop"), Found)
    with pytest.raises(UnusableAnswer, match="facts may be there under another name"):
        read_answer(Answer('{"fact": ["f"], "note": "n"}', "stop"), Found)
    assert read_answer(Answer('{"facts": []}', "stop"), Found) == {"facts": []}


def test_truncation_is_named():
    """An answer cut off at the limit says so, whatever else is wrong with it."""
    with pytest.raises(UnusableAnswer, match="cut off"):
        read_answer(Answer(CUT, "length"), Edges)


def test_a_complete_object_at_the_limit_counts():
    """Blanks that ran into the limit after a complete object do no harm."""
    assert read_answer(Answer(TEXT + " \n" * 100, "length"), Edges) == GOOD


def test_tags_inside_texts_are_kept():
    """A remembered text may hold a think tag without being cut there."""
    said = {"edges": [{"source": "Ann", "fact": "Ann types <think> and </think> a lot."}]}
    assert read_answer(Answer(json.dumps(said), "stop"), Edges) == said


def test_bytes_that_no_store_takes_are_dropped():
    """NUL, control characters and lone surrogates do not get out of an answer."""
    written = '{"edges": [{"source": "A\\u0000n\\ud800n", "fact": "one\\ntwo\\u0007"}]}'
    assert read_answer(Answer(written, "stop"), Edges) == {
        "edges": [{"source": "Ann", "fact": "one\ntwo"}]
    }


def test_only_what_was_said_is_returned():
    """Defaults of the schema are not added, and numbers in texts become numbers."""
    written = '{"edges": [{"source": "Ann", "fact": "f", "episodes": ["1"]}]}'
    assert read_answer(Answer(written, "stop"), Edges)["edges"][0]["episodes"] == [1]


def test_the_reason_does_not_repeat_values():
    """The message of an error names fields, never what was written into them."""
    with pytest.raises(UnusableAnswer) as caught:
        read_answer(Answer('{"edges": [{"source": {"secret": 1}, "fact": "s3cret"}]}'), Edges)
    assert "secret" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_the_instruction_holds_the_schema():
    """Where the server cannot enforce a schema, the prompt spells it out."""
    text = schema_instruction(Edges)
    assert json.loads(text[text.index("{") :]) == Edges.model_json_schema()


@settings(deadline=None)
@given(st.integers(0, len(TEXT) - 1), st.sampled_from(["", "{", "}", "[", "]", '"', ",", "\n"]))
def test_one_wrong_character_never_loses_facts(place, other):
    """With any one character changed or missing, an answer is read whole or refused."""
    written = TEXT[:place] + other + TEXT[place + 1 :]
    try:
        read = read_answer(Answer(written, "stop"), Edges)
    except UnusableAnswer:
        return
    assert len(read["edges"]) == 1


@settings(deadline=None)
@given(st.integers(0, len(TEXT) - 1), st.sampled_from(["stop", "length"]))
def test_no_beginning_is_an_answer(length, finish_reason):
    """An answer that breaks off anywhere is refused, even when the server does not say so."""
    with pytest.raises(UnusableAnswer):
        read_answer(Answer(TEXT[:length], finish_reason), Edges)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_read_or_refused(written):
    """Whatever a model writes, the outcome is an object or a typed error."""
    try:
        read = read_answer(Answer(written), Times)
    except UnusableAnswer:
        return
    assert read.keys() <= {"valid_at", "invalid_at"}
