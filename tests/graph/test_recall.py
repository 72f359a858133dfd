from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import numpy as np
import pytest
from groups_of_tests import ANN, BOB
from memories_of_tests import AxisEmbedder, WatchedGraph, remember
from structlog.testing import capture_logs

from gralkord.clock import SystemClock
from gralkord.config import RecallSettings
from gralkord.errors import DeadlineExpired, ModelOutage
from gralkord.graph.cache import CachePool
from gralkord.groups import Group
from gralkord.models import RecallRequest
from gralkord.recall.recall import Recaller

ANNS = Group("default", "ann", "default")
BOBS = Group("default", "bob", "default")
WORK = Group("default", "ann", "work")


class Stopped:
    """A clock that stands still, so that no deadline ever passes by itself."""

    def now(self):
        """Return one moment."""
        return datetime(2024, 6, 1, tzinfo=UTC)

    def monotonic(self):
        """Return one moment."""
        return 0.0


class BrokenEmbedder(AxisEmbedder):
    """An embedder whose provider is down."""

    async def embed(self, texts, **_):
        """Fail."""
        raise ModelOutage


class LateEmbedder(AxisEmbedder):
    """An embedder that never answers."""

    async def embed(self, texts, **_):
        """Wait for ever."""
        await asyncio.Event().wait()


class OtherEmbedder(AxisEmbedder):
    """Another embedder than the one that made the stored vectors."""

    fingerprint = "test:other:4"


class BlankEmbedder(AxisEmbedder):
    """An embedder to which the question says nothing."""

    async def embed(self, texts, **_):
        """Return zeros."""
        return np.zeros((len(texts), 4), dtype=np.float32)


@pytest.fixture
async def watched(graph):
    """The connection, watched."""
    return WatchedGraph(graph)


@pytest.fixture
async def caches(watched):
    """A pool with room for everything."""
    pool = CachePool(watched, 2**30)
    yield pool
    await pool.close()


@pytest.fixture
def recaller(caches):
    """A recaller with an embedder, as the daemon has it."""
    return Recaller(caches, AxisEmbedder(), RecallSettings(), SystemClock())


async def ask(recaller, query, *groups, **values):
    request = RecallRequest(operator="ann", query=query, **values)
    return await recaller.recall("default", request, groups or (ANNS,))


def texts(result) -> list[str]:
    return [memory.text for memory in result.results]


async def test_operators_find_their_own_memories_only(graph, recaller):
    """The same question has another answer for each."""
    await remember(graph, ANN, "the boat is red")
    await remember(graph, BOB, "the boat is green")
    assert texts(await ask(recaller, "boat")) == ["the boat is red"]
    assert texts(await ask(recaller, "boat", BOBS)) == ["the boat is green"]


async def test_the_answer_is_whole_and_says_so(graph, recaller):
    """Nothing is missing: not partial, not degraded; the block shows what the results hold."""
    await remember(graph, ANN, "the boat is <red>")
    result = await ask(recaller, "boat")
    assert (result.partial, result.degraded, result.notes) == (False, [], [])
    assert "- [2024-05-01] Ann: the boat is &lt;red&gt;" in result.memory_block
    assert result.took_ms > 0


async def test_a_turn_is_found_right_after_it_was_written(graph, recaller):
    """There is no delay between writing and finding."""
    for number, word in enumerate(["alpha", "beta", "gamma"]):
        await remember(graph, ANN, f"the word is {word}", start=number)
        assert texts(await ask(recaller, word))[0] == f"the word is {word}"


async def test_today_is_where_the_asker_is(graph, recaller):
    """What was said this morning is not of today any more where it is past midnight."""
    await remember(graph, ANN, "the boat is red")
    asked = {"as_of": "2024-05-01T16:00:00Z"}
    here = await ask(recaller, "the boat today", **asked)
    there = await ask(recaller, "the boat today", zone="Asia/Tokyo", **asked)
    assert "time" in here.results[0].arms
    assert "time" not in there.results[0].arms


async def test_an_unknown_operator_has_no_memories(recaller):
    """That is an answer, not a failure."""
    result = await ask(recaller, "boat", BOBS)
    assert (result.results, result.partial, result.degraded) == ([], False, [])
    assert "No relevant memories found." in result.memory_block


async def test_lenses_are_searched_in_one_answer(graph, recaller):
    """Each memory says which lens holds it."""
    await remember(graph, ANN, "the boat is red")
    await remember(graph, WORK.id, "the boat is rented out", session="w")
    result = await ask(recaller, "boat", ANNS, WORK)
    assert {memory.lens for memory in result.results} == {"default", "work"}


async def test_vectors_of_another_embedder_are_not_used(graph, caches):
    """Words still find, and the answer says what it is without; it is not partial."""
    await remember(graph, ANN, "the boat is red")
    result = await ask(Recaller(caches, OtherEmbedder(), RecallSettings(), SystemClock()), "boat")
    assert (texts(result), result.degraded, result.partial) == (
        ["the boat is red"],
        ["vector"],
        False,
    )
    assert result.results[0].arms == ["lexical"]


@pytest.mark.parametrize(("expects", "degraded"), [(False, []), (True, ["vector"])])
async def test_without_an_embedder_words_find(graph, caches, expects, degraded):
    """That is degraded only where one is configured."""
    await remember(graph, ANN, "the boat is red")
    recaller = Recaller(caches, None, RecallSettings(), SystemClock(), expects_vectors=expects)
    result = await ask(recaller, "boat")
    assert (texts(result), result.degraded) == (["the boat is red"], degraded)


async def test_an_embedder_that_fails_leaves_the_words(graph, caches):
    """The answer is what words find, and partial."""
    await remember(graph, ANN, "the boat is red")
    result = await ask(Recaller(caches, BrokenEmbedder(), RecallSettings(), SystemClock()), "boat")
    assert (texts(result), result.degraded, result.partial) == (
        ["the boat is red"],
        ["vector"],
        True,
    )


async def test_an_embedder_that_is_late_leaves_the_words(graph, caches):
    """The deadline is kept, and what words find is answered within it."""
    await remember(graph, ANN, "the boat is red")
    recaller = Recaller(caches, LateEmbedder(), RecallSettings(), SystemClock())
    result = await ask(recaller, "boat", deadline_ms=300)
    assert (texts(result), result.degraded, result.partial) == (
        ["the boat is red"],
        ["vector"],
        True,
    )
    assert result.took_ms < 300


async def test_a_question_that_says_nothing_to_the_embedder_is_answered(graph, caches):
    """A vector of zeros is close to nothing, which is no failure."""
    await remember(graph, ANN, "the boat is red")
    result = await ask(Recaller(caches, BlankEmbedder(), RecallSettings(), SystemClock()), "boat")
    assert (texts(result), result.degraded) == (["the boat is red"], [])


async def test_a_graph_that_is_down_is_answered_for_from_memory(graph, watched, recaller):
    """What is known is answered, and marked."""
    await remember(graph, ANN, "the boat is red")
    await ask(recaller, "boat")
    watched.down = True
    result = await ask(recaller, "boat")
    assert (texts(result), result.degraded, result.partial) == (
        ["the boat is red"],
        ["graph"],
        True,
    )


async def test_a_graph_that_is_down_from_the_start_has_no_memories(watched, recaller):
    """At the deadline there are no memories, and that is marked, or an error if that is asked."""
    watched.down = True
    result = await ask(recaller, "boat", deadline_ms=200)
    assert (result.results, result.degraded, result.partial) == ([], ["graph"], True)
    with pytest.raises(DeadlineExpired):
        await ask(recaller, "boat", deadline_ms=200, on_deadline="error")


async def test_a_graph_that_is_still_loading_is_waited_for(graph, watched, recaller):
    """Of a group that is not known yet no empty answer is given while there is time."""
    await remember(graph, ANN, "the boat is red")
    watched.down = True
    asking = asyncio.create_task(ask(recaller, "boat"))
    await asyncio.sleep(0.3)
    watched.down = False
    result = await asking
    assert (texts(result), result.degraded, result.partial) == (["the boat is red"], [], False)


async def test_a_graph_that_is_late_is_answered_for_from_memory(graph, watched, recaller):
    """The deadline is kept with what is known."""
    await remember(graph, ANN, "the boat is red")
    await ask(recaller, "boat")
    watched.gate = asyncio.Event()
    result = await ask(recaller, "boat", deadline_ms=200)
    assert (texts(result), result.degraded, result.partial) == (
        ["the boat is red"],
        ["graph"],
        True,
    )
    assert result.took_ms < 200
    watched.gate.set()


@pytest.mark.parametrize("known", [False, True])
async def test_all_or_nothing_is_an_error_when_late(graph, watched, recaller, known):
    """Who asks for all or nothing gets the error, whether something is known or not."""
    await remember(graph, ANN, "the boat is red")
    if known:
        await ask(recaller, "boat")
    watched.gate = asyncio.Event()
    with pytest.raises(DeadlineExpired):
        await ask(recaller, "boat", deadline_ms=100, on_deadline="error")
    watched.gate.set()


async def test_nothing_in_time_is_an_empty_partial_answer(graph, watched, recaller):
    """Who takes what is ready gets nothing, and is told so."""
    await remember(graph, ANN, "the boat is red")
    watched.gate = asyncio.Event()
    with capture_logs() as logs:
        result = await ask(recaller, "boat", deadline_ms=100)
    assert (result.results, result.degraded, result.partial) == ([], ["graph"], True)
    late = [
        (each["log_level"], each["degraded"]) for each in logs if each["event"] == "recall_late"
    ]
    assert late == [("warning", ["graph"])]
    assert "boat" not in str(logs)
    watched.gate.set()
    assert texts(await ask(recaller, "boat")) == ["the boat is red"]


async def test_the_settings_have_the_default_deadline(graph, watched, caches):
    """A request without a deadline has that of the settings."""
    watched.gate = asyncio.Event()
    recaller = Recaller(caches, None, RecallSettings(deadline_ms=50), SystemClock())
    assert "graph" in (await ask(recaller, "boat")).degraded
    watched.gate.set()


async def test_time_is_taken_from_the_clock(graph, caches):
    """What becomes invalid later than now is still answered."""
    (uuid,) = await remember(graph, ANN, "the boat is red")
    query = (
        "MATCH (m:Meta) SET m.seq = m.seq + 1 WITH m MATCH (p:Passage {uuid: $uuid}) "
        "SET p.seq = m.seq, p.invalid_at = $at"
    )
    recaller = Recaller(caches, None, RecallSettings(), Stopped())
    await graph.write(ANN, query, {"uuid": uuid, "at": "2024-06-02T00:00:00Z"})
    assert texts(await ask(recaller, "boat")) == ["the boat is red"]
    await graph.write(ANN, query, {"uuid": uuid, "at": "2024-05-31T00:00:00Z"})
    assert texts(await ask(recaller, "boat")) == []


@pytest.mark.parametrize(
    "query", ["_", "the it", "?!", "👍", "' OR 1=1 \\", "boat " * 1_500, "مرحبا"]
)
async def test_odd_questions_are_answered(graph, recaller, query):
    """No question is an error."""
    await remember(graph, ANN, "the boat is red, and it floats")
    assert (await ask(recaller, query)).degraded == []


async def test_many_recalls_at_once_agree(graph, recaller):
    """Recalls beside each other and beside writes do not disturb each other."""
    await remember(graph, ANN, *[f"boat number {number}" for number in range(50)])
    results, _ = await asyncio.gather(
        asyncio.gather(*(ask(recaller, "boat number 7") for _ in range(20))),
        remember(graph, ANN, *[f"car number {number}" for number in range(50)], session="t"),
    )
    assert {texts(result)[0] for result in results} == {"boat number 7"}
