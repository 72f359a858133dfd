"""Processes of the user's own: what they are given, when they fail, and what becomes of their texts."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from gralkord import config, lenses
from gralkord.errors import BackendUnavailable, InvalidInput, ProcessFailed
from gralkord.graph.drafts import EpisodeDraft, EpisodeResult
from gralkord.graph.passages import StoredPassage
from gralkord.groups import Group
from gralkord.lenses.process import MAX_ADDED, MAX_CONTENT_CHARS, Found
from gralkord.lenses.registry import Lens, LensRegistry
from gralkord.mailbox.items import Item, Lease
from gralkord.turns.ingestion.adding import add_texts
from gralkord.turns.ingestion.own import MOST_HANGING, OwnProcesses
from gralkord.turns.ingestion.searching import OneLens
from gralkord.turns.retry import decide
from gralkord.turns.work import Work

GROUP = Group("default", "ann", "notes")
BODY = {"kind": "understand", "home": GROUP.id, "operator": "ann", "agent": "bot", "session": "s"}
ITEM = Item("17.1", {**BODY, "turns": ["t1", "t2"], "flushes": ["default:f1"]})
WHEN = datetime(2026, 3, 4, tzinfo=UTC)


def passage(part):
    """Return a part of what was said."""
    names = {"speaker": "Ann", "role": "user", "agent": "bot", "session": "s", "turn_id": "t2"}
    return StoredPassage(
        f"p{part}",
        "I like tea",
        ordinal=1,
        part=part,
        event_time=WHEN,
        source=None,
        offset=None,
        **names,
    )


def work(process, seconds=5.0):
    """Return one item on its way through a lens with that process."""
    lens = Lens(
        "notes", "operator", ingestion="shop:notes", process=process, timeout_seconds=seconds
    )
    draft = EpisodeDraft("e1", "session s", "Ann: I like tea", WHEN, "a conversation")
    passages = [passage(0), passage(1)]
    lease = Lease("understand", GROUP.id, 7, (ITEM,))
    return Work(None, lease, ITEM, lens, passages, draft)


async def search(group, operator, query, max_results, but):
    """Find what was asked for."""
    assert but == {"t2"}
    return [Found("fact", "f1", f"{group.lens} {operator} {query} {max_results}", 0.5)]


@pytest.fixture
def own():
    """Return what runs processes; it waits for none that hangs."""
    return OwnProcesses(search, grace_seconds=0.05)


def texts(follow_ups):
    """Return the texts of follow-ups; the first has none."""
    return [each.item.body.get("content") for each in follow_ups]


async def test_a_process_is_given_what_came_and_its_texts_follow_in_order(own):
    """Each with its own id, for the same flush, of the turns that had words; the model is asked."""
    seen = []

    async def process(request, store):
        seen.append(request)
        await store.add("one")
        await store.add("two", "a list")

    done = await own.run(work(process))
    assert seen == [
        lenses.Request(
            "ann", "notes", "Ann: I like tea", "a conversation", "conversation", WHEN, "e1"
        )
    ]
    assert texts(done) == [None, "one", "two"]
    assert [each.item.body.get("asks_model") for each in done] == [None, True, True]
    assert [each.item.body.get("source_description") for each in done[1:]] == [
        "a conversation",
        "a list",
    ]
    assert len({each.item.id for each in done}) == 3
    assert {each.group for each in done} == {GROUP.id}
    assert all(each.item.body["turns"] == ["t2"] for each in done)
    assert all(each.item.body["flushes"] == ["default:f1"] for each in done)
    assert (await own.run(work(process)))[2] == done[2]


@pytest.mark.parametrize(
    ("source", "kind", "read_as"),
    [
        ("message", "conversation", ["message", "message"]),
        ("text", "document", ["text", "text"]),
        ("json", "structured_record", ["text", "json"]),
    ],
)
async def test_texts_are_read_as_what_they_were_made_of(own, source, kind, read_as):
    """A process is told what that is; what is made of a record need not be one itself."""
    kinds, drafts = [], []

    async def process(request, store):
        kinds.append(request.kind)
        await store.add("Ann likes tea.")
        await store.add('{"likes": "tea"}')

    class Graph:
        async def of_turns(self, *_):
            return [replace(passage(0), form=kind)]

        async def add(self, _group, _epoch, draft):
            drafts.append(draft)
            return EpisodeResult(draft.uuid, created=True, facts=0, entities=0)

    item = work(process)
    done = await own.run(replace(item, draft=replace(item.draft, source=source)))
    assert kinds == [kind]
    execute = add_texts(Graph(), Graph(), LensRegistry({"notes": config.Lens()}))
    for each in done:
        await execute(item.lease, each.item)
    handled, *texts = drafts
    assert (handled.extract, handled.body, handled.passages) == (False, "", ("p0",))
    assert [each.source for each in texts] == read_as
    assert [(each.within, each.passages) for each in texts] == [(handled.uuid, ())] * 2
    assert len({each.uuid for each in drafts}) == 3


async def test_a_plain_function_runs_in_a_thread_and_awaits_nothing(own):
    """Its store answers at once; the event loop goes on meanwhile."""
    threads, goes_on = [], threading.Event()

    def process(request, store):
        threads.append(threading.get_ident())
        assert goes_on.wait(5)
        store.add(store.search(request.content, 3)[0].text)

    asyncio.get_running_loop().call_soon(goes_on.set)
    assert texts(await own.run(work(process))) == [None, "notes ann Ann: I like tea 3"]
    assert threads != [threading.get_ident()]


async def test_a_function_that_hides_that_it_is_async_is_awaited(own):
    """Its store may be awaited, and searched."""

    async def process(_request, store):
        await store.add((await store.search("tea"))[0].text)

    def hidden(request, store):
        return process(request, store)

    found = await own.run(work(hidden))
    assert texts(found) == [None, "notes ann tea 10"]


async def test_what_a_failed_process_has_added_is_nowhere(own):
    """Its error counts as an attempt, tells its place, and not its text."""

    def process(_request, store):
        store.add("one")
        raise ValueError("Ann likes tea")

    with pytest.raises(ProcessFailed) as caught:
        await own.run(work(process))
    decision = decide(caught.value, 0)
    assert (decision.verdict, decision.reason) == ("count", "process_failed")
    assert decision.detail.startswith("lens 'notes': shop:notes raised ValueError in ")
    assert "process:" in decision.detail
    assert "tea" not in decision.detail


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(InvalidInput("no"), "bury"), (BackendUnavailable("away"), "wait")],
)
async def test_errors_of_gralkord_keep_their_own_rule(own, error, verdict):
    """What can never succeed is given up at once; what waits for a server does not count."""

    async def process(_request, _store):
        raise error

    with pytest.raises(type(error)) as caught:
        await own.run(work(process))
    assert decide(caught.value, 0).verdict == verdict


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(),
        asyncio.CancelledError(),
    ],
)
async def test_a_process_that_ends_everything_ends_itself_alone(own, kind, error):
    """It has failed as with any other error."""

    def plain(_request, _store):
        raise error

    async def process(request, store):
        plain(request, store)

    with pytest.raises(ProcessFailed) as caught:
        await own.run(work(process if kind == "async" else plain))
    assert kind == "async" or f"{type(error).__name__} in plain:" in caught.value.message


async def test_a_thread_that_hangs_is_left_behind_and_can_add_nothing_more(own):
    """The lane goes on when its time is over."""
    ended, caught = threading.Event(), []

    def process(_request, store):
        ended.wait(10)
        try:
            store.add("late")
        except ProcessFailed as error:
            caught.append(error)

    with pytest.raises(ProcessFailed, match=r"did not end within 0\.05 seconds") as refused:
        await own.run(work(process, 0.05))
    assert refused.value.field == "lenses.notes.timeout_seconds"
    (hanging,) = own._hanging
    assert hanging.daemon
    ended.set()
    await asyncio.to_thread(hanging.join)
    assert len(caught) == 1


async def test_no_more_threads_hang_than_a_process_can_bear(own):
    """Then it fails at once, until some have ended."""
    ended = threading.Event()
    waiting = work(lambda _request, _store: ended.wait(10), 0.01)
    for _ in range(MOST_HANGING):
        with pytest.raises(ProcessFailed, match="did not end"):
            await own.run(waiting)
    with pytest.raises(ProcessFailed, match="still hang"):
        await own.run(waiting)
    ended.set()
    for thread in own._hanging:
        await asyncio.to_thread(thread.join)
    assert texts(await own.run(waiting)) == [None]


async def test_tasks_that_will_not_end_count_as_well(own):
    """One that goes on when it is cancelled is left behind, and no more than can be borne."""
    ended = asyncio.Event()

    async def process(_request, _store):
        while not ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await ended.wait()

    for _ in range(MOST_HANGING):
        with pytest.raises(ProcessFailed, match="did not end"):
            await own.run(work(process, 0.01))
    with pytest.raises(ProcessFailed, match="still hang"):
        await own.run(work(process, 0.01))
    ended.set()
    await asyncio.gather(*own._tasks, return_exceptions=True)
    await own.run(work(process, 0.01))


async def test_a_task_that_hangs_is_cancelled_and_not_waited_for(own):
    """Also one that will not hear of it."""
    forever, deaf = asyncio.Event(), []

    async def process(_request, store):
        try:
            await forever.wait()
        except asyncio.CancelledError:
            deaf.append(store)
        await forever.wait()

    with pytest.raises(ProcessFailed, match="did not end"):
        await own.run(work(process, 0.05))
    with pytest.raises(ProcessFailed, match="over"):
        deaf[0].add("late")
    forever.set()


async def test_a_lane_that_is_told_to_stop_ends_the_run(own):
    """Whoever waits for it is cancelled, and not held up by a thread."""
    began, ended = threading.Event(), threading.Event()

    def process(_request, _store):
        began.set()
        ended.wait(10)

    run = asyncio.create_task(own.run(work(process)))
    await asyncio.to_thread(began.wait)
    run.cancel()
    before = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert time.monotonic() - before < 1
    ended.set()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([" \n"], "content: must not be blank"),
        (["tea", ""], "source_description: must not be blank"),
        (["x" * (MAX_CONTENT_CHARS + 1)], "content: 32001 characters, the limit is 32000"),
        (["\ud800"], "content: has half a character"),
        ([{"tea": 1}], "content: is no text, but dict"),
    ],
)
async def test_what_cannot_be_understood_is_refused_by_name(own, arguments, words):
    """A process that does not mind goes on without it."""

    async def process(_request, store):
        with pytest.raises(InvalidInput, match=words):
            store.add(*arguments)
        await store.add("tea")

    assert texts(await own.run(work(process))) == [None, "tea"]


async def test_a_run_adds_a_thousand_texts_and_no_more(own):
    """The limit is told."""

    async def process(_request, store):
        for number in range(MAX_ADDED):
            await store.add(f"text {number}")
        with pytest.raises(InvalidInput, match="1000 texts") as caught:
            await store.add("one more")
        assert caught.value.limit == MAX_ADDED

    assert len(await own.run(work(process))) == MAX_ADDED + 1


async def test_a_search_that_could_not_be_made_is_no_answer():
    """A process that believed that nothing is known would add it all again."""

    class Recaller:
        async def recall(self, *_):
            return SimpleNamespace(results=[], degraded=["graph"])

    with pytest.raises(BackendUnavailable):
        await OneLens(Recaller()).search(GROUP, "ann", "tea", 3)
    with pytest.raises(InvalidInput, match="query"):
        await OneLens(Recaller()).search(GROUP, "ann", " ", 3)


def test_the_public_names_load_nothing_heavy():
    """A module with a process is imported wherever the settings are checked."""
    code = (
        "import sys, gralkord.lenses; heavy = {'graphiti_core', 'numpy', 'redis', 'pydantic'} & "
        "set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
