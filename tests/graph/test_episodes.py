from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fakes import CountingConnection, FakeEmbedder, FakeModel, entities, facts, verdict
from groups_of_tests import ANN, BOB, only

from gralkord.config import Graph
from gralkord.errors import (
    BackendUnavailable,
    LeaseLost,
    MalformedOutput,
    ModelOutage,
    QueryRefused,
    RateLimited,
)
from gralkord.graph.cache import CachePool
from gralkord.graph.drafts import EpisodeDraft, EpisodeResult
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.passages import Passage, PassageStore, passage_uuid
from gralkord.graph.verdicts import FACTS_A_CALL
from gralkord.groups import Group

MEGABYTE = 1024 * 1024
WHEN = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
ACME = ("Ann Smith", "WORKS_AT", "Acme Corp", "Ann Smith works at Acme Corp.", "2024-01-01")
COUNTS = (
    "MATCH (m:Meta) OPTIONAL MATCH (n) WITH m, count(n) - 1 AS nodes "
    "OPTIONAL MATCH ()-[r]->() RETURN nodes, count(r), m.seq"
)


@pytest.fixture
async def graph(graph_socket):
    """A connection that counts what it sends."""
    connection = CountingConnection.open(Graph(), socket=graph_socket)
    yield connection
    await connection.close()


def draft(uuid: str = "episode-1", body: str = "Ann Smith: I work at Acme Corp.", **more):
    return EpisodeDraft(
        uuid=uuid,
        name="session s",
        body=body,
        reference_time=WHEN,
        source_description="conversation",
        **more,
    )


def ann_works() -> FakeModel:
    """A model that finds that Ann works at Acme."""
    return FakeModel(
        ExtractedEntities=entities("Ann Smith", "Acme Corp"), ExtractedEdges=facts(ACME)
    )


def writer(graph, model, embedder=None) -> EpisodeWriter:
    return EpisodeWriter(graph, CachePool(graph, MEGABYTE), model, embedder or FakeEmbedder())


async def counts(graph, group) -> tuple[int, int, int]:
    ((nodes, edges, seq),) = await graph.read(group, COUNTS)
    return nodes, edges, seq


async def write_passages(graph, group, count=2) -> tuple[str, ...]:
    some = [
        Passage(
            passage_uuid(group, f"t{i}", 0, 0), f"words {i}", "Ann", "user", "bot", "s", i, 0, WHEN,
            f"t{i}",
        )
        for i in range(count)
    ]  # fmt: skip
    return tuple(await PassageStore(graph).write(group, 1, some, created_ms=1, fingerprint=""))


async def test_an_episode_is_written_with_all_that_follows(graph):
    """Entities, fact, mentions and links to the passages are there, all of one write's number."""
    uuids = await write_passages(graph, ANN)
    result = await writer(graph, ann_works()).add(ANN, 7, draft(passages=uuids))
    assert result == EpisodeResult("episode-1", created=True, facts=1, entities=2)
    assert await graph.read(
        ANN,
        "MATCH (a)-[f:RELATES_TO]->(b) "
        "RETURN a.name, f.name, b.name, f.fact, f.valid_at, f.episodes, f.seq, a.seq, b.seq",
    ) == [
        ["Ann Smith", "WORKS_AT", "Acme Corp", ACME[3], "2024-01-01T00:00:00Z", ["episode-1"]]
        + [2] * 3
    ]
    assert await graph.read(
        ANN,
        "MATCH (e:Episodic) RETURN e.uuid, e.done, e.seq, e.content, e.valid_at, e.group_id, e.lens",
    ) == [["episode-1", True, 2, draft().body, "2024-05-01T09:30:00Z", ANN, "default"]]
    assert await only(graph, ANN, "MATCH (:Episodic)-[r:MENTIONS]->() RETURN count(r)") == 2
    assert await only(graph, ANN, "MATCH (:Passage)-[r:PART_OF]->(:Episodic) RETURN count(r)") == 2
    assert await graph.read(ANN, "MATCH (p:Passage) RETURN p.episode, p.waiting, p.seq") == [
        ["episode-1", None, 2]
    ] * len(uuids)
    assert await PassageStore(graph).counts(ANN) == (2, 0)


async def test_vectors_are_bytes_and_never_floats(graph):
    """Every entity and fact carries an int8 vector as text, and no embedding of Graphiti's form."""
    embedder = FakeEmbedder()
    await writer(graph, ann_works(), embedder).add(ANN, 1, draft())
    rows = await graph.read(ANN, "MATCH (n:Entity) RETURN n.vector, n.name_embedding")
    rows += await graph.read(ANN, "MATCH ()-[f:RELATES_TO]->() RETURN f.vector, f.fact_embedding")
    assert len(rows) == 3
    assert all(isinstance(vector, str) and floats is None for vector, floats in rows)
    assert await only(graph, ANN, "MATCH (m:Meta) RETURN m.embedder") == embedder.fingerprint
    assert len(embedder.texts) == len(set(embedder.texts))


async def test_an_episode_takes_one_write_and_few_reads(graph):
    """One add raises the fence, writes once, and sends at most twelve commands in all."""
    await graph.ensure_group(ANN)
    graph.sent.clear()
    await writer(graph, ann_works()).add(ANN, 1, draft())
    print(f"commands of one episode: {graph.sent}")  # noqa: T201
    assert graph.sent.count("GRAPH.QUERY") == 2
    assert len(graph.sent) <= 12


async def test_a_repeated_episode_is_one(graph):
    """The same episode again is answered from the graph, without a model call or a write."""
    await writer(graph, ann_works()).add(ANN, 1, draft())
    before = await counts(graph, ANN)
    silent = FakeModel()
    again = await writer(graph, silent).add(ANN, 2, draft())
    assert again == EpisodeResult("episode-1", created=False, facts=1, entities=2)
    assert silent.stages == []
    assert await counts(graph, ANN) == before


async def test_what_is_known_is_found_again(graph):
    """A second episode that says the same adds itself to the entities and the fact it finds."""
    model = ann_works()
    await writer(graph, model).add(ANN, 1, draft())
    model.answers["ExtractedEntities"] = entities(" ann  smith", "ACME CORP")
    await writer(graph, model).add(ANN, 1, draft("episode-2"))
    assert await only(graph, ANN, "MATCH (n:Entity) RETURN count(n)") == 2
    assert await only(graph, ANN, "MATCH ()-[f:RELATES_TO]->() RETURN f.episodes") == [
        "episode-1",
        "episode-2",
    ]
    assert "dedupe_nodes.nodes" not in model.stages


async def test_a_stale_epoch_writes_nothing(graph):
    """A worker whose lease another has taken over writes nothing of its episode."""
    uuids = await write_passages(graph, ANN)
    await writer(graph, ann_works()).add(ANN, 9, draft())
    await writer(graph, ann_works()).add(BOB, 3, draft())
    before = await counts(graph, ANN)
    with pytest.raises(LeaseLost):
        await writer(graph, ann_works()).add(ANN, 8, draft("episode-2", passages=uuids))
    assert await counts(graph, ANN) == before
    assert await PassageStore(graph).counts(ANN) == (2, 2)


async def test_who_takes_over_shuts_out_who_is_still_at_work(graph):
    """From its first step the new holder's episode is the only one, however late the old one ends."""
    free = {1: asyncio.Event(), 2: asyncio.Event()}

    async def add(epoch):
        model = ann_works()

        async def complete(messages, schema, *, stage="", **_):
            if schema.__name__ == "ExtractedEdges":
                await free[epoch].wait()
            return await FakeModel.complete(model, messages, schema, stage=stage)

        model.complete = complete
        return await writer(graph, model).add(ANN, epoch, draft())

    old = asyncio.create_task(add(1))
    await asyncio.sleep(0.3)
    new = asyncio.create_task(add(2))
    await asyncio.sleep(0.3)
    free[1].set()
    with pytest.raises(LeaseLost):
        await old
    free[2].set()
    assert (await new).created
    assert await only(graph, ANN, "MATCH ()-[f:RELATES_TO]->() RETURN count(f)") == 1
    assert await only(graph, ANN, "MATCH (n:Entity) RETURN count(n)") == 2


async def test_a_refused_write_leaves_nothing(graph, monkeypatch):
    """If one property cannot be stored, neither episode nor entities nor facts are there."""
    uuids = await write_passages(graph, ANN)
    await writer(graph, ann_works()).add(ANN, 1, draft())
    before = await counts(graph, ANN)
    monkeypatch.setattr("gralkord.graph.statement._rows", _poisoned)
    model = FakeModel(
        ExtractedEntities=entities("Bob Jones", "Zeta Inc"),
        ExtractedEdges=facts(("Bob Jones", "OWNS", "Zeta Inc", "Bob owns Zeta.", None)),
    )
    with pytest.raises(QueryRefused):
        await writer(graph, model).add(ANN, 1, draft("episode-2", passages=uuids))
    assert await counts(graph, ANN) == before


def _poisoned(rows, embedding):
    kept = [{"uuid": row["uuid"], "values": {"uuid": row["uuid"]}} for row in rows]
    if embedding == "fact_embedding":
        for row, old in zip(kept, rows, strict=True):
            ends = {name: old[name] for name in ("source_node_uuid", "target_node_uuid")}
            row["values"] |= ends | {"bad": {"nested": 1}}
    return kept


@pytest.mark.parametrize(
    "name",
    ["IT", "The", "will", "_", "a-_", "$_", "👩‍💻", "שלום", "a/b\\c'\"`", "{x}", "a:b|c*", "-"],
)
async def test_entities_of_all_names_work(graph, name):
    """Stop words, lone signs and any alphabet are names like others, found again by their text."""
    for number in (1, 2):
        model = FakeModel(
            ExtractedEntities=entities(name, "Acme Corp"),
            ExtractedEdges=facts((name, "KNOWS", "Acme Corp", f"{name} knows Acme.", "2024-01-01")),
        )
        await writer(graph, model).add(ANN, 1, draft(f"e{number}", f"{name}: hello {name}"))
    assert await only(graph, ANN, "MATCH (n:Entity {name: $name}) RETURN count(n)", name=name) == 1
    assert await only(graph, ANN, "MATCH ()-[f:RELATES_TO]->() RETURN f.episodes") == ["e1", "e2"]


async def test_long_texts_and_names_work(graph):
    """An episode of thousands of words with a fact of two hundred is written and found again."""
    long = " ".join(f"word{i}" for i in range(200))
    model = FakeModel(
        ExtractedEntities=entities("n" * 5000, "Acme Corp"),
        ExtractedEdges=facts(("n" * 5000, "KNOWS", "Acme Corp", long, None)),
    )
    for number in (1, 2):
        await writer(graph, model).add(ANN, 1, draft(f"e{number}", f"Ann: {long * 20}"))
    assert await only(graph, ANN, "MATCH (n:Entity) RETURN count(n)") == 2
    assert await graph.read(ANN, "MATCH ()-[f:RELATES_TO]->() RETURN f.fact, f.episodes") == [
        [long, ["e1", "e2"]]
    ]


async def test_what_a_model_says_is_sanitised(graph):
    """Blank names, control characters and broken dates of an answer do not fail an episode."""
    model = FakeModel(
        ExtractedEntities=entities("  Ann\x00 ", " ", "Acme\ud800"),
        ExtractedEdges=facts(
            (" Ann", "works at", "Acme ", "Ann\x07 works", "0001-01-01T00:00:00+14:00"),
            ("Ann", "X", "  ", "nothing", None),
        ),
    )
    await writer(graph, model).add(ANN, 1, draft(body="Ann\x00: \ud800hello"))
    assert await graph.read(ANN, "MATCH (n:Entity) RETURN n.name ORDER BY n.name") == [
        ["Acme"],
        ["Ann"],
    ]
    assert await graph.read(ANN, "MATCH ()-[f:RELATES_TO]->() RETURN f.fact, f.name") == [
        ["Ann works", "works_at"]
    ]
    assert await only(graph, ANN, "MATCH (e:Episodic) RETURN e.content") == "Ann: hello"


async def test_a_fact_about_an_unlisted_entity_makes_it(graph):
    """An endpoint that the model named only in a fact becomes an entity."""
    model = FakeModel(ExtractedEntities=entities("Ann Smith"), ExtractedEdges=facts(ACME))
    result = await writer(graph, model).add(ANN, 1, draft())
    assert (result.entities, result.facts) == (2, 1)


async def test_an_episode_may_say_nothing(graph):
    """With no entities and no facts the episode and its passages are done all the same."""
    uuids = await write_passages(graph, ANN)
    result = await writer(graph, FakeModel()).add(ANN, 1, draft(passages=uuids))
    assert (result.entities, result.facts) == (0, 0)
    assert await PassageStore(graph).counts(ANN) == (2, 0)


async def test_attributes_survive_being_mentioned_again(graph):
    """What an entity or a fact has been given besides Graphiti's own columns stays."""
    model = ann_works()
    await writer(graph, model).add(ANN, 1, draft())
    await graph.write(ANN, "MATCH (n:Entity {name: 'Ann Smith'}) SET n:Person, n.age = 41")
    await graph.write(ANN, "MATCH ()-[f:RELATES_TO]->() SET f.since = 'spring'")
    model.answers["ExtractedEdges"] = facts((*ACME[:3], "Ann is employed by Acme Corp.", None))
    model.answers["FactVerdicts"] = verdict(same_as=0)
    await writer(graph, model).add(ANN, 1, draft("episode-2"))
    assert await graph.read(
        ANN, "MATCH (n:Entity {name: 'Ann Smith'}) RETURN n.age, labels(n), n.summary"
    ) == [[41, ["Entity", "Person"], ACME[3]]]
    assert await graph.read(
        ANN, "MATCH ()-[f:RELATES_TO]->() RETURN f.since, size(f.episodes)"
    ) == [["spring", 2]]


async def test_episodes_of_two_groups_at_once_do_not_mix(graph):
    """Episodes of several groups at once end up each in its own graph."""
    people = {ANN: "Ann", BOB: "Bob"}

    async def tell(group, number):
        name = people[group]
        model = FakeModel(
            ExtractedEntities=entities(name, f"{name} City {number}"),
            ExtractedEdges=facts((name, "SAW", f"{name} City {number}", f"{name} saw it", None)),
        )
        await writer(graph, model).add(group, 1, draft(f"{name}-{number}", f"{name}: hello"))

    for number in range(3):
        await asyncio.gather(*[tell(group, number) for group in people])
    for group, name in people.items():
        rows = await graph.read(group, "MATCH (n:Entity) RETURN n.name, n.group_id")
        assert len(rows) == 4
        assert all(each.startswith(name) and owner == group for each, owner in rows)


@pytest.mark.parametrize("error", [RateLimited, ModelOutage])
async def test_a_model_that_fails_on_the_way_fails_the_episode(graph, error):
    """Graphiti goes on when it cannot date a fact; here nothing is stored, so it is tried again."""
    model = FakeModel(
        ExtractedEntities=entities("Ann Smith", "Acme Corp"),
        ExtractedEdges=facts((*ACME[:4], None)),
        BatchEdgeTimestamps=error("down"),
    )
    with pytest.raises(error):
        await writer(graph, model).add(ANN, 1, draft())
    assert await counts(graph, ANN) == (0, 0, 0)


async def test_a_fact_that_cannot_be_dated_is_stored_without_a_time(graph):
    """A malformed answer to the question of when costs the times, not the facts."""
    model = FakeModel(
        ExtractedEntities=entities("Ann Smith", "Acme Corp"),
        ExtractedEdges=facts((*ACME[:4], None)),
        BatchEdgeTimestamps=MalformedOutput(),
    )
    await writer(graph, model).add(ANN, 1, draft())
    assert await graph.read(ANN, "MATCH ()-[f:RELATES_TO]->() RETURN f.valid_at") == [[None]]


async def test_an_answer_that_does_not_fit_is_malformed(graph):
    """An answer that Graphiti cannot read is the model's fault, and nothing is written."""
    model = FakeModel(ExtractedEntities={"extracted_entities": [{"name": "Ann"}]})
    with pytest.raises(MalformedOutput):
        await writer(graph, model).add(ANN, 1, draft())
    assert await counts(graph, ANN) == (0, 0, 0)


async def test_calls_under_way_end_with_the_episode(graph):
    """When one call fails, others of the same episode are cancelled, not left to run and to cost."""
    await writer(graph, likes("tea", 1)).add(ANN, 1, draft())
    model, ended = likes("cake", 2), asyncio.Event()
    begun = asyncio.Event()

    async def complete(messages, schema, *, stage="", **_):
        if schema.__name__ != "FactVerdicts":
            return await FakeModel.complete(model, messages, schema, stage=stage)
        if begun.is_set():
            raise ModelOutage
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.set()
            raise

    model.complete = complete
    with pytest.raises(ModelOutage):
        await writer(graph, model).add(ANN, 1, draft("episode-2"))
    assert ended.is_set()


def likes(what: str, month: int) -> FakeModel:
    """A model that finds more things that Ann likes than are compared in one call."""
    things = [f"{what} {number}" for number in range(FACTS_A_CALL + 1)]
    return FakeModel(
        ExtractedEntities=entities("Ann", *things),
        ExtractedEdges=facts(
            *(
                ("Ann", "LIKES", each, f"Ann likes {each}.", f"2024-{month:02}-01")
                for each in things
            )
        ),
    )


async def test_earlier_episodes_are_shown_to_the_model(graph):
    """The model sees the end of the episodes before this one, and none after it."""
    await writer(graph, FakeModel()).add(ANN, 1, draft("e1", "Ann: the first thing"))
    later = replace(draft("e3", "Ann: from the future"), reference_time=WHEN.replace(year=2030))
    await writer(graph, FakeModel()).add(ANN, 1, later)
    seen = []
    model = FakeModel(ExtractedEntities=lambda prompt: seen.append(prompt) or entities())
    await writer(graph, model).add(ANN, 1, draft("e2", "Ann: the second thing"))
    assert "the first thing" in seen[0]
    assert "from the future" not in seen[0]


async def test_a_group_dropped_under_way_is_no_success(graph):
    """An episode whose graph is gone by the time of its write is to be tried again."""
    model = FakeModel()

    async def complete(messages, schema, **_):
        await graph.drop_group(ANN)
        return model.answers[schema.__name__]

    model.complete = complete
    with pytest.raises(BackendUnavailable):
        await writer(graph, model).add(ANN, 1, draft())


@pytest.mark.parametrize("name", ["a-b", " x", "🙂", "עברית", "the", "a/b", "ann@example.org"])
async def test_groups_of_all_names_work(graph, name):
    """Operators and lenses may be named by anything."""
    group = Group("default", name, name).id
    result = await writer(graph, ann_works()).add(group, 1, draft())
    assert (result.facts, result.entities) == (1, 2)
    again = await writer(graph, ann_works()).add(group, 1, draft("episode-2"))
    assert again.created
    assert await only(graph, group, "MATCH (n:Entity) RETURN count(n)") == 2


async def test_no_embedder_is_no_hindrance(graph):
    """Without vectors things are told apart by their words."""
    writer_ = EpisodeWriter(graph, CachePool(graph, MEGABYTE), ann_works(), None)
    await writer_.add(ANN, 1, draft())
    await writer_.add(ANN, 1, draft("episode-2"))
    assert await graph.read(ANN, "MATCH (n:Entity) RETURN n.vector") == [[None], [None]]
