"""What is known to harm a graph of this server or library; one test for each that we could touch."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from fakes import CountingConnection, FakeEmbedder, FakeModel, entities, facts
from groups_of_tests import ANN, BOB, only

from gralkord.clock import SystemClock
from gralkord.config import Graph, RecallSettings, Settings
from gralkord.daemon.build import build_daemon
from gralkord.errors import BackendUnavailable, InvalidInput, NotFound
from gralkord.graph import schema
from gralkord.graph.cache import CachePool
from gralkord.graph.connection import GraphConnection
from gralkord.graph.drafts import EpisodeDraft
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.passages import Passage, PassageStore, passage_uuid
from gralkord.graph.sanitise import clean_answer, clean_text
from gralkord.graph.statement import EpisodeRows, episode_statement
from gralkord.groups import Group
from gralkord.models import Capture, FlushRequest, Message, RecallRequest
from gralkord.models.memories import MemoryQuery
from gralkord.models.reindex import ReindexRequest
from gralkord.models.sources import SourcesQuery
from gralkord.models.transfer import ExportQuery
from gralkord.models.triples import TripleQuery
from gralkord.recall.recall import Recaller

from memories_of_tests import WHEN  # isort: skip

# What Graphiti hands to the server as the stop words of its indices.
STOP_WORDS = (
    *("a", "is", "the", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in"),
    *("into", "it", "no", "not", "of", "on", "or", "such", "that", "their", "then", "there"),
    *("these", "they", "this", "to", "was", "will", "with"),
)
NAMED = ("IT", "The", "a", "will", "No", "But", "As", "tHe", " it ")
BIG = 2**30


def passages(group: str, *texts: str, session: str = "s", speaker: str = "Ann", **more):
    """Return one turn for each text."""
    return [
        Passage(
            uuid=passage_uuid(group, f"{session}:{number}", 0, 0),
            text=text,
            speaker=speaker,
            role="user",
            agent="bot",
            session=session,
            ordinal=number,
            part=0,
            event_time=WHEN + timedelta(minutes=number),
            turn_id=f"{session}:{number}",
            **more,
        )
        for number, text in enumerate(texts)
    ]


async def write(graph, group, rows):
    return await PassageStore(graph).write(group, 1, rows, created_ms=1, fingerprint="")


def draft(uuid="episode-1", body="Ann: hello", **more) -> EpisodeDraft:
    return EpisodeDraft(
        uuid=uuid, name="n", body=body, reference_time=WHEN, source_description="d", **more
    )


async def understand(graph, model, *drafts, group=ANN):
    pool = CachePool(graph, BIG)
    for each in drafts:
        await EpisodeWriter(graph, pool, model, FakeEmbedder()).add(group, 1, each)
    await pool.close()


async def recalled(graph, operator, query):
    """Return the texts that a recall finds."""
    pool = CachePool(graph, BIG)
    recaller = Recaller(pool, None, RecallSettings(), SystemClock())
    request = RecallRequest(operator=operator, query=query)
    found = await recaller.recall("default", request, [Group("default", operator, "default")])
    await pool.close()
    assert not found.degraded
    return [memory.text for memory in found.results]


@pytest.mark.parametrize("name", NAMED)
async def test_a_stop_word_is_a_name_like_another(graph, name):
    """Entity, speaker, operator, session, fact and question may be a stop word; the server lives on."""
    run = await graph.run_id()
    group = Group("default", name, name).id
    await write(graph, group, passages(group, f"{name}?", session=name, speaker=name))
    model = FakeModel(
        ExtractedEntities=entities(name, "Acme Corp"),
        ExtractedEdges=facts((name, "KNOWS", "Acme Corp", name, "2024-01-01")),
    )
    await understand(graph, model, draft("e1"), draft("e2"), group=group)
    assert await only(graph, group, "MATCH (n:Entity) RETURN count(n)") == 2
    assert await graph.read(group, "MATCH ()-[f:RELATES_TO]->() RETURN f.fact, f.episodes") == [
        [name.strip(), ["e1", "e2"]]
    ]
    pool = CachePool(graph, BIG)
    known = await pool.fresh(group)
    assert known.entities.lexical(name, 9)[0][0].name == name.strip()
    assert [row.fact for row, _ in known.facts.lexical(name, 9)] == [name.strip()]
    await pool.close()
    assert await graph.run_id() == run


async def test_all_stop_words_at_once(graph):
    """An episode whose entities are named like all stop words there are is written and found again."""
    model = FakeModel(
        ExtractedEntities=entities(*STOP_WORDS),
        ExtractedEdges=facts(
            *(
                (word, "KNOWS", STOP_WORDS[0], f"{word} it is", "2024-01-01")
                for word in STOP_WORDS[1:]
            )
        ),
    )
    await understand(graph, model, draft("e1"), draft("e2"))
    names = await graph.read(ANN, "MATCH (n:Entity) RETURN n.name")
    assert sorted(name for (name,) in names) == sorted(STOP_WORDS)


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
async def test_numbers_are_compared_rightly(graph, operator):
    """Times are indexed as numbers, for on those "before" holds; on indexed text it does not."""
    await graph.ensure_group(ANN)
    await graph.write(ANN, "UNWIND range(1, 200) AS i CREATE (:Episodic {valid_ms: i * 60000})")
    await graph.write(ANN, "UNWIND range(1, 200) AS i CREATE (:Passage {seq: i})")
    for label, name, unit in (("Episodic", "valid_ms", 60_000), ("Passage", "seq", 1)):
        query = f"MATCH (n:{label}) WHERE n.{name} {operator} $limit RETURN count(n)"
        found = await only(graph, ANN, query, limit=70 * unit)
        assert found == {"<": 69, "<=": 70, ">": 130, ">=": 131}[operator]


async def test_no_text_of_a_time_is_indexed(graph):
    """A group's indices are those that were tried out: none of a time as text, none of words."""
    await graph.ensure_group(ANN)
    rows = await graph.read(
        ANN, "CALL db.indexes() YIELD label, properties, types, entitytype, stopwords "
        "RETURN label, properties, types, entitytype, stopwords"
    )  # fmt: skip
    found = {(label, name, kind) for label, names, _, kind, _ in rows for name in names}
    assert found == {(*pair, "NODE") for pair in schema.NODE_INDICES} | {
        (*pair, "RELATIONSHIP") for pair in schema.EDGE_INDICES
    }
    assert {kind for row in rows for kinds in row[2].values() for kind in kinds} == {"RANGE"}
    assert not any(row[4] for row in rows)
    timed = {"valid_at", "invalid_at", "expired_at", "created_at", "event_time"}
    assert not timed & {name for _, name, _ in found}


async def test_there_is_no_constraint(graph):
    """A unique constraint crashes the server on a value with a leading blank."""
    await understand(graph, FakeModel(), draft())
    assert await graph.read(ANN, "CALL db.constraints() YIELD type RETURN type") == []


async def test_hyphens_in_every_id(graph):
    """Hyphens anywhere, which empty the library's own full-text search, change nothing."""
    group = Group("default", "an-n-", "len-s").id
    assert "-" not in group
    rows = passages(
        group, "well-known words", session="s-1-", speaker="Ann-Lee", source="a-b", offset="0-1"
    )
    uuids = await write(graph, group, rows)
    model = FakeModel(
        ExtractedEntities=entities("Ann-Lee", "Rolls-Royce"),
        ExtractedEdges=facts(("Ann-Lee", "DRIVES", "Rolls-Royce", "Ann-Lee drives", "2024-01-01")),
    )
    await understand(graph, model, draft("e-1", passages=tuple(uuids)), draft("e-2"), group=group)
    assert await only(graph, group, "MATCH (n:Entity) RETURN count(n)") == 2
    assert await only(graph, group, "MATCH ()-[f:RELATES_TO]->() RETURN f.episodes") == [
        "e-1",
        "e-2",
    ]
    pool = CachePool(graph, BIG)
    known = await pool.fresh(group)
    assert [row.name for row, _ in known.entities.lexical("rolls-royce", 9)] == ["Rolls-Royce"]
    assert [known.passages.row(n).text for n in range(len(known.passages))] == ["well-known words"]
    await pool.close()


@pytest.mark.parametrize(
    "text",
    [
        "the _ variable",
        "$_ a-_",
        "bell \x07 rings",
        "\x01\x02 low \x7f",
        "word " * 64,
        "w " * 5_000,
    ],
)
async def test_texts_that_break_a_query_parser(graph, text):
    """A lone underscore, control characters and 64 words or more are stored, found and asked for."""
    await write(graph, ANN, passages(ANN, clean_text(f"zebra {text}"), speaker="Ann _"))
    model = FakeModel(
        ExtractedEntities=entities("Ann _", f"Zed {text}"),
        ExtractedEdges=facts(("Ann _", "KNOWS", f"Zed {text}", f"zebra {text}", "2024-01-01")),
    )
    await understand(graph, model, draft("e1", f"Ann _: {text}"), draft("e2", f"Ann _: {text}"))
    assert await only(graph, ANN, "MATCH (n:Entity) RETURN count(n)") == 2
    assert await recalled(graph, "ann", clean_text(f"zebra {text}", 8_000))


@pytest.mark.parametrize("blanks", [(" ", ""), ("", " "), ("\t", "\n"), ("\u00a0", "\u3000")])
async def test_blanks_around_ids(graph, blanks):
    """Ids with blanks around them, which no index finds, are written once and are ids of their own."""
    before, after = blanks
    names = ("x", f"{before}x{after}")
    groups = [Group("default", name, name).id for name in names]
    assert len(set(groups)) == 2
    for group in groups:
        rows = [
            row for name in names for row in passages(group, "words", session=name, speaker=name)
        ]
        assert len(await write(graph, group, rows)) == 2
        assert await write(graph, group, rows) == []
        store = PassageStore(graph)
        for name in names:
            found = await store.of_turns(group, name, [f"{name}:0"])
            assert [each.session for each in found] == [name]


async def test_texts_longer_than_an_index_finds(graph):
    """Strings of more than 4,096 bytes are written once, as text, id or name."""
    long = "x" * 5_000
    rows = passages(ANN, long * 20, session=long, speaker=long, source=long, offset=long)
    assert len(await write(graph, ANN, rows)) == 1
    assert await write(graph, ANN, rows) == []
    assert len(await PassageStore(graph).of_turns(ANN, long, [f"{long}:0"])) == 1
    model = FakeModel(
        ExtractedEntities=entities(long, "y" * 5_000),
        ExtractedEdges=facts((long, long, "y" * 5_000, long, "2024-01-01")),
    )
    await understand(graph, model, draft("e1"), draft("e2"))
    assert await only(graph, ANN, "MATCH (n:Entity) RETURN count(n)") == 2
    assert await only(graph, ANN, "MATCH ()-[f:RELATES_TO]->() RETURN size(f.episodes)") == 2


async def test_no_operation_on_an_unknown_operator_makes_a_graph(queue_socket, graph_socket, graph):
    """Recall, status, receipts, flush, reading of every kind: a stranger costs no graph."""
    settings = {"queue": {"socket": queue_socket}, "graph": {"socket": graph_socket}}
    daemon = build_daemon(Settings.model_validate(settings), {})
    services = daemon.services
    try:
        found = await services.recall("default", RecallRequest(operator="nobody", query="who?"))
        assert (found.results, found.degraded) == ([], [])
        assert (await services.status("default"))["graph"]["groups"] == 0
        capture = Capture(
            session="s",
            operator="nobody",
            agent="a",
            user="u",
            turn=[Message(role="user", content="x")],
            turn_id="t",
        )
        [receipt] = await services.capture("default", [capture])
        await services.job("default", receipt.receipt)
        with pytest.raises(NotFound):
            await services.job("default", "1714555800123-9")
        await services.flush("default", FlushRequest(session="s", operator="nobody", wait=False))
        await services.triples.find("default", TripleQuery(operator="nobody"))
        await services.sources.page("default", SourcesQuery(operator="nobody"))
        with pytest.raises(NotFound):
            await services.memories.show("default", "x", MemoryQuery(operator="nobody"))
        with pytest.raises(NotFound):
            await anext(services.transfer.export("default", ExportQuery(operator="nobody")))
        with pytest.raises(NotFound):
            await anext(services.reindex.run("default", ReindexRequest(operator="nobody")))
        group = Group("default", "nobody", "default").id
        assert await PassageStore(graph).counts(group) == (0, 0)
        assert await PassageStore(graph).load(group, ["x"]) == []
        assert await PassageStore(graph).waiting(group, 1) == []
        await schema.operational(graph, group)
    finally:
        await daemon.stop()
    assert await graph.groups() == []


def test_the_library_is_not_loaded_by_clients():
    """Neither client nor command loads Graphiti, which takes more than a second."""
    code = (
        "import sys, gralkord.client.client, gralkord.client.sync, gralkord.cli.app, "
        "gralkord.client.stream\n"
        "heavy = {'graphiti_core', 'openai', 'neo4j', 'falkordb'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


async def test_a_search_limit_of_the_library_is_not_shared(graph):
    """The library's own recipes, which its search changes for everybody, stay as they are."""
    await understand(graph, FakeModel(), draft())
    from graphiti_core.search import search_config_recipes as recipes

    assert recipes.EDGE_HYBRID_SEARCH_RRF.limit == 10
    assert recipes.NODE_HYBRID_SEARCH_RRF.limit == 10


async def test_five_hundred_queries_at_once(graph):
    """More queries than connections wait for their turn; none fails."""
    await graph.ensure_group(ANN)
    answers = await asyncio.gather(
        *[
            graph.read((ANN, BOB)[i % 2], "RETURN $i", {"i": i}, timeout_ms=5_000)
            for i in range(500)
        ]
    )
    assert answers == [[[i]] if i % 2 == 0 else [] for i in range(500)]


async def test_other_loops_have_connections_of_their_own(graph, graph_socket):
    """Episodes written in several threads, each with a loop, end up whole in their groups."""
    names = [f"op{number}" for number in range(4)]
    failures = []

    async def work(name):
        connection = GraphConnection.open(Graph(), socket=graph_socket)
        model = FakeModel(ExtractedEntities=entities(name, f"{name} City"))
        await understand(
            connection, model, draft("e1"), draft("e2"), group=Group("default", name, "d").id
        )
        await connection.close()

    def run(name):
        try:
            asyncio.run(work(name))
        except BaseException as error:  # noqa: BLE001 - told by the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        await graph.read(ANN, "RETURN 1", timeout_ms=5_000)
    assert failures == []
    for name in names:
        group = Group("default", name, "d").id
        assert await only(graph, group, "MATCH (n:Entity) RETURN count(n)") == 2


class _Recorded(CountingConnection):
    """Keeps all words of each command."""

    async def _call(self, words, limit, **options):
        self.sent.append(words)
        return await GraphConnection._call(self, words, limit, **options)


async def test_every_query_has_a_limit(graph_socket):
    """Whatever is read or written goes with a limit of its own, so that nothing runs for ever."""
    graph = _Recorded.open(Graph(), socket=graph_socket)
    uuids = await write(graph, ANN, passages(ANN, "hello there"))
    model = FakeModel(ExtractedEntities=entities("Ann", "Bob"))
    await understand(graph, model, draft(passages=tuple(uuids)))
    await recalled(graph, "ann", "hello")
    await PassageStore(graph).counts(ANN)
    queries = [
        words for words in graph.sent if str(words[0]).startswith("GRAPH.") and len(words) > 2
    ]
    assert len(queries) > 10
    for words in queries:
        assert words[words.index("TIMEOUT") + 1] > 0
    await graph.close()


async def test_a_runaway_read_inside_a_search_is_stopped(graph):
    """A read of rows without end stops at its limit, and the group is written meanwhile."""
    await write(graph, ANN, passages(ANN, *(f"w{i}" for i in range(400))))
    endless = "MATCH (a:Passage), (b:Passage), (c:Passage), (d:Passage) RETURN count(*)"
    with pytest.raises(BackendUnavailable):
        await graph.read(ANN, endless, timeout_ms=200)
    assert await write(graph, ANN, passages(ANN, "more", session="t"))


async def test_a_mention_written_twice_is_one(graph):
    """A write whose answer got lost is sent again, and doubles no mention, fact or link."""
    uuids = await write(graph, ANN, passages(ANN, "hello"))
    model = FakeModel(
        ExtractedEntities=entities("Ann", "Acme"),
        ExtractedEdges=facts(("Ann", "WORKS_AT", "Acme", "Ann works", "2024-01-01")),
    )
    sent = []
    writing = graph.write

    async def doubled(group, query, params=None, **options):
        if "MENTIONS" in query:
            sent.append(params)
            await writing(group, query, params, **options)
        return await writing(group, query, params, **options)

    graph.write = doubled
    await understand(graph, model, draft(passages=tuple(uuids)))
    assert len(sent) == 1
    assert await only(graph, ANN, "MATCH (n) RETURN count(n)") == 5
    for kind, count in (("MENTIONS", 2), ("RELATES_TO", 1), ("PART_OF", 1)):
        assert await only(graph, ANN, f"MATCH ()-[r:{kind}]->() RETURN count(r)") == count


ODD = {
    "nested": {"city": "Rome", "zip": [1, {"a": None}]},
    "list": [{"a": 1}, "b", None, float("nan")],
    "long": "x" * 10_000,
    "big": 2**80,
    "nan": float("nan"),
    "bell": "a\x07\ud800b",
}


async def test_attributes_of_any_shape_are_stored(graph):
    """Nested, over-long and impossible attributes of an answer are flat and short, and fail nothing."""
    await graph.ensure_group(ANN)
    attributes = clean_answer("extract_nodes.extract_attributes", ODD, ODD.keys())
    stamp = WHEN
    entity = {
        "uuid": "n1", "name": "Ann", "group_id": ANN, "labels": ["Entity"], "created_at": stamp,
        "summary": "", "name_embedding": None, **attributes,
    }  # fmt: skip
    episode = {"group_id": ANN, "source": "message", "entity_edges": [], "created_at": stamp}
    rows = EpisodeRows(episodes=[episode], entities=[entity])
    query, params = episode_statement(draft(), rows, epoch=1, fingerprint="", labels=())
    await graph.write(ANN, query, params)
    ((found,),) = await graph.read(ANN, "MATCH (n:Entity) RETURN properties(n)")
    assert found["nested"] == "city: Rome; zip: 1, a:"
    assert (found["bell"], len(found["long"])) == ("ab", 250)
    assert "nan" not in found


@pytest.mark.parametrize("value", ["a\x00b", "\ud800", float("nan"), {"a": float("inf")}])
async def test_what_the_server_misreads_is_not_sent(graph, value):
    """A NUL, a lone surrogate or a number that is none is refused before it reaches the server."""
    with pytest.raises(InvalidInput):
        await graph.read(ANN, "RETURN $value", {"value": value})


async def test_thousands_of_episodes_do_not_slow_one(graph):
    """The episodes before one are found from the present back, however many there are."""
    await graph.ensure_group(ANN)
    now = int(WHEN.timestamp() * 1000)
    await graph.write(
        ANN,
        "UNWIND range(1, 10000) AS i CREATE (:Episodic {uuid: 'old' + i, name: 'n', content: 'c' + i, "
        "source_description: 'd', valid_at: '2024-05-01T00:00:00Z', valid_ms: $now - i * 60000})",
        {"now": now},
    )
    seen, timed = [], []
    reading = graph.read

    async def watch(group, query, params=None, **options):
        rows = await reading(group, query, params, **options)
        if "e.valid_ms" in query:
            timed.append(len(rows))
        return rows

    graph.read = watch
    model = FakeModel(ExtractedEntities=lambda prompt: seen.append(prompt) or entities())
    await understand(graph, model, draft())
    assert timed == [2]  # one look, into the last minutes
    assert all(f"c{number}" in seen[0] for number in (1, 2))
    graph.read = reading
    far = replace(draft("e2"), reference_time=WHEN + timedelta(days=4_000))
    seen.clear()
    await understand(graph, model, far)
    assert "c1" in seen[0]


async def test_a_group_is_dropped_with_nothing_left(graph):
    """A dropped graph leaves the list, another graph stays, and a read does not bring it back."""
    for group in (ANN, BOB):
        await write(graph, group, passages(group, "words"))
    await graph.drop_group(ANN)
    assert await graph.read(ANN, "MATCH (n) RETURN n.uuid") == []
    assert await graph.groups() == [BOB]
    assert await only(graph, BOB, "MATCH (p:Passage) RETURN count(p)") == 1
