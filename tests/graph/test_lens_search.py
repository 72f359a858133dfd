"""Search through lenses, and notes in recall: groups that are kept apart, and the one they share."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from memories_of_tests import AxisEmbedder, WatchedGraph, remember

from gralkord.clock import SystemClock
from gralkord.config import Agent, DefaultLens, Lens, LensSearch, RecallSettings
from gralkord.errors import DeadlineExpired, UnknownLens
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft, Note, note_uuid
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.origins import Origins
from gralkord.groups import Group
from gralkord.lenses.registry import LensRegistry
from gralkord.models import RecallRequest
from gralkord.models.search import SearchRequest
from gralkord.recall.recall import Recaller

WHEN = datetime(2026, 3, 4, tzinfo=UTC)
ANNS, BOBS = Group("default", "ann"), Group("default", "bob")
WORK = Group("default", "ann", "work")
SHARED = Group("default")

LENSES = LensRegistry(
    {
        "work": Lens(search=LensSearch(max_results=2)),
        "facts": Lens(scope="global", search=LensSearch(kinds=["generalisation"])),
        "team": Lens(scope="global", search=LensSearch(kinds=["memory"])),
    },
    DefaultLens(search=LensSearch(max_results=3)),
    agents={"clerk": Agent(default_lens="work", search_lenses=["global"])},
)


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
def recaller(caches, watched):
    """A recaller as the daemon has it."""
    settings = RecallSettings()
    origins = Origins(watched)
    return Recaller(caches, AxisEmbedder(), settings, SystemClock(), origins=origins)


@pytest.fixture
def write(graph, caches):
    """Return what writes notes of one kind, with an episode that came through a lens."""
    writer = EpisodeWriter(graph, caches, None, AxisEmbedder())

    async def add(group, *texts, kind="generalisation", lens="default", **more):
        notes = [Note(note_uuid(group.id, text), kind, text, text, WHEN, **more) for text in texts]
        uuid = note_uuid("episode", group.id, lens, *texts)
        draft = EpisodeDraft(
            uuid, "n", "n", WHEN, "a test", lens=lens, extract=False, notes=tuple(notes)
        )
        await writer.add(group.id, 1, draft)

    return add


async def search(recaller, query, *lenses, operator="ann", agent=None, **more):
    """Return the answer to a search."""
    request = SearchRequest(operator=operator, query=query, lenses=lenses, agent=agent, **more)
    reached = LENSES.reached("default", operator, lenses, agent)
    return await recaller.search("default", request, reached)


async def recall(recaller, query, *lenses, operator="ann", **more):
    """Return the answer to a recall."""
    request = RecallRequest(operator=operator, query=query, **more)
    return await recaller.recall(
        "default", request, LENSES.reached("default", operator, lenses, None)
    )


def told(result) -> list[tuple[str, str]]:
    """Return the lens and the words of each result."""
    return [(memory.lens, memory.text) for memory in result.results]


async def test_each_lens_answers_for_itself_in_its_place(graph, recaller):
    """The default lens is first and once, each has its own limit, and others' are not found."""
    await remember(graph, ANNS.id, *[f"boat {at}" for at in range(5)])
    await remember(graph, WORK.id, *[f"work boat {at}" for at in range(5)], session="w")
    await remember(graph, BOBS.id, "boat of bob")
    found = await search(recaller, "boat", "work", "default", "work", max_results=1)
    assert [lens for lens, _ in told(found)] == found.lenses == ["default", "work"]
    found = await search(recaller, "boat", "work")
    assert [lens for lens, _ in told(found)] == ["default"] * 3 + ["work"] * 2
    found = await search(recaller, "boat", operator="bob")
    assert told(found) == [("default", "boat of bob")]
    assert (found.partial, found.degraded) == (False, [])


async def test_what_global_lenses_share_is_searched_once(recaller, watched, write):
    """Each result names the lens that it came through, whichever was asked for."""
    await write(SHARED, "boats need paint", lens="facts")
    await write(SHARED, "boats are rented", kind="memory", lens="team")
    found = await search(recaller, "boats", "team", "facts", "global")
    assert found.lenses == ["default", "global"]
    assert {(one.text, one.origin, one.kind) for one in found.results} == {
        ("boats need paint", "facts", "generalisation"),
        ("boats are rented", "team", "memory"),
    }
    watched.queries.clear()
    (alone,) = (await search(recaller, "boats", "facts", operator="bob")).results
    assert (alone.text, alone.origin) == ("boats need paint", "facts")
    assert not [query for query in watched.queries if "Episodic" in query]  # it is known


async def test_a_lens_shows_the_kinds_that_it_is_set_to(recaller, write):
    """Unless the question names kinds itself; several lenses of one memory show what any does."""
    await write(SHARED, "boats need paint", lens="facts")
    await write(SHARED, "boats are rented", kind="memory", lens="team")
    team = await recall(recaller, "boats", "team")
    assert told(team) == [("global", "boats are rented")]
    assert len((await recall(recaller, "boats", "team", "facts")).results) == 2
    named = await recall(recaller, "boats", "team", kinds=["generalisation"])
    assert [(one.text, one.origin) for one in named.results] == [("boats need paint", "facts")]


async def test_a_lens_gives_no_more_than_it_is_set_to(graph, recaller):
    """Its limit holds within a recall, too."""
    await remember(graph, ANNS.id, *[f"boat {at}" for at in range(9)])
    await remember(graph, WORK.id, *[f"boat at work {at}" for at in range(9)], session="w")
    found = await recall(recaller, "boat", "work")
    assert sorted(lens for lens, _ in told(found)) == ["default"] * 3 + ["work"] * 2


async def test_an_agent_searches_its_own_lenses(graph, recaller, write):
    """They come after the default lens, where the question names none."""
    await remember(graph, WORK.id, "boat at work", session="w")
    await write(SHARED, "boats need paint", lens="facts")
    found = await search(recaller, "boat", agent="clerk")
    assert found.lenses == ["default", "work", "global"]
    assert [lens for lens, _ in told(found)] == ["work", "global"]


async def test_one_lens_can_be_asked_alone(graph, recaller):
    """The default lens is left out then; what is no lens is refused."""
    await remember(graph, ANNS.id, "boat at home")
    await remember(graph, WORK.id, "boat at work", session="w")
    request = RecallRequest(operator="ann", query="boat", lens="work")
    found = await recaller.recall("default", request, LENSES.alone("default", "ann", "work"))
    assert told(found) == [("work", "boat at work")]
    with pytest.raises(UnknownLens):
        LENSES.alone("default", "ann", "play")


async def test_learnings_are_found_by_their_own_operator(graph, recaller, write):
    """Beside what was said, with what is known of them; another operator does not find them."""
    await remember(graph, ANNS.id, "the boat leaks")
    known = {"success": True, "lesson": "tar it"}
    await write(ANNS, "boat leaks: tar it", kind="learning", attributes=known)
    found = await recall(recaller, "boat leaks")
    (learning,) = [one for one in found.results if one.kind == "learning"]
    assert learning.attributes == known
    assert "learnings" in learning.arms
    assert "(learning, succeeded) boat leaks: tar it" in found.memory_block
    assert (await recall(recaller, "boat leaks", operator="bob")).results == []


async def test_nothing_found_is_said_and_a_late_lens_is_named(graph, recaller, watched):
    """An empty answer says so; what the graph does not tell in time is missing, or an error."""
    found = await search(recaller, "xylophone", "work")
    assert found.results == []
    assert "No relevant memories found." in found.memory_block
    await remember(graph, ANNS.id, "the boat is red")
    await search(recaller, "boat")
    watched.down = True
    found = await search(recaller, "boat", "work", deadline_ms=200)
    assert (told(found), found.degraded, found.partial) == (
        [("default", "the boat is red")],
        ["graph"],
        True,
    )
    with pytest.raises(DeadlineExpired):
        await search(recaller, "boat", "work", deadline_ms=100, on_deadline="error")


async def test_without_its_lens_of_origin_a_memory_is_returned_all_the_same(
    recaller, watched, write
):
    """The answer says that it is not known."""
    await write(SHARED, "boats need paint", lens="facts")
    await search(recaller, "boats", "global")
    recaller._origins = Origins(watched)

    async def fail(query):
        watched.down = "Episodic" in query

    watched.before = fail
    found = await search(recaller, "boats", "global")
    assert (told(found), found.results[0].origin) == ([("global", "boats need paint")], None)
    assert found.degraded == ["origin"]
