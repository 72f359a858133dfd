"""Triples in a real graph: entities resolved, repeats one, times kept, nothing written late."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from fakes import FakeEmbedder, FakeModel, entities, facts
from groups_of_tests import ANN, BOB, only
from hypothesis import given
from hypothesis import strategies as st

from gralkord.errors import InvalidInput, LeaseLost, NotFound
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.resolution import relation_name
from gralkord.graph.triple_search import find_triples
from gralkord.graph.triples import TripleWriter
from gralkord.graph.validity import view_at
from gralkord.models.triples import TripleQuery, TriplesRequest
from gralkord.providers.embedders.choice import Embedders
from gralkord.wire import read_model

START = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)


class GoingClock:
    """A clock that goes on by a minute each time it is asked."""

    def __init__(self):
        self.time = START

    def now(self):
        self.time += timedelta(minutes=1)
        return self.time


def triple(subject="Ann", predicate="WORKS_AT", target="Acme", **fields):
    return {"subject": subject, "predicate": predicate, "object": target, **fields}


class Triples:
    """Adds and finds triples as a worker and a daemon do, each with a cache of its own."""

    def __init__(self, graph):
        self.clock = GoingClock()
        self.embedder = FakeEmbedder()
        self.caches = CachePool(graph, 1 << 24)
        self.writer = TripleWriter(graph, CachePool(graph, 1 << 24), self.embedder, self.clock)
        self.epoch = 1

    async def add(self, *triples, group=ANN):
        request = read_model(TriplesRequest, {"operator": "x", "triples": list(triples)})
        return await self.writer.add(group, self.epoch, request.triples)

    async def find(self, group=ANN, **query):
        asked = read_model(TripleQuery, {"operator": "x", **query})
        view = view_at(
            self.clock.now(),
            asked.as_of,
            asked.known_at,
            include_invalidated=asked.include_invalidated,
        )
        cache = await self.caches.fresh(group)
        return find_triples(cache, asked, view)

    async def said(self, group=ANN, **query):
        page = await self.find(group, **query)
        return [(each.subject.name, each.predicate, each.object.name) for each in page.triples]


@pytest.fixture
def triples(graph):
    """Adding and finding."""
    return Triples(graph)


async def count(graph, what, counted="*"):
    return await only(graph, ANN, f"MATCH {what} RETURN count({counted})")


async def test_a_triple_is_a_fact_with_words_and_vectors(triples, graph):
    """It is found by each of its parts, and searched like any fact."""
    added = await triples.add(triple(source="crm", offset="7", confidence=0.5))
    assert [each["created"] for each in added["triples"]] == [True]
    assert len(added["entities"]) == 2
    [found] = (await triples.find()).triples
    assert (found.fact, found.source, found.offset) == ("Ann works at Acme", "crm", "7")
    assert found.confidence == 0.5
    for query in ({"subject": "ann "}, {"predicate": "works at"}, {"object": "ACME"}):
        assert await triples.said(**query) == [("Ann", "WORKS_AT", "Acme")]
    assert await triples.said(subject="Acme") == []
    cache = await triples.caches.fresh(ANN)
    assert [row.fact for row, _ in cache.facts.lexical("acme", 5)] == ["Ann works at Acme"]
    [vector] = await triples.embedder.embed(["Ann works at Acme"])
    assert cache.facts.similar(vector, 5, 0.99)
    assert cache.entities.similar((await triples.embedder.embed(["Acme"]))[0], 5, 0.99)
    assert cache.embedder == "fake:letters:26"


async def test_a_repeat_is_one(triples, graph):
    """The same triple in another spelling, and by another holder, changes nothing."""
    first = await triples.add(triple(), triple(valid_at="2020-01-01"))
    seq = await only(graph, ANN, "MATCH (m:Meta) RETURN m.seq")
    triples.epoch = 2
    again = await triples.add(
        triple(" ann", "works at", "ACME\t "), triple(valid_at="2020-01-01T00:00:00Z")
    )
    assert [each["id"] for each in again["triples"]] == [each["id"] for each in first["triples"]]
    assert not any(each["created"] for each in again["triples"])
    assert again["entities"] == []
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.seq") == seq
    assert await count(graph, "()-[f:RELATES_TO]->()", "f") == 2
    assert await count(graph, "(:Entity)") == 2


async def test_operators_share_nothing(triples):
    """The same triple of two operators is two facts of other ids."""
    [ann] = (await triples.add(triple()))["triples"]
    [bob] = (await triples.add(triple(), group=BOB))["triples"]
    assert ann["id"] != bob["id"]
    assert ann["subject"]["id"] != bob["subject"]["id"]
    await triples.add(triple("Bob"), group=BOB)
    assert await triples.said() == [("Ann", "WORKS_AT", "Acme")]


async def test_a_late_holder_writes_nothing(triples, graph):
    """Who has read before another took the group over is fenced at the write."""
    await triples.add(triple())
    held, go = asyncio.Event(), asyncio.Event()

    class Slow(FakeEmbedder):
        async def embed(self, texts, **_):
            held.set()
            await go.wait()
            return await super().embed(texts)

    late = Triples(graph)
    late.writer._embedders = Embedders(Slow())
    writing = asyncio.create_task(late.add(triple("Zoe")))
    await held.wait()
    triples.epoch = 2
    await triples.add(triple("Ann", "LIKES", "tea"))
    go.set()
    with pytest.raises(LeaseLost):
        await writing
    with pytest.raises(LeaseLost):
        await late.add(triple("Zoe"))
    assert await triples.said(subject="Zoe") == []
    assert await count(graph, "(:Entity)") == 3


async def test_an_entity_is_known_by_id_handle_and_name(triples):
    """All of them lead to the one entity, and an address becomes its handle."""
    added = await triples.add(triple("ann@example.com"))
    ann = added["triples"][0]["subject"]["id"]
    named = {"name": "Ann", "handles": ["ANN@example.com", "@ann"]}
    for subject in (named, "@Ann", "ANN", ann, {"id": ann}):
        again = await triples.add(triple(subject, "LIKES", f"tea {len(str(subject))}"))
        assert again["triples"][0]["subject"] == {"id": ann, "name": "Ann"}
    for term in ("ann@example.com", "@ann", "Ann", ann, ann.upper()):
        assert len(await triples.said(subject=term)) == 6
    page = await triples.find(subject="@ann", limit=1)
    assert page.triples[0].subject.name == "Ann"


@pytest.mark.parametrize(
    ("subject", "error", "field"),
    [
        ("8b1f7a34-3c1e-5c7e-9b52-5a6e2f0f4f5d", NotFound, "triples.1.subject"),
        ({"id": "nobody"}, NotFound, "triples.1.subject.id"),
        ({"name": "X", "handles": ["@ann", "@bob"]}, InvalidInput, "triples.1.subject.handles"),
    ],
)
async def test_one_bad_triple_refuses_all(triples, subject, error, field):
    """What cannot be resolved is named, and nothing of the request is written."""
    await triples.add(triple("@ann"), triple("@bob"))
    with pytest.raises(error) as raised:
        await triples.add(triple("Zoe"), triple(subject))
    assert raised.value.field == field
    assert await triples.said(subject="Zoe") == []


async def test_what_a_fact_says_more_is_taken_over(triples):
    """The end of a known fact can be told later, and its words; its beginning makes another."""
    [first] = (await triples.add(triple(valid_at="2020-01-01")))["triples"]
    more = triple(valid_at="2020-01-01", invalid_at="2021-01-01", fact="Ann was at Acme.")
    [again] = (await triples.add(more))["triples"]
    assert (again["id"], again["created"]) == (first["id"], False)
    assert await triples.said() == []
    [found] = (await triples.find(as_of="2020-06-01")).triples
    assert (found.fact, found.invalid_at) == ("Ann was at Acme.", "2021-01-01T00:00:00Z")
    cache = await triples.caches.fresh(ANN)
    [vector] = await triples.embedder.embed(["Ann was at Acme."])
    assert cache.facts.similar(vector, 5, 0.999)


async def test_facts_are_found_by_time(triples):
    """A fact of 2024 does not hold in 2020, and what was not known then is not shown."""
    await triples.add(triple(valid_at="2024-01-01"), triple("Ann", "WORKS_AT", "Beta"))
    assert await triples.said(as_of="2020-01-01") == [("Ann", "WORKS_AT", "Beta")]
    assert len(await triples.said(as_of="2024-02-01")) == 2
    assert await triples.said(known_at="2024-04-30") == []
    await triples.add(triple("Ann", "WORKS_AT", "Core", invalid_at="2010-01-01"))
    assert len(await triples.said()) == 2
    assert len(await triples.said(include_invalidated=True)) == 3


async def test_a_fact_supersedes_those_of_its_subject_and_relation(triples, graph):
    """They end when it begins, with a trace; other relations and subjects go on."""
    old = await triples.add(
        triple(), triple("Bob"), triple("Ann", "LIKES", "tea"), triple("Ann", "works at", "Old")
    )
    beta = triple("Ann", "WORKS_AT", "Beta", supersede=True, valid_at="2024-03-01")
    [new] = (await triples.add(beta))["triples"]
    assert set(new["superseded"]) == {old["triples"][0]["id"], old["triples"][3]["id"]}
    assert await triples.said(subject="Ann") == [
        ("Ann", "LIKES", "tea"),
        ("Ann", "WORKS_AT", "Beta"),
    ]
    assert await triples.said(subject="Bob") == [("Bob", "WORKS_AT", "Acme")]
    assert len(await triples.said(subject="Ann", predicate="works_at", as_of="2024-02-01")) == 2
    cache = await triples.caches.fresh(ANN)
    [row] = cache.facts.by_uuid([old["triples"][0]["id"]])
    assert (row.superseded_by, row.superseded_reason) == (new["id"], "same_relation_and_source")
    assert row.invalid_at == "2024-03-01T00:00:00Z"
    assert (await triples.add(beta))["triples"][0]["superseded"] == []


async def test_what_begins_later_ends_the_new_fact(triples):
    """Facts told in any order give the same line of times."""
    for target, since in (("C", "2023-01-01"), ("A", "2021-01-01"), ("B", "2022-01-01")):
        await triples.add(triple("Ann", "LIVES_IN", target, supersede=True, valid_at=since))
    for year, target in ((2021, "A"), (2022, "B"), (2023, "C")):
        assert await triples.said(as_of=f"{year}-06-01") == [("Ann", "LIVES_IN", target)]
    assert await triples.said() == [("Ann", "LIVES_IN", "C")]


async def test_what_held_once_can_hold_again(triples):
    """A, then B, then A once more: the last word counts, and is said once."""
    for target in ("tea", "milk", "tea", "tea"):
        await triples.add(triple("Ann", "DRINKS", target, supersede=True))
        assert await triples.said() == [("Ann", "DRINKS", target)]
    assert len(await triples.said(include_invalidated=True)) == 3


async def test_triples_of_one_request_see_each_other(triples, graph):
    """New entities and facts of a request count for the triples after them."""
    added = await triples.add(
        triple({"name": "Ann", "handles": ["@ann"]}, "LIVES_IN", "Rome", supersede=True),
        triple("@ann", "LIVES_IN", "Oslo", supersede=True, valid_at="2024-05-02"),
        triple("ANN", "LIVES_IN", "Oslo", valid_at="2024-05-02"),
        triple("Ann", "KNOWS", "ann"),
    )
    ids = [each["id"] for each in added["triples"]]
    assert ids[1] == ids[2]
    assert added["triples"][1]["superseded"] == [ids[0]]
    assert await count(graph, "(:Entity)") == 3
    assert await triples.said(predicate="KNOWS") == [("Ann", "KNOWS", "Ann")]


async def test_an_episode_knows_the_entities_of_triples(triples, graph):
    """What a triple and a model name alike is one entity, and the fact is not doubled."""
    await triples.add(triple("Ann", "WORKS_AT", "Acme"))
    model = FakeModel(
        ExtractedEntities=entities("ann", "Acme", "Rome"),
        ExtractedEdges=facts(("ann", "LIVES_IN", "Rome", "Ann lives in Rome.", None)),
    )
    episodes = EpisodeWriter(graph, CachePool(graph, 1 << 24), model, FakeEmbedder())
    draft = EpisodeDraft("e1", "s", "Ann: I live in Rome.", START, "test")
    await episodes.add(ANN, 2, draft)
    triples.epoch = 3
    again = await triples.add(triple("Ann", "LIVES_IN", "ROME"))
    assert again["triples"][0]["created"] is False
    assert await count(graph, "(:Entity)") == 3
    assert len(await triples.said(subject="Ann")) == 2


async def test_an_episode_knows_handles(triples, graph):
    """A model that names an entity by its address, or in other letters, means the one there is."""
    await triples.add(
        triple({"name": "Ann", "handles": ["ann@example.com"]}, "LIKES", "Stra\u00dfe")
    )
    model = FakeModel(
        ExtractedEntities=entities("Ann@Example.com", "STRASSE"),
        ExtractedEdges=facts(
            ("Ann@Example.com", "LIVES_IN", "STRASSE", "Ann lives in that street.", None)
        ),
    )
    episodes = EpisodeWriter(graph, CachePool(graph, 1 << 24), model, FakeEmbedder())
    draft = EpisodeDraft("e1", "s", "Ann: I live there.", START, "test")
    await episodes.add(ANN, 2, draft)
    assert await count(graph, "(:Entity)") == 2
    assert await triples.said(predicate="LIVES_IN") == [("Ann", "LIVES_IN", "Stra\u00dfe")]
    [row] = (await triples.caches.fresh(ANN)).entities.by_handle("ann@example.com")
    assert row.name == "Ann"


async def test_pages_follow_each_other(triples):
    """Each fact stands on one page, also where another is added meanwhile."""
    await triples.add(*(triple("Ann", "LIKES", f"thing {number}") for number in range(7)))
    seen, after = [], None
    while True:
        page = await triples.find(limit=3, after=after)
        seen += [each.id for each in page.triples]
        if (after := page.next) is None:
            break
        if len(seen) == 3:
            await triples.add(triple("Ann", "LIKES", "one more"))
    assert len(seen) == len(set(seen)) == 8
    with pytest.raises(InvalidInput):
        await triples.find(after="x")


@pytest.mark.parametrize(
    "name",
    [
        "it",
        "The",
        "  İstanbul\u3000",
        "e\u0301t\u00e9",
        "'; MATCH (n) DETACH DELETE n //",
        "\\",
        "日本",
    ],
)
async def test_odd_names_are_found_again(triples, name):
    """Stop words, blanks, composed letters and query syntax are names like others."""
    await triples.add(triple(name, name or "x", name) | {"predicate": "IS"})
    found = await triples.said(subject=name, object=name)
    assert [names[1] for names in found] == ["IS"]
    assert (await triples.add(triple(name, "IS", name)))["entities"] == []


async def test_control_characters_are_taken_out(triples):
    """What reaches the graph has none, whoever let it through."""
    request = read_model(TriplesRequest, {"operator": "x", "triples": [triple()]})
    [good] = request.triples
    subject = good.subject.model_copy(update={"term": "An\x00n\x1b\ud800"})
    bad = good.model_copy(update={"subject": subject, "fact": "a\x00b"})
    await triples.writer.add(ANN, 1, [bad])
    [found] = (await triples.find(subject="Ann")).triples
    assert (found.subject.name, found.fact) == ("Ann", "ab")
    nothing = good.model_copy(update={"subject": subject.model_copy(update={"term": "\x00"})})
    with pytest.raises(InvalidInput):
        await triples.writer.add(ANN, 1, [nothing])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("works at", "WORKS_AT"),
        ("worksAt", "WORKS_AT"),
        ("WORKS_AT", "WORKS_AT"),
        (" Works--at! ", "WORKS_AT"),
        ("居住在", "居住在"),
        ("e\u0301t\u00e9", "\u00c9T\u00c9"),
        ("में रहता", "में_रहता"),
        ("?!", ""),
    ],
)
def test_a_relation_has_one_name(text, name):
    """Whatever its spelling."""
    assert relation_name(text) == name


@given(st.text(max_size=40))
def test_a_relations_name_stays_as_it_is(text):
    """To name it again changes nothing."""
    name = relation_name(text)
    assert relation_name(name) == name
