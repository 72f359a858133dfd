"""What becomes of the facts of an episode: new, known already, or the end of what was known.

Graphiti asks the model about every fact of which anything in the group merely looks alike. Here it
is asked about facts that can be the same or can end each other, see `gralkord.graph.supersession`,
and about all of an episode together, see `gralkord.graph.verdicts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gralkord.graph.dating import date_facts
from gralkord.graph.library import (
    EmbedderClient,
    EntityEdge,
    LLMClient,
    create_entity_edge_embeddings,
)
from gralkord.graph.llm import STORED
from gralkord.graph.resolution import relation_name
from gralkord.graph.rows import NEVER_MS
from gralkord.graph.supersession import could_end, cut_short, repeats, settle, since
from gralkord.graph.validity import fact_ending
from gralkord.graph.verdicts import Comparison, Verdict, judge

if TYPE_CHECKING:
    from gralkord.graph.cache import GroupCache
    from gralkord.graph.rows import FactRow

# So many known facts of each kind are shown with a new one: those that share most words with it.
SHOWN: Final = 10
# Of an entity with thousands of facts only the newest are looked at.
LOOKED_AT: Final = 500

_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Resolved:
    """The facts of an episode.

    Attributes:
        facts: What it states, new or known.
        ended: Known facts that it ends.
        new: Those of the facts that were not known.
    """

    facts: list[EntityEdge] = field(default_factory=list)
    ended: list[EntityEdge] = field(default_factory=list)
    new: list[EntityEdge] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FactResolver:
    """Resolves the facts of one episode.

    Attributes:
        known: What the group knows.
        fact: Returns a known fact as Graphiti's object, the same each time.
        model: Answers.
        embedder: Makes the vectors of new facts.
    """

    known: GroupCache
    fact: Callable[[FactRow], EntityEdge]
    model: LLMClient
    embedder: EmbedderClient

    async def resolve(self, stated: Sequence[EntityEdge], episode: str, text: str) -> Resolved:
        """Return what becomes of the facts of an episode.

        Args:
            stated: What was found in it, in order; the ends are entities that are resolved.
            episode: Its uuid.
            text: Its words.

        Raises:
            MalformedOutput: An answer does not fit.
            GralkorError: The model's failure.
        """
        facts = _once(stated)
        verbatim = {fact.uuid: known for fact in facts if (known := self._verbatim(fact))}
        others = [fact for fact in facts if fact.uuid not in verbatim]
        await date_facts(others, text, self.model)
        comparisons = [
            *self._comparisons(others),
            *(
                self._reversals(fact, verbatim[fact.uuid])
                for fact in facts
                if fact.uuid in verbatim
            ),
        ]
        verdicts = await judge(comparisons, self.model)
        settled = _settle(facts, verbatim, verdicts)
        for fact in settled.facts:
            if episode not in fact.episodes:
                fact.episodes.append(episode)
        await self._embed(settled)
        return settled

    async def _embed(self, resolved: Resolved) -> None:
        """Make the vectors of the facts that have none in the graph."""
        missing = []
        for fact in (*resolved.facts, *resolved.ended):
            if self.known.facts.has_vector(fact.uuid):
                fact.fact_embedding = STORED
            else:
                missing.append(fact)
        await create_entity_edge_embeddings(self.embedder, missing)

    def _verbatim(self, fact: EntityEdge) -> EntityEdge | None:
        """Return the known fact that says exactly the same of the same time."""
        words = _plain(fact.fact)
        for row in self._repeatable(fact):
            same = row.source_uuid == fact.source_node_uuid and _plain(row.fact) == words
            if same and repeats(fact, known := self.fact(row)):
                return known
        return None

    def _comparisons(self, facts: Sequence[EntityEdge]) -> list[Comparison]:
        found = []
        for number, fact in enumerate(facts):
            told = [each for each in facts[:number] if could_end(fact, each, told_before=True)]
            known = [self.fact(row) for row in self._endable(fact)]
            repeated = [self.fact(row) for row in _nearest(fact.fact, self._repeatable(fact))]
            ended = [other for other in known if could_end(fact, other)]
            found.append(Comparison(fact, repeated, [*ended, *told[-SHOWN:]]))
        return found

    def _reversals(self, fact: EntityEdge, known: EntityEdge) -> Comparison:
        """Return what to compare a fact with that is known word for word.

        It may be said again because the opposite was said since.
        """
        begun = since(known)
        since_then = [
            other
            for row in _nearest(fact.fact, self._between(fact))
            if could_end(fact, other := self.fact(row))
            and begun is not None
            and (since(other) or begun) > begun
        ]
        return Comparison(fact, [], since_then)

    def _repeatable(self, fact: EntityEdge) -> list[FactRow]:
        """Return the facts between the same entities that *fact* may say again.

        What was found to have ended before is not said again but true again: who moved away and
        came back lives there since then.
        """
        moment = _ms(since(fact))
        return [
            row
            for row in self._between(fact)
            if not (row.superseded_by or row.withdrawn_at) or fact_ending(row).ms > moment
        ]

    def _endable(self, fact: EntityEdge) -> list[FactRow]:
        """Return the facts that hold when *fact* begins or later, and that it may contradict."""
        moment, relation = _ms(since(fact)), relation_name(fact.name)
        source, target = fact.source_node_uuid, fact.target_node_uuid
        rows = {row.uuid: row for row in self._between(fact)}
        for end in (source, target):
            for row in self.known.facts.touching(end)[-LOOKED_AT:]:
                alike = row.source_uuid == source or row.target_uuid == target
                if alike and relation_name(row.name) == relation:
                    rows[row.uuid] = row
        return _nearest(fact.fact, [row for row in rows.values() if fact_ending(row).ms > moment])

    def _between(self, fact: EntityEdge) -> list[FactRow]:
        one, other = fact.source_node_uuid, fact.target_node_uuid
        found = self.known.facts.between(one, other)
        return found if one == other else found + self.known.facts.between(other, one)


def _once(stated: Sequence[EntityEdge]) -> list[EntityEdge]:
    """Return the facts without those that say the same in the same words.

    Of the same relation the direction makes no difference. What tells another end is not the same.
    """
    seen: dict[tuple[str, str, str, datetime | None], EntityEdge] = {}
    for fact in stated:
        source, target = fact.source_node_uuid, fact.target_node_uuid
        said = (_plain(fact.fact), fact.invalid_at)
        mirrored = seen.get((target, source, *said))
        if mirrored is None or mirrored.name != fact.name:
            seen.setdefault((source, target, *said), fact)
    return list(seen.values())


def _settle(
    facts: Sequence[EntityEdge],
    verbatim: Mapping[str, EntityEdge],
    verdicts: Mapping[str, Verdict],
) -> Resolved:
    resolved: dict[str, EntityEdge] = {}
    ended: dict[str, EntityEdge] = {}
    new: dict[str, EntityEdge] = {}
    for fact in facts:
        verdict = verdicts.get(fact.uuid, Verdict())
        result = verbatim.get(fact.uuid) or verdict.same_as or fact
        if result is not fact and not repeats(fact, result):
            if cut_short(result, fact):
                ended[result.uuid] = result
            result = fact
        resolved[fact.uuid] = result
        if result is fact:
            new[fact.uuid] = fact
        told = {other.uuid for other in resolved.values()}
        contradicted = [resolved.get(other.uuid, other) for other in verdict.contradicted]
        ended |= {other.uuid: other for other in settle(fact, contradicted, told, known=result)}
    ended = {uuid: fact for uuid, fact in ended.items() if uuid not in new}
    return Resolved(
        list({fact.uuid: fact for fact in resolved.values()}.values()),
        list(ended.values()),
        list(new.values()),
    )


def _nearest(text: str, rows: Iterable[FactRow]) -> list[FactRow]:
    """Return the rows that share most words with *text*, the newest of those that share as many."""
    wanted = set(_WORD.findall(text.casefold()))
    newest = sorted(rows, key=lambda row: -row.seq)[:LOOKED_AT]
    newest.sort(key=lambda row: -len(wanted.intersection(_WORD.findall(row.fact.casefold()))))
    return newest[:SHOWN]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _ms(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1000) if moment else NEVER_MS
