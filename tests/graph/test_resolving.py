"""What becomes of the facts of an episode, and about which of them the model is asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fakes import FakeEmbedder, FakeModel
from test_search import GROUP
from test_search import fact as row_of
from test_verdicts import part

from gralkord.graph.cache import GroupCache
from gralkord.graph.library import EntityEdge
from gralkord.graph.llm import EpisodeEmbedder, EpisodeModel
from gralkord.graph.names import Spellings
from gralkord.graph.resolving import SHOWN, FactResolver
from gralkord.graph.search import CacheSearch
from gralkord.graph.vectors import encode

MAY = datetime(2024, 5, 1, tzinfo=UTC)


def known(number: int, source: str, name: str, target: str, text: str, **more):
    """Return a fact that the group knows, and that holds since that day of January."""
    row = row_of(number, source, target)
    return replace(row, name=name, fact=text, **more)


def told(source: str, name: str, target: str, text: str, **more) -> EntityEdge:
    """Return a fact that an episode of May states."""
    return EntityEdge(
        source_node_uuid=source,
        target_node_uuid=target,
        name=name,
        fact=text,
        group_id=GROUP,
        created_at=MAY,
        valid_at=MAY,
        reference_time=MAY,
        **more,
    )


class System:
    """A group that knows some facts, and a model that answers with some verdicts."""

    def __init__(self, *rows, verdicts=()) -> None:
        self.cache = GroupCache(GROUP, 1, "run")
        for row in rows:
            self.cache.facts.put(row, None)
        self.asked: list[tuple[list[str], list[dict]]] = []
        self.embedder = FakeEmbedder()
        self._verdicts = list(verdicts)

    async def resolve(self, *facts: EntityEdge):
        """Resolve facts of one episode."""
        model = FakeModel(FactVerdicts=self._answer)
        resolver = FactResolver(
            self.cache,
            CacheSearch(self.cache).fact,
            EpisodeModel(model, Spellings(lambda _: ())),
            EpisodeEmbedder(self.embedder),
        )
        return await resolver.resolve(facts, "episode", "Ann: hello")

    def _answer(self, prompt):
        known_facts = [each["fact"] for each in part(prompt, "KNOWN FACTS")]
        self.asked.append((known_facts, part(prompt, "NEW FACTS")))
        return {"verdicts": self._verdicts}


TEA = known(1, "ann", "LIKES", "tea", "Ann likes tea.")
ROME = known(2, "ann", "LIVES_IN", "rome", "Ann lives in Rome.")


@pytest.mark.parametrize(
    "fact",
    [
        ("ann", "MET", "bob", "Ann met Bob."),  # nothing is known of the two
        ("bob", "LIVES_IN", "paris", "Bob lives in Paris."),  # of another, elsewhere
        ("ann", "LOVES", "rum", "Ann loves rum."),  # of another relation
        ("rome", "LIVES_IN", "ann", "Rome lives in Ann."),  # a known pair, but over since then
    ],
)
async def test_facts_that_can_neither_repeat_nor_end_are_not_asked_about(fact):
    """Whatever looks alike, a fact is new if no known fact is about the same."""
    ended = {"superseded_by": "f9", "invalid_at": "2024-02-01T00:00:00Z"}
    system = System(TEA, replace(ROME, **ended))
    new = told(*fact)
    resolved = await system.resolve(new)
    assert system.asked == []
    assert resolved.new == resolved.facts == [new]
    assert resolved.ended == []


async def test_the_same_words_are_the_same_fact():
    """A fact that is known word for word gets the episode, and costs nothing."""
    system = System(TEA)
    resolved = await system.resolve(told("ann", "LIKES", "tea", "ann  likes tea."))
    (fact,) = resolved.facts
    assert (fact.uuid, fact.episodes) == (TEA.uuid, ["e1", "episode"])
    assert (resolved.new, system.asked) == ([], [])


async def test_a_fact_said_in_other_words_is_one():
    """What the model finds to be the same is the known fact, with the episode."""
    system = System(TEA, verdicts=[{"id": 0, "same_as": 0, "made_false": []}])
    resolved = await system.resolve(told("ann", "ENJOYS", "tea", "Ann enjoys tea."))
    assert [fact.uuid for fact in resolved.facts] == [TEA.uuid]
    assert resolved.facts[0].episodes == ["e1", "episode"]
    assert resolved.new == []


async def test_a_contradicted_fact_ends():
    """The known fact ends when the new one begins, and keeps what ended it."""
    system = System(TEA, ROME, verdicts=[{"id": 0, "same_as": -1, "made_false": [0]}])
    paris = told("ann", "LIVES_IN", "paris", "Ann lives in Paris.")
    resolved = await system.resolve(paris)
    (old,) = resolved.ended
    assert (old.uuid, old.invalid_at) == (ROME.uuid, MAY)
    assert old.attributes["superseded_by"] == paris.uuid
    assert system.asked[0][0] == [ROME.fact]


@pytest.mark.parametrize(
    "ended",
    [
        {"invalid_at": "2024-02-01T00:00:00Z"},
        {"invalid_at": "2024-05-01T00:00:00Z"},
        {"withdrawn_at": "2024-02-01T00:00:00Z"},
        {"superseded_by": "f9", "invalid_at": "2024-02-01T00:00:00Z"},
    ],
)
async def test_what_has_ended_before_is_not_compared(ended):
    """A fact that was over when the new one began cannot end once more."""
    system = System(replace(ROME, **ended))
    paris = told("ann", "LIVES_IN", "paris", "Ann lives in Paris.")
    assert (await system.resolve(paris)).ended == []
    assert system.asked == []


async def test_what_was_superseded_and_is_said_again_holds_again():
    """Who came back lives there since then; the time before stays as it was."""
    moved = {"superseded_by": "f9", "invalid_at": "2024-02-01T00:00:00Z"}
    system = System(replace(ROME, **moved))
    back = told("ann", "LIVES_IN", "rome", "Ann lives in Rome.")
    resolved = await system.resolve(back)
    assert resolved.new == [back]
    # A supersession that was undone does not count.
    system = System(replace(ROME, **moved, undone=("f9",)))
    assert (await system.resolve(told("ann", "LIVES_IN", "rome", "Ann lives in Rome."))).new == []


async def test_what_is_said_again_may_end_what_was_said_since():
    """Who says once more that they do not like tea does not like it any more, since now."""
    hates = known(1, "ann", "HATES", "tea", "Ann hates tea.")
    likes = known(2, "ann", "LIKES", "tea", "Ann likes tea.")
    older = replace(known(3, "ann", "DRINKS", "tea", "Ann drinks tea."), valid_at="2023-01-01")
    system = System(hates, likes, older, verdicts=[{"id": 0, "same_as": -1, "made_false": [0]}])
    resolved = await system.resolve(told("ann", "HATES", "tea", "Ann hates tea."))
    assert [fact.uuid for fact in resolved.facts] == [hates.uuid]
    assert system.asked[0][0] == [likes.fact]
    (old,) = resolved.ended
    assert (old.uuid, old.invalid_at) == (likes.uuid, MAY)
    assert old.attributes["superseded_by"] == hates.uuid


async def test_a_change_in_one_transcript_ends_what_was_told_before_it():
    """Of two facts of an episode that hold since the same time the later told one stays."""
    system = System(verdicts=[{"id": 0, "same_as": -1, "made_false": [0]}])
    rome = told("ann", "LIVES_IN", "rome", "Ann lives in Rome.")
    paris = told("ann", "LIVES_IN", "paris", "Ann moved to Paris.")
    resolved = await system.resolve(rome, paris)
    assert [fact.invalid_at for fact in resolved.facts] == [MAY, None]
    assert resolved.new == [rome, paris]
    assert resolved.ended == []
    assert system.asked[0][0] == [rome.fact]


async def test_old_news_are_ended_by_what_is_known():
    """A fact of last year that contradicts a known one of this year is the one that ended."""
    system = System(ROME, verdicts=[{"id": 0, "same_as": -1, "made_false": [0]}])
    paris = told("ann", "LIVES_IN", "paris", "Ann lived in Paris.")
    paris.valid_at = datetime(2023, 1, 1, tzinfo=UTC)
    resolved = await system.resolve(paris)
    assert resolved.ended == []
    assert (paris.invalid_at, paris.attributes["superseded_by"]) == (
        datetime(2024, 1, 2, tzinfo=UTC),
        ROME.uuid,
    )


async def test_what_is_over_and_said_again_is_true_again():
    """The same words about a time after the end that was told with a fact are another fact."""
    over = replace(ROME, invalid_at="2024-02-01T00:00:00Z")
    again = told("ann", "LIVES_IN", "rome", ROME.fact)
    resolved = await System(over).resolve(again)
    assert (resolved.new, resolved.ended) == ([again], [])


async def test_an_end_that_is_told_with_the_same_words_counts():
    """Who says of what is known only when it ended ends it then."""
    march = datetime(2024, 3, 1, tzinfo=UTC)
    system = System(ROME, verdicts=[{"id": 0, "same_as": 0, "made_false": []}])
    gone = told("ann", "LIVES_IN", "rome", ROME.fact, invalid_at=march)
    gone.valid_at = datetime(2020, 1, 1, tzinfo=UTC)
    resolved = await system.resolve(gone)
    (old,) = resolved.ended
    assert (old.uuid, old.invalid_at) == (ROME.uuid, march)
    assert (resolved.new, old.attributes["superseded_by"]) == ([gone], gone.uuid)


async def test_an_end_before_a_fact_began_is_not_its_own():
    """Who has lived there before, too, lives there still."""
    system = System(ROME, verdicts=[{"id": 0, "same_as": 0, "made_false": []}])
    before = told("ann", "LIVES_IN", "rome", ROME.fact, invalid_at=datetime(2020, 1, 1, tzinfo=UTC))
    before.valid_at = datetime(2019, 1, 1, tzinfo=UTC)
    resolved = await system.resolve(before)
    assert (resolved.new, resolved.ended) == ([before], [])


async def test_a_past_that_is_told_twice_is_one_fact():
    """With the same end, or with none, the same words are the same fact."""
    end = datetime(2024, 2, 1, tzinfo=UTC)
    over = replace(ROME, invalid_at="2024-02-01T00:00:00Z")
    for told_end in (end, None):
        again = told("ann", "LIVES_IN", "rome", ROME.fact, invalid_at=told_end)
        again.valid_at = None
        assert (await System(over).resolve(again)).new == []


async def test_two_times_in_one_transcript_are_two_facts():
    """Who tells of a stay that is over and of a new one in the same words tells two facts."""
    past = told("ann", "LIVES_IN", "rome", ROME.fact, invalid_at=datetime(2020, 1, 1, tzinfo=UTC))
    past.valid_at = datetime(2019, 1, 1, tzinfo=UTC)
    present = told("ann", "LIVES_IN", "rome", ROME.fact)
    assert (await System().resolve(past, present)).new == [past, present]


async def test_facts_without_a_time_hold_since_they_were_told():
    """A contradiction counts, too, where nobody said when."""
    system = System(ROME, verdicts=[{"id": 0, "same_as": -1, "made_false": [0]}])
    paris = told("ann", "LIVES_IN", "paris", "Ann moved to Paris.")
    paris.valid_at = None
    (old,) = (await system.resolve(paris)).ended
    assert (old.invalid_at, paris.valid_at) == (MAY, None)


async def test_the_same_words_twice_are_one_fact():
    """Also where two entities are named in both orders, if the relation is the same."""
    facts = [
        told("ann", "KNOWS", "bob", "Ann and Bob know each other."),
        told("ann", "KNOWS", "bob", "ann and bob  know each other."),
        told("bob", "KNOWS", "ann", "Ann and Bob know each other."),
        told("bob", "MARRIED", "ann", "Ann and Bob know each other."),
    ]
    resolved = await System().resolve(*facts)
    assert resolved.facts == [facts[0], facts[3]]


async def test_few_of_many_facts_are_shown():
    """An entity with hundreds of facts costs no more than one with ten: the nearest are shown."""
    rows = [known(1, "ann", "LIKES", f"t{n}", f"Ann likes thing {n}.") for n in range(300)]
    rows = [replace(row, uuid=f"f{n}", seq=n) for n, row in enumerate(rows)]
    system = System(*rows)
    await system.resolve(told("ann", "LIKES", "rum", "Ann likes rum with thing 7."))
    ((shown, _),) = system.asked
    assert len(shown) == SHOWN
    assert shown[0] == "Ann likes thing 7."
    assert "Ann likes thing 299." in shown


async def test_only_what_has_no_vector_is_embedded():
    """A fact that is known with its vector costs the embedder nothing."""
    system = System()
    vector = encode(await FakeEmbedder().embed([TEA.fact]))[0]
    system.cache.facts.put(TEA, vector)
    resolved = await system.resolve(
        told("ann", "LIKES", "tea", TEA.fact), told("ann", "MET", "bob", "Ann met Bob.")
    )
    assert system.embedder.texts == ["Ann met Bob."]
    assert not any(resolved.facts[0].fact_embedding)
    assert any(resolved.facts[1].fact_embedding)
