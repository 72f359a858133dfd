"""Generalising on its whole way: asked for, done in the understand lane, found, undone, erased."""

from __future__ import annotations

import asyncio
import json
import re
import time
from datetime import UTC, datetime

import pytest
from fakes import FakeEmbedder, FakeModel
from groups_of_tests import ANN, BOB, only
from memories_of_tests import WHEN, remember

from gralkord.clock import SystemClock
from gralkord.config import DefaultLens, Generalise, Server
from gralkord.config import Lens as LensSettings
from gralkord.daemon.generalising import GeneraliseSchedule
from gralkord.errors import ModelOutage, NoModel
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft, origin_key
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.finding import GroupFinder, Named
from gralkord.graph.fresh import FreshEpisodes
from gralkord.graph.invalidation import Invalidations
from gralkord.graph.notes import NoteFinder
from gralkord.graph.passages import PassageStore
from gralkord.groups import Group
from gralkord.lenses.registry import LensRegistry
from gralkord.mailbox.connection import open_queue
from gralkord.mailbox.flushes import Flushes
from gralkord.mailbox.items import Item, Lease
from gralkord.mailbox.keys import Keys
from gralkord.mailbox.mailbox import Mailbox
from gralkord.mailbox.requests import Requests
from gralkord.memories.generalise import Generalisations
from gralkord.memories.lookup import Lookup
from gralkord.memories.memories import Memories
from gralkord.models.erasure import EraseRequest
from gralkord.models.generalisations import (
    GeneralisationQuery,
    GeneralisationsRequest,
    GeneraliseRequest,
)
from gralkord.models.memories import HistoryQuery
from gralkord.providers.embedders.choice import Embedders
from gralkord.turns.generalise.requests import GeneraliseParts, generalise_executors
from gralkord.turns.ingestion import PROCESSES
from gralkord.turns.understand import understand
from gralkord.turns.work import Making, UnderstandParts
from gralkord.wire import read_model

WORK = Group("default", "ann", "work").id
TOLD = datetime(2026, 3, 4, tzinfo=UTC)


def proposed(*pairs):
    """Return what a model answers that proposes generalisations."""
    return {"generalisations": [{"content": text, "confidence": sure} for text, sure in pairs]}


def decided(action, known=0, **more):
    """Return what a model answers that decides on one hypothesis."""
    return {"decisions": [{"hypothesis": 0, "action": action, "known": known, **more}]}


def shown(prompt, tag):
    """Return the part of a prompt between tags."""
    return json.loads(re.search(rf"<{tag}>\n(.*)\n</{tag}>", prompt)[1])


@pytest.fixture
async def queue(queue_socket):
    """A client of an empty queue Redis."""
    client = open_queue(Server(socket=queue_socket))
    yield client
    await client.aclose()


class AtOnce:
    """The graph on a disk that needs no time."""

    def __init__(self, graph) -> None:
        self.ensure_group, self.write, self.read = graph.ensure_group, graph.write, graph.read

    async def known_run(self):
        """Return what it is."""
        return "run"

    async def wait_durable(self, run):
        """Wait for nothing."""


class System:
    """The daemon's side and a worker's, in one process."""

    def __init__(self, queue, graph, model, **default):
        keys, clock = Keys(), SystemClock()
        self.graph = graph
        embedder = FakeEmbedder()
        caches = self.caches = CachePool(graph, 1 << 24)
        self.mailbox = Mailbox(queue, keys)
        self.flushes = Flushes(queue, keys, clock)
        self.requests = Requests(queue, keys, clock, self.flushes, self._rings, backlog_limit=100)
        self.lenses = LensRegistry({"work": LensSettings(ingestion="generalise")})
        finder = NoteFinder(caches, Embedders.of(embedder), clock)
        self.service = Generalisations(self.requests, finder, self.lenses, clock, model is not None)
        self.episodes = EpisodeWriter(graph, caches, model, embedder)
        settings = Generalise()
        self.executors = generalise_executors(
            GeneraliseParts.of(model, finder, self.episodes, graph, settings, clock)
        )
        self.parts = UnderstandParts(
            mailbox=self.mailbox,
            graph=AtOnce(graph),
            passages=PassageStore(graph),
            episodes=self.episodes,
            clock=clock,
            ring=self._again,
            executors=self.executors,
            lenses=self.lenses,
            model=model,
            notes=finder,
            making=Making(DefaultLens(**default), settings),
            processes=PROCESSES,
        )
        self.working = set()

    async def _rings(self, rings):
        for _, group in rings:
            await self._again(group)

    async def _again(self, group):
        task = asyncio.create_task(understand(self.parts, group))
        self.working.add(task)
        task.add_done_callback(self.working.discard)

    async def quiet(self):
        """Wait until nothing is done any more."""
        while self.working:
            await asyncio.gather(*self.working)

    async def generalise(self, transcript=None, operator="ann", **more):
        raw = {"operator": operator, "transcript": transcript, "timeout_ms": 20_000, **more}
        return await self.service.generalise("default", read_model(GeneraliseRequest, raw))

    async def add(self, *forms, operator="ann", **more):
        raw = {"operator": operator, "generalisations": list(forms), **more}
        return await self.service.add("default", read_model(GeneralisationsRequest, raw))

    async def find(self, query=None, operator="ann", **more):
        raw = {"operator": operator, "query": query, **more}
        return await self.service.find("default", read_model(GeneralisationQuery, raw))

    async def known(self, operator="ann", **more):
        """Return what holds, by its words."""
        page = await self.find(operator=operator, **more)
        return {one.content: one for one in page.generalisations}

    async def understood(self, *texts, group=ANN, session="s", start=0):
        """Write turns, and an episode of them."""
        uuids = await remember(self.graph, group, *texts, session=session, start=start)
        uuid = f"ep-{session}-{start}"
        await self.episodes.add(
            group,
            int(time.time() * 1e6),
            EpisodeDraft(
                uuid,
                uuid,
                "\n".join(f"Ann: {text}" for text in texts),
                WHEN,
                "a test",
                passages=tuple(uuids),
                extract=False,
            ),
        )
        return uuid


@pytest.fixture
async def make_system(queue, graph):
    """Make a system, with a model or without."""
    following, systems = [], []

    def make(model=None, **default):
        system = System(queue, graph, model, **default)
        systems.append(system)
        following.append(asyncio.create_task(system.flushes.follow()))
        return system

    yield make
    async with asyncio.timeout(10):
        for system in systems:
            await system.quiet()
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


async def test_a_transcript_is_generalised_without_a_second_call_where_nothing_is_known(
    make_system,
):
    """What is sure enough is saved, strongest first; nobody else's memory has it."""
    model = FakeModel(Hypotheses=proposed(("Ann naps", 0.3), ("Ann likes tea", 0.9), ("Hm", 0.29)))
    system = make_system(model)
    done = await system.generalise("Ann: I like tea", event_time="2026-03-04")
    assert (done.hypotheses, done.kept, done.saved, done.ignored) == (3, 2, 2, 0)
    assert [one.content for one in done.generalisations] == ["Ann likes tea", "Ann naps"]
    assert model.stages == ["generalise.hypothesise"]
    known = await system.known()
    assert known["Ann likes tea"].valid_at == "2026-03-04T00:00:00Z"
    assert (known["Ann likes tea"].level, known["Ann likes tea"].confidence) == (0, 0.9)
    assert await system.known("bob") == {}


async def test_a_contradicted_generalisation_is_superseded(make_system):
    """The new one names it and stands a level above; it is found no more."""
    model = FakeModel(Hypotheses=proposed(("Ann likes tea", 0.9)))
    system = make_system(model)
    [old] = (await system.generalise("Ann: I like tea")).generalisations
    await system.generalise("Bob: I like tea", operator="bob")
    model.answers |= {
        "Hypotheses": proposed(("Ann hates tea", 0.8)),
        "GeneralisationDecisions": lambda prompt: decided(
            "contradicts", [one["content"] for one in shown(prompt, "KNOWN")].index("Ann likes tea")
        ),
    }
    done = await system.generalise("Ann: I hate tea")
    [new] = done.generalisations
    assert (done.contradicted, new.action, new.level, new.generalises) == (
        1,
        "contradicts",
        1,
        [old.id],
    )
    assert list(await system.known()) == ["Ann hates tea"]
    assert [one.id for one in (await system.find("tea")).generalisations] == [new.id]
    query = "MATCH ()-[f:RELATES_TO {uuid: $uuid}]->() RETURN f.superseded_by + ' ' + f.superseded_reason"
    assert await only(system.graph, ANN, query, uuid=old.id) == f"{new.id} contradicts"
    assert list(await system.known("bob")) == ["Ann likes tea"]


async def test_what_is_known_word_for_word_costs_no_second_call(make_system):
    """It is skipped, and counted as such."""
    model = FakeModel(Hypotheses=proposed(("Ann likes tea.", 0.9)))
    system = make_system(model)
    await system.generalise("Ann: I like tea")
    done = await system.generalise("Ann: I do like tea")
    assert (done.kept, done.skipped, done.generalisations) == (1, 1, [])
    assert model.stages == ["generalise.hypothesise"] * 2


async def test_what_is_new_is_generalised_once(make_system):
    """Episodes since the last time, with their turns; nothing new asks no model."""
    model = FakeModel(Hypotheses=lambda prompt: proposed(*[(shown(prompt, "TRANSCRIPT")[0], 0.9)]))
    system = make_system(model)
    await system.understood("I like tea", session="one")
    await system.understood("I like cake", group=BOB)
    assert await system.known() == {}
    done = await system.generalise()
    assert [one.content for one in done.generalisations] == ["Ann: I like tea"]
    again = await system.generalise()
    assert (again.complete, again.hypotheses, len(model.stages)) == (True, 0, 1)
    model.answers["GeneralisationDecisions"] = decided("save")
    await system.understood("I run", session="two")
    assert [one.content for one in (await system.generalise()).generalisations] == ["Ann: I run"]
    origins = await system.graph.read(ANN, "MATCH (o:Origin)-[:PART_OF]->() RETURN o.key")
    assert {key for (key,) in origins} == {origin_key(ANN, turn) for turn in ("one-0", "two-0")}


async def test_it_leads_back_to_its_words_and_goes_with_them(make_system):
    """History shows the turns that it was made of; erasing one of them finds it."""
    model = FakeModel(Hypotheses=proposed(("Ann likes tea", 0.9)))
    system = make_system(model)
    episode = await system.understood("I like tea", "and cake")
    [made] = (await system.generalise()).generalisations
    lookup = Lookup(system.caches, system.lenses, SystemClock())
    memories = Memories(system.graph, lookup, Invalidations(system.graph))
    query = HistoryQuery(operator="ann", text=True)
    told = (await memories.history("default", made.id, query)).provenance
    assert {one.episode: [said.text for said in one.passages] for one in told}[episode] == [
        *("I like tea", "and cake"),
    ]
    scope = EraseRequest(operator="ann", turn="s-1").scope()
    named = Named(scope, frozenset({origin_key(ANN, "s-1")}))
    doomed = await GroupFinder(system.graph).find(ANN, named)
    assert made.id in doomed.facts
    assert len(doomed.episodes) == 2


async def test_where_nothing_comes_of_it_that_is_kept(make_system):
    """No model is asked about the same turns again, also where the place was lost."""
    model = FakeModel(Hypotheses=proposed(("Hm", 0.1)))
    system = make_system(model)
    await system.understood("I like tea")
    assert (await system.generalise()).kept == 0
    await system.graph.write(ANN, "MATCH (m:Meta) SET m.generalised = 0")
    assert (await system.generalise()).hypotheses == 0
    assert len(model.stages) == 1


async def test_done_again_a_request_writes_nothing_twice(make_system):
    """Who died before the end was told gets the same answer, and no model is asked."""
    model = FakeModel(Hypotheses=proposed(("Ann likes tea", 0.9)))
    system = make_system(model)
    item = Item("1.q", {"kind": "generalise", "request": "r", "transcript": "Ann: I like tea"})
    lease = Lease("understand", ANN, 1, (item,))
    first = await system.executors["generalise"](lease, item)
    again = await system.executors["generalise"](lease, item)
    assert again["generalisations"] == first["generalisations"]
    assert (again["saved"], len(model.stages), len(await system.known())) == (1, 1, 1)


async def test_the_same_name_is_the_same_request(make_system):
    """A caller that did not hear the answer may ask again."""
    model = FakeModel(Hypotheses=proposed(("Ann likes tea", 0.9)))
    system = make_system(model)
    first = await system.generalise("Ann: I like tea", id="mine")
    again = await system.generalise("Ann: I like tea", id="mine")
    assert first == again
    assert len(model.stages) == 1


async def test_without_a_model_nothing_is_queued(make_system):
    """The refusal comes at once; what others made can be added all the same."""
    system = make_system()
    with pytest.raises(NoModel):
        await system.generalise("Ann: I like tea")
    form = 'GEN|v1|{"id":"gen-9","level":2,"confidence":0.5,"generalises":["gen-8"]}\nAnn naps'
    [added] = (await system.add(form)).generalisations
    assert (added.given, added.created) == ("gen-9", True)
    [again] = (await system.add(form)).generalisations
    assert (again.id, again.created) == (added.id, False)
    assert (await system.known())["Ann naps"].level == 2
    assert await system.known("bob") == {}


async def test_lineage_is_kept_when_generalisations_are_passed_on(make_system):
    """Ids become those of the group they come to, the same each time; pages tell where they end."""
    system = make_system()
    forms = [
        f'GEN|v1|{{"id":"g{number}","level":{number},"confidence":1,"generalises":{lineage}}}\nT{number}'
        for number, lineage in enumerate(("[]", '["g0"]', '["g1"]'))
    ]
    await system.add(*forms[:2])
    await system.add(forms[2], lens="default")
    known = await system.known()
    assert known["T2"].generalises == [known["T1"].id]
    assert known["T1"].generalises == [known["T0"].id]
    page, seen = await system.find(max_results=2), []
    seen += [one.content for one in page.generalisations]
    page = await system.find(max_results=2, after=page.next)
    seen += [one.content for one in page.generalisations]
    assert (sorted(seen), page.next) == (["T0", "T1", "T2"], None)


async def test_through_a_lens_the_survivors_are_one_episode(make_system):
    """They are understood, strongest first; repeats and turns without any ask no model again."""
    model = FakeModel(Hypotheses=proposed(("Ann naps", 0.5), ("Ann likes tea", 0.9)))
    system = make_system(model)
    await remember(system.graph, ANN, "I like tea", "well", session="s")
    body = {"kind": "understand", "home": ANN, "operator": "ann", "agent": "bot", "session": "s"}
    await system.mailbox.deliver([("understand", WORK, Item("i1", {**body, "turns": ["s-0"]}))])
    await understand(system.parts, WORK)
    content = "MATCH (e:Episodic) RETURN e.content"
    assert await only(system.graph, WORK, content) == "Ann likes tea\nAnn naps"
    assert any(stage.startswith("extract_nodes") for stage in model.stages)
    assert set(await system.known(lens="work")) == {"Ann likes tea", "Ann naps"}
    assert await system.known() == {}
    model.answers["Hypotheses"] = proposed()
    for number in (2, 3):
        item = Item(f"i{number}", {**body, "turns": ["s-0", "s-1"]})
        await system.mailbox.deliver([("understand", WORK, item)])
        await understand(system.parts, WORK)
    episodes = await system.graph.read(WORK, f"{content} ORDER BY e.content")
    assert episodes == [[""], ["Ann likes tea\nAnn naps"]]
    assert model.stages.count("generalise.hypothesise") == 3


async def test_after_a_flush_its_episode_is_generalised(make_system):
    """A failure there is the follow-up's own: the flush is understood, and it is tried again."""
    model = FakeModel(Hypotheses=ModelOutage("down", retry_after=0))
    system = make_system(model, generalise_on_flush=True)
    await remember(system.graph, ANN, "I like tea", session="s")
    body = {"kind": "understand", "home": ANN, "operator": "ann", "agent": "bot", "session": "s"}
    await system.mailbox.deliver([("understand", ANN, Item("i1", {**body, "turns": ["s-0"]}))])
    assert await understand(system.parts, ANN)
    assert await only(system.graph, ANN, "MATCH (e:Episodic) RETURN e.content") == "Ann: I like tea"
    await understand(system.parts, ANN)
    assert await system.known() == {}
    model.answers["Hypotheses"] = proposed(("Ann likes tea", 0.9))
    assert await understand(system.parts, ANN)
    assert await system.mailbox.idle("understand", ANN)
    assert list(await system.known()) == ["Ann likes tea"]


async def test_the_schedule_queues_once_whoever_does_it(make_system, queue):
    """Groups with something new, each once a term; of one that is refused the others are not."""
    model = FakeModel(Hypotheses=proposed(("Ann likes tea", 0.9)))
    system = make_system(model)
    await system.understood("I like tea")
    await system.understood("I like cake", group=BOB)
    await remember(system.graph, Group("default", "eve", "default").id, "nothing understood")
    fresh = FreshEpisodes(system.graph)
    schedules = [
        GeneraliseSchedule(fresh, system.requests, None, SystemClock(), 1.0) for _ in range(2)
    ]
    assert await schedules[0].queue(7) == 2
    await schedules[1].queue(7)
    await system.quiet()
    assert len(model.stages) == 2
    assert await schedules[0].queue(8) == 0
    assert list(await system.known("bob")) == ["Ann likes tea"]
