from __future__ import annotations

import threading

import pytest

from gralkord.clock import SystemClock
from gralkord.config import RecallSettings
from gralkord.errors import ConfigError
from gralkord.models import Memory, RecallRequest
from gralkord.recall.block import NOTHING, memory_block
from gralkord.recall.cutting import NO_ROOM, shape
from gralkord.recall.deadline import Deadline
from gralkord.recall.gathering import Shortfalls
from gralkord.recall.shaping import MAX_LATE, Shaper
from gralkord.recall.tokens import estimate, load_counter

NEVER = threading.Event()


def words(text: str) -> int:
    """Count words: a counter as the settings may name one."""
    return len(text.split())


def broken(text: str) -> int:
    """Fail on every text but the one that counters are tried with."""
    return len(text.split()) if text == "a text" else words(None)


def hung(text: str) -> int:
    """Hang, but on the text that counters are tried with."""
    return 2 if text == "a text" else int(NEVER.wait(0.2))


def no_number(text: str) -> float:
    """Count in halves."""
    return len(text) / 2


def nothing(_: str) -> int:
    """Count nothing."""
    return 0


def memory(text: str, **values) -> Memory:
    defaults = {"kind": "passage", "id": f"id-{text[:8]}", "score": 0.5, "lens": "default"}
    return Memory(text=text, **(defaults | values))


def texts(shaped) -> list[str]:
    return [each.text for each in shaped.memories]


SEVERAL = [memory(f"The boat has number {at}.") for at in range(20)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("\u4e2d\u6587", 2),
        ("\u043c\u0438\u0440", 2),
        ("\U0001f600 abc", 2),
        ("a" * 400 + "\u4e2d" * 100 + "\u0439" * 100, 250),
    ],
)
def test_tokens_are_estimated_by_script(text, tokens):
    """Four characters of ASCII, two of most other scripts, one of Chinese."""
    assert estimate(text) == tokens


def test_without_limits_an_answer_is_as_it_was_found():
    """The block is the same, and says how many tokens it takes."""
    shaped = shape(SEVERAL, None, None)
    assert shaped.memories == SEVERAL
    assert shaped.block == memory_block(SEVERAL)
    assert shaped.tokens == estimate(shaped.block)
    assert shape([], None, None).block == memory_block([])
    assert shape(SEVERAL, None, None, by_lens=True).block == memory_block(SEVERAL, by_lens=True)


@pytest.mark.parametrize("budget", [1, 20, 25, 30, 60, 100, 200, 1_000])
@pytest.mark.parametrize("by_lens", [False, True])
def test_no_answer_is_over_its_limit(budget, by_lens):
    """The block and the texts fit, and one memory more would not."""
    shaped = shape(SEVERAL, None, budget, by_lens=by_lens)
    assert shaped.tokens == estimate(shaped.block) <= budget
    assert estimate("\n".join(texts(shaped))) <= budget
    assert shaped.memories == SEVERAL[: len(shaped.memories)]
    if len(shaped.memories) < len(SEVERAL):
        more = SEVERAL[: len(shaped.memories) + 1]
        assert estimate(memory_block(more, by_lens=by_lens)) > budget


def test_a_first_memory_that_is_too_long_leaves_nothing():
    """Nothing that fits less is told instead, and the block says why it is empty."""
    shaped = shape([memory("word " * 500), *SEVERAL], None, 100)
    assert shaped.memories == []
    assert NO_ROOM in shaped.block
    assert NOTHING in shape([], None, 100).block
    assert shape(SEVERAL, None, 2) == shape([], None, 2)
    assert shape(SEVERAL, None, 2).block == ""


def test_blanks_of_a_text_count_although_the_block_has_none():
    """The results themselves are within the limit, too."""
    assert shape([memory("boat" + " " * 4_000)], None, 500).memories == []


def test_of_a_search_the_best_of_each_lens_are_left():
    """The first lens does not take all the room; what is left stays in its order."""
    found = [memory(f"{lens} {at}.", lens=lens) for lens in ("default", "work") for at in range(9)]
    shaped = shape(found, None, 60, by_lens=True)
    lenses = [each.lens for each in shaped.memories]
    assert lenses == sorted(lenses)
    assert abs(lenses.count("default") - lenses.count("work")) <= 1
    assert shaped.memories == [each for each in found if each in shaped.memories]
    assert {each.lens for each in shape(found, 1, None, by_lens=True).memories} == {
        "default",
        "work",
    }


def test_the_first_tier_tells_ids_scores_and_sources():
    """No word of what was said is in it."""
    found = [
        memory(f"The boat {at}", id=str(at), source="log", offset="3", metadata={"it": 1})
        for at in range(9)
    ]
    shaped = shape(found, 1, None)
    assert [each.id for each in shaped.memories] == list("01234")
    assert {(each.text, each.source, each.offset) for each in shaped.memories} == {("", "log", "3")}
    assert all(not each.metadata for each in shaped.memories)
    assert "- 0 0.50 log#3\n" in shaped.block
    assert "boat" not in shaped.block


@pytest.mark.parametrize(("tier", "most", "characters"), [(2, 5, 40), (3, 10, 200)])
def test_the_other_tiers_show_the_beginning(tier, most, characters):
    """What is cut ends with an ellipsis, and its line names the id to ask for."""
    found = [memory("long \n" * 100, speaker="Ann"), memory("short"), *SEVERAL]
    shaped = shape(found, tier, None)
    assert len(shaped.memories) == most
    assert max(map(len, texts(shaped))) <= characters
    cut, short = shaped.memories[:2]
    assert (cut.text[-1], short.text) == ("\u2026", "short")
    assert cut.text.startswith("long long")
    assert f"- Ann: {cut.text} ({cut.id})\n- short\n" in shaped.block


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "x " * 50 + "red boats sail " + "x " * 50,
            "\u2026red boats sail x x x x x x x x x x x x\u2026",
        ),
        ("boat " + "x " * 50 + "a red boat sails" + " x" * 50, "\u2026red boat sails x x"),
        ("boat " + "x " * 50, "boat x x x"),
        ("x " * 50 + "boats", "\u2026x x x"),
        ("x " * 3_000 + "boats", "x x x"),
        ("x" * 99, "x" * 39 + "\u2026"),
        ("\u4e2d" * 99, "\u4e2d" * 39 + "\u2026"),
    ],
)
def test_what_has_most_of_the_words_is_shown(text, shown):
    """A cut text begins where most of the question's words are."""
    (found,) = shape([memory(text)], 2, None, query="Where does the red boat sail?").memories
    assert found.text.startswith(shown)
    assert 30 <= len(found.text) <= 40
    if text.endswith("boats") and shown.startswith("\u2026"):
        assert found.text.endswith("boats")


def test_a_cut_note_still_says_what_it_is():
    """Whether a learning succeeded is told, its other attributes are not."""
    learning = memory(
        "Tar the boat. " * 9, kind="learning", attributes={"success": True, "lesson": "tar it"}
    )
    shaped = shape([learning], 2, None)
    assert shaped.memories[0].attributes == {"success": True}
    assert "(learning, succeeded)" in shaped.block
    assert "lesson" not in shaped.block


async def shaped_by(settings, request, short, seconds=5.0):
    deadline = Deadline.after(SystemClock(), seconds * 1_000)
    shaper = settings if isinstance(settings, Shaper) else Shaper(settings)
    asked = RecallRequest(operator="ann", query="boat", **request)
    return await shaper.shape(asked, SEVERAL, deadline, short)


async def test_the_daemons_limit_holds_where_a_request_says_none():
    """A request may ask for less or more."""
    settings = RecallSettings(max_tokens=60)
    counts = [
        len((await shaped_by(settings, request, Shortfalls())).memories)
        for request in ({}, {"max_tokens": 40}, {"max_tokens": 80})
    ]
    assert counts[1] < counts[0] < counts[2] < len(SEVERAL)


async def test_a_counter_of_ones_own_counts():
    """The limit and the answer go by it."""
    short = Shortfalls()
    settings = RecallSettings(token_counter=f"{__name__}:words")
    shaped = await shaped_by(settings, {"max_tokens": 20}, short)
    assert shaped.tokens == words(shaped.block) <= 20 < words(memory_block(SEVERAL[:4]))
    assert not short.degraded


async def test_a_counter_that_fails_does_not_fail_the_answer():
    """Tokens are estimated, and the answer says so."""
    short = Shortfalls()
    settings = RecallSettings(token_counter=f"{__name__}:broken")
    shaped = await shaped_by(settings, {"max_tokens": 60}, short)
    assert shaped == shape(SEVERAL, None, 60)
    assert short.degraded == {"tokens"}
    assert not short.failed


async def test_a_counter_that_hangs_does_not_hold_the_answer_up():
    """After a few times it is not asked any more."""
    shaper = Shaper(RecallSettings(token_counter=f"{__name__}:hung"))
    for _ in range(MAX_LATE):
        short = Shortfalls()
        assert await shaped_by(shaper, {}, short, seconds=0.01) == shape(SEVERAL, None, None)
        assert short.late
    short = Shortfalls()
    assert await shaped_by(shaper, {}, short) == shape(SEVERAL, None, None)
    assert (short.degraded, short.late) == ({"tokens"}, False)


@pytest.mark.parametrize(
    "reference",
    ["nowhere:count", "gralkord.recall.tokens:nothing", "gralkord", f"{__name__}:NEVER"]
    + [f"{__name__}:{name}" for name in ("no_number", "nothing")],
)
def test_what_counts_nothing_is_refused_at_start(reference):
    """The error names the setting."""
    with pytest.raises(ConfigError) as refusal:
        load_counter(reference)
    assert refusal.value.field == "recall.token_counter"
