"""Single memories and sources on a real graph: shown, invalidated, with their history."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from fakes import FakeEmbedder, FakeModel, entities, facts, verdict
from test_episodes import draft

from gralkord.clock import SystemClock
from gralkord.config import Lens, RecallSettings
from gralkord.errors import InvalidInput, NotFound
from gralkord.graph.cache import CachePool
from gralkord.graph.episodes import EpisodeWriter
from gralkord.graph.invalidation import Invalidations
from gralkord.graph.passages import Passage, PassageStore, passage_uuid
from gralkord.groups import Group
from gralkord.lenses.registry import LensRegistry
from gralkord.memories.lookup import Lookup
from gralkord.memories.memories import Memories
from gralkord.memories.sources import Sources
from gralkord.models import RecallRequest
from gralkord.models.memories import (
    HistoryQuery,
    InvalidateRequest,
    MemoryQuery,
    ReactivateRequest,
    UndoRequest,
)
from gralkord.models.places import content_key
from gralkord.models.sources import SourceQuery, SourcesQuery
from gralkord.recall.recall import Recaller

MEGABYTE = 1024 * 1024
WHEN = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
ACME = ("Ann", "WORKS_AT", "Acme", "Ann works at Acme.", "2024-01-01T00:00:00Z")
ZETA = ("Ann", "WORKS_AT", "Zeta", "Ann works at Zeta.", "2024-03-01T00:00:00Z")
CONTRADICTS = verdict(made_false=(0,))
ANN = MemoryQuery(operator="ann")
BOB = MemoryQuery(operator="bob")


class System:
    """The memories of a tenant, and the ways to look at them."""

    def __init__(self, graph):
        self.graph = graph
        self.caches = CachePool(graph, MEGABYTE)
        lenses = LensRegistry({"work": Lens()})
        lookup = Lookup(self.caches, lenses, SystemClock())
        self.memories = Memories(graph, lookup, Invalidations(graph))
        self.sources = Sources(lookup)
        self.lenses = lenses
        self.recaller = Recaller(self.caches, None, RecallSettings(), SystemClock())

    async def tell(self, episode, fact, *, operator="ann", lens="default", source=None, **answers):
        """Store a turn that states a fact, and understand it; return its passage's uuid."""
        group = Group("default", operator, lens).id
        passage = Passage(
            passage_uuid(group, episode, 0, 0), fact[3], "Ann", "user", "bot", "s", 1, 0, WHEN,
            episode, source, episode if source else None,
        )  # fmt: skip
        await PassageStore(self.graph).write(
            group, 1, [passage], created_ms=1_714_555_800_000, fingerprint=""
        )
        model = FakeModel(
            ExtractedEntities=entities(fact[0], fact[2]), ExtractedEdges=facts(fact), **answers
        )
        writer = EpisodeWriter(self.graph, self.caches, model, FakeEmbedder())
        await writer.add(group, 1, draft(episode, passages=(passage.uuid,)))
        return passage.uuid

    async def recall(self, query="Ann works", operator="ann", **options):
        """Return what recall finds, by its text."""
        request = RecallRequest(operator=operator, query=query, **options)
        groups = self.lenses.searched("default", operator, ["work"])
        return {
            one.text: one
            for one in (await self.recaller.recall("default", request, groups)).results
        }

    async def id_of(self, text, operator="ann"):
        """Return the uuid of the fact that says this."""
        rows = await self.graph.read(
            Group("default", operator, "default").id,
            "MATCH ()-[f:RELATES_TO]->() WHERE f.fact = $text RETURN f.uuid",
            {"text": text},
        )
        return rows[0][0]


@pytest.fixture
async def system(graph):
    """An empty system."""
    made = System(graph)
    yield made
    await made.caches.close()


def invalid(*ids, **more):
    return InvalidateRequest.model_validate({"operator": "ann", "ids": list(ids)} | more)


async def test_an_invalidated_memory_is_hidden_until_it_is_reactivated(system):
    """Its fact goes with the only passage; both come back; another operator's stay throughout."""
    passage = await system.tell("e1", ACME)
    await system.tell("e1", ACME, operator="bob")
    assert set(await system.recall()) == {ACME[3]}
    done = await system.memories.invalidate("default", invalid(passage, reason="never true"))
    assert (done.passages, done.facts, done.left) == (1, 0, {})
    assert await system.recall() == {}
    assert set(await system.recall(operator="bob")) == {ACME[3]}
    found = (await system.recall(include_invalidated=True))[ACME[3]]
    assert (found.invalidated, found.kind) == (True, "fact")
    shown = await system.memories.show("default", passage, ANN)
    assert (shown.invalidated, shown.reason, shown.text) == (True, "never true", ACME[3])
    again = ReactivateRequest(operator="ann", ids=[passage])
    assert (await system.memories.reactivate("default", again)).passages == 1
    assert set(await system.recall()) == {ACME[3]}


async def test_an_invalidation_survives_the_same_words(system):
    """A passage that is written again and a fact that is mentioned again stay invalidated."""
    passage = await system.tell("e1", ACME)
    fact = await system.id_of(ACME[3])
    await system.memories.invalidate("default", invalid(passage, fact, reason="wrong"))
    await system.tell("e1", ACME)
    await system.tell("e2", ACME)
    shown = await system.memories.show("default", fact, ANN)
    assert (shown.invalidated, shown.reason, shown.episodes) == (True, "wrong", ["e1", "e2"])
    assert (await system.memories.show("default", passage, ANN)).invalidated
    found = await system.recall()
    assert {one.kind for one in found.values()} == {"passage"}  # the words of e2, not the fact


async def test_a_memory_that_was_valid_until_then_is_found_as_of_a_time_before(system):
    """`valid_until` is when it ends: before it is valid, after it is not."""
    await system.tell("e1", ACME)
    fact = await system.id_of(ACME[3])
    await system.memories.invalidate("default", invalid(fact, valid_until="2024-06-01"))
    before = await system.recall(as_of="2024-05-15")
    assert before[ACME[3]].invalid_at == "2024-06-01T00:00:00Z"
    assert not before[ACME[3]].invalidated
    after = await system.recall(as_of="2024-07-01")
    assert {one.kind for one in after.values()} == {"passage"}


async def test_a_fact_of_2024_is_not_known_in_2020(system):
    """As of 2020, and to who knew only what was known in 2020, there is nothing."""
    await system.tell("e1", ACME)
    assert await system.recall(as_of="2020-01-01") == {}
    assert await system.recall(known_at="2020-01-01") == {}
    assert set(await system.recall(as_of="2025-01-01")) == {ACME[3]}


@pytest.mark.parametrize("moment", ["0001-01-01", "2020-06-01", "9999-12-31T23:59:59Z"])
async def test_any_moment_can_be_asked_about(system, moment):
    """Dates in the question are read from there, and no moment is too early or too late."""
    await system.tell("e1", ACME)
    for query in ("where did Ann work since may", "Ann works last week", "Ann two years ago"):
        found = await system.recall(query, as_of=moment, known_at=moment)
        assert bool(found) == moment.startswith("9999")


async def test_ids_of_others_are_not_there(system):
    """An operator can neither see nor change another one's memories; each id is reported."""
    passage = await system.tell("e1", ACME, operator="bob")
    done = await system.memories.invalidate("default", invalid(passage, "no such id"))
    assert done.left == {passage: "not_found", "no such id": "not_found"}
    with pytest.raises(NotFound):
        await system.memories.show("default", passage, ANN)
    other = InvalidateRequest(operator="bob", ids=[passage])
    assert (await system.memories.invalidate("another tenant", other)).left
    assert not (await system.memories.show("default", passage, BOB)).invalidated


async def test_ids_are_found_in_every_lens(system):
    """Memories of all lenses of an operator are changed by one call."""
    one = await system.tell("e1", ACME)
    two = await system.tell("e2", ZETA, lens="work")
    assert (await system.memories.invalidate("default", invalid(one, two))).passages == 2
    assert await system.recall() == {}


async def test_a_source_is_invalidated_as_a_whole(system):
    """All that was taken from it goes, or all of one offset; other sources stay."""
    await system.tell("e1", ACME, source="letters")
    await system.tell("e2", ZETA, source="diary")
    done = await system.memories.invalidate("default", invalid(source="letters", reason="forged"))
    assert (done.passages, done.facts) == (1, 0)
    assert set(await system.recall()) == {ZETA[3]}
    nowhere = await system.memories.invalidate("default", invalid(source="diary", offset="x"))
    assert nowhere.passages == 0
    again = ReactivateRequest(operator="ann", source="letters", offset="e1")
    assert (await system.memories.reactivate("default", again)).passages == 1
    assert set(await system.recall()) == {ACME[3], ZETA[3]}


async def test_replaced_words_do_not_come_back_with_their_source(system):
    """An invalidation of a whole source, and its end, leave replaced words as they are."""
    store, group = PassageStore(system.graph), Group("default", "ann", "default").id
    for text in ("Ann works in Rome.", "Ann works in Oslo."):
        words = content_key([{"role": "user", "content": text}])
        passage = Passage(
            *(passage_uuid(group, text, 0, 0), text, "Ann", "user", "bot", "s", 1, 0, WHEN, text),
            *("notes", "1", None, words),
        )
        await store.write(group, 1, [passage], created_ms=1, fingerprint="")
    assert (await system.memories.invalidate("default", invalid(source="notes"))).passages == 1
    assert await system.recall() == {}
    again = ReactivateRequest(operator="ann", source="notes")
    await system.memories.reactivate("default", again)
    assert set(await system.recall()) == {"Ann works in Oslo."}
    found = await system.recall(include_invalidated=True)
    assert found["Ann works in Rome."].reason == "replaced"


async def test_the_history_of_a_fact_tells_what_ended_it_and_where_it_is_from(system):
    """Both facts name each other, the reason, the time and the episode; the passage is traced."""
    passage = await system.tell("e1", ACME, source="letters")
    await system.tell("e2", ZETA, FactVerdicts=CONTRADICTS)
    old, new = await system.id_of(ACME[3]), await system.id_of(ZETA[3])
    history = await system.memories.history("default", old, HistoryQuery(operator="ann", text=True))
    assert history.superseded.model_dump(exclude={"at"}) == {
        "id": new,
        "text": ZETA[3],
        "reason": "same_relation_and_source",
        "episode": "e2",
        "undone": False,
    }
    assert datetime.fromisoformat(history.superseded.at).year == datetime.now(UTC).year
    assert history.memory.invalid_at == ZETA[4]
    ((said,),) = [one.passages for one in history.provenance]
    assert (said.id, said.text, said.session, said.turn_id, said.source, said.offset) == (
        *(passage, ACME[3], "s", "e1", "letters", "e1"),
    )
    bare = await system.memories.history("default", new, HistoryQuery(operator="ann"))
    assert [(one.id, one.text) for one in bare.supersedes] == [(old, None)]
    assert bare.provenance[0].passages[0].text is None


async def test_an_undone_supersession_lets_the_fact_hold_again(system):
    """It is recalled again, stays so when it is mentioned again, and can be ended by another fact."""
    await system.tell("e1", ACME)
    await system.tell("e2", ZETA, FactVerdicts=CONTRADICTS)
    old = await system.id_of(ACME[3])
    assert not await holds(system, old)
    history = await system.memories.undo("default", UndoRequest(operator="ann", id=old))
    assert history.superseded.undone
    assert not history.memory.invalidated
    assert await holds(system, old)
    await system.tell("e3", ACME)
    assert await holds(system, old)
    third = ("Ann", "LEFT", "Acme", "Ann left Acme.", "2024-04-01T00:00:00Z")
    await system.tell("e4", third, FactVerdicts=CONTRADICTS)
    shown = await system.memories.show("default", old, ANN)
    assert (shown.invalid_at, shown.superseded_by) == (third[4], await system.id_of(third[3]))


async def holds(system, fact):
    return not (await system.memories.show("default", fact, ANN)).invalidated


async def test_what_is_not_superseded_cannot_be_undone(system):
    """The refusal says why: it holds, it is no fact, or another fact has ended it."""
    passage = await system.tell("e1", ACME)
    await system.tell("e2", ZETA, FactVerdicts=CONTRADICTS)
    old, new = await system.id_of(ACME[3]), await system.id_of(ZETA[3])
    for wanted, error in (
        ({"id": new}, InvalidInput),
        ({"id": passage}, NotFound),
        ({"id": "none"}, NotFound),
        ({"id": old, "by": old}, InvalidInput),
    ):
        with pytest.raises(error):
            await system.memories.undo("default", UndoRequest(operator="ann", **wanted))


async def test_sources_are_listed_in_numbers_and_shown_without_words(system):
    """A page at a time, by name; entries have ids, offsets and check sums."""
    await system.tell("e1", ACME, source="letters")
    passage = await system.tell("e2", ZETA, source="diary")
    await system.tell("e3", ZETA)
    await system.tell("e4", ZETA, operator="bob", source="bob's")
    first = await system.sources.page("default", SourcesQuery(operator="ann", limit=1))
    assert [one.model_dump() for one in first.sources] == [
        {
            "source": "diary",
            "passages": 1,
            "invalidated": 0,
            "facts": 1,
            "notes": 0,
            "first": "2024-05-01T09:30:00Z",
            "last": "2024-05-01T09:30:00Z",
        }
    ]
    rest = await system.sources.page("default", SourcesQuery(operator="ann", after=first.next))
    assert ([one.source for one in rest.sources], rest.next) == (["letters"], None)
    shown = await system.sources.content("default", "diary", SourceQuery(operator="ann"))
    (entry,) = shown.entries
    checksum = hashlib.blake2b(ZETA[3].encode(), digest_size=32).hexdigest()
    assert (entry.id, entry.offset, entry.checksum) == (passage, "e2", checksum)
    assert entry.facts == [await system.id_of(ZETA[3])]
    assert ZETA[3] not in shown.model_dump_json()
    with pytest.raises(NotFound):
        await system.sources.content("default", "bob's", SourceQuery(operator="ann"))
