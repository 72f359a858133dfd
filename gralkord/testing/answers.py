"""What the scripted model answers to each schema that Graphiti asks for."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from gralkord.clock import to_iso
from gralkord.testing.communities import community_summary
from gralkord.testing.consolidating import memory_candidates, memory_decisions
from gralkord.testing.distilling import distilled_turns
from gralkord.testing.generalising import decisions, hypotheses
from gralkord.testing.interpreting import interpretation
from gralkord.testing.kinds import ANY, examples_in, kinds_of, typed_fields
from gralkord.testing.prompts import Prompt, read_moment
from gralkord.testing.rules import (
    Fact,
    Message,
    contradicts,
    facts_in,
    messages_in,
    names_in,
    same_fact,
    tells_time,
)
from gralkord.testing.smallest import smallest
from gralkord.testing.summaries import (
    saga_summary,
    summarized_entities,
    summary,
    summary_description,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from gralkord.testing.replay import RecordedFact, Replay

BODY: Final = ("CURRENT MESSAGE", "CURRENT_MESSAGE", "CURRENT MESSAGES", "TEXT", "JSON")
NAME_CHARACTERS: Final = 60

Json = dict[str, Any]


class Answerer:
    """Answers prompts by rules, and by the recordings of a replay where their texts stand."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._by_schema: dict[str, Callable[[Prompt], Json]] = {
            "ExtractedEntities": self._entities,
            "ExtractedEdges": self._edges,
            "CombinedExtraction": self._combined,
            "NodeResolutions": _node_resolutions,
            "NodeDuplicate": _node_duplicate,
            "EdgeDuplicate": self._edge_duplicate,
            "FactVerdicts": self._fact_verdicts,
            "EdgeTimestamps": _timestamps,
            "BatchEdgeTimestamps": _timestamps_batch,
            "TypedFields": typed_fields,
            "SummarizedEntities": summarized_entities,
            "Summary": summary,
            "EntitySummary": summary,
            "SagaSummary": saga_summary,
            "SummaryDescription": summary_description,
            "RelevanceScores": _relevance,
            "Interpretation": interpretation,
            "Hypotheses": hypotheses,
            "GeneralisationDecisions": decisions,
            "DistilledTurns": distilled_turns,
            "CommunitySummary": community_summary,
            "MemoryCandidates": memory_candidates,
            "MemoryDecisions": memory_decisions,
            "DoctorSample": _doctor_sample,
            "DoctorRecollection": _doctor_recollection,
        }

    def answer(self, name: str, schema: Json, text: str) -> Json:
        """Return the answer to a prompt.

        Args:
            name: The name of the schema asked for; one that is not Graphiti's gets the smallest
                instance, with the attributes that the prompt says are known.
            schema: The JSON schema itself.
            text: The prompt.
        """
        prompt = Prompt(text)
        if name in self._by_schema:
            return self._by_schema[name](prompt)
        known = prompt.literal("EXISTING ATTRIBUTES")
        kept = {
            key: value
            for key, value in (known.items() if isinstance(known, dict) else ())
            if key in schema.get("properties", {})
        }
        least = smallest(schema)
        return (least if isinstance(least, dict) else {}) | kept

    def _entities(self, prompt: Prompt) -> Json:
        body = prompt.part(*BODY) or ""
        kinds = kinds_of(prompt)
        messages = _messages(body)
        # Where there is nothing but kinds, what is of none of them is left out.
        found = {
            name: kinds.get(kind or ANY, kinds.get(ANY, {})).get("entity_type_id")
            for name, kind in (self._names(body, messages) | examples_in(kinds, body)).items()
        }
        if not kinds:
            found = dict.fromkeys(found, 0)
        return {
            "extracted_entities": [
                {
                    "name": name,
                    "entity_type_id": kind,
                    "episode_indices": _episodes_of(name, messages),
                }
                for name, kind in found.items()
                if kind is not None
            ]
        }

    def _edges(self, prompt: Prompt) -> Json:
        body = prompt.part(*BODY) or ""
        names = _names_of(prompt.literal("ENTITIES"))
        moment = prompt.moment("REFERENCE_TIME", "REFERENCE TIME")
        written = [
            _edge(fact) | _times(fact.text, moment)
            for fact in facts_in(self._unrecorded(body), names)
        ]
        recorded = [
            _recorded_edge(fact)
            | {"valid_at": _iso(fact.valid_at or moment), "invalid_at": _iso(fact.invalid_at)}
            for fact in self._recorded(body)
        ]
        return {"edges": [*recorded, *written]}

    def _combined(self, prompt: Prompt) -> Json:
        body = prompt.part(*BODY) or ""
        entities = self._entities(prompt)["extracted_entities"]
        for entity in entities:
            del entity["episode_indices"]
        names = [entity["name"] for entity in entities]
        written = [_edge(fact) for fact in facts_in(self._unrecorded(body), names)]
        recorded = [_recorded_edge(fact) for fact in self._recorded(body)]
        return {"extracted_entities": entities, "edges": [*recorded, *written]}

    def _edge_duplicate(self, prompt: Prompt) -> Json:
        new = prompt.part("NEW FACT") or ""
        existing = _numbered(prompt.literal("EXISTING FACTS"))
        candidates = _numbered(prompt.literal("FACT INVALIDATION CANDIDATES"))
        return {
            "duplicate_facts": [index for index, fact in existing if same_fact(fact, new)],
            "contradicted_facts": [
                index for index, fact in [*existing, *candidates] if self._contradicts(new, fact)
            ],
        }

    def _fact_verdicts(self, prompt: Prompt) -> Json:
        known = {fact["id"]: fact["fact"] for fact in prompt.literal("KNOWN FACTS") or ()}
        return {
            "verdicts": [
                {
                    "id": new["id"],
                    "same_as": next(
                        (one for one in new["may_repeat"] if same_fact(known[one], new["fact"])), -1
                    ),
                    "made_false": [
                        one for one in new["may_end"] if self._contradicts(new["fact"], known[one])
                    ],
                }
                for new in prompt.literal("NEW FACTS") or ()
            ]
        }

    def _contradicts(self, new: str, old: str) -> bool:
        """Return whether *new* contradicts *old*: as it was recorded, or else by the rules."""
        recorded = self._replay.fact(new)
        if recorded:
            return any(part in old for part in recorded.contradicts)
        return contradicts(new, old)

    def _names(self, body: str, messages: Sequence[Message]) -> dict[str, str | None]:
        """Return each name and its type, recorded ones first."""
        found: dict[str, str | None] = {}
        for recording in self._replay.within(body).values():
            found |= recording.named()
        taken = {name.casefold() for name in found}
        speakers = {message.speaker for message in messages}
        spoken = [message.speaker for message in messages if message.speaker]
        for name in [*spoken, *names_in(self._unrecorded(body))]:
            if name.casefold() not in taken and len(name) <= NAME_CHARACTERS:
                taken.add(name.casefold())
                found[name] = "Person" if name in speakers else None
        return found

    def _recorded(self, body: str) -> list[RecordedFact]:
        return [fact for found in self._replay.within(body).values() for fact in found.facts]

    def _unrecorded(self, body: str) -> list[Message]:
        """Return the messages that no recording speaks for."""
        # Messages are read with plain apostrophes.
        texts = [text.replace("\u2019", "'") for text in self._replay.within(body)]
        return [
            message
            for message in _messages(body)
            if not any(text in message.text or message.text in text for text in texts)
        ]


def _messages(body: str) -> list[Message]:
    try:
        value = json.loads(body)
    except ValueError:
        return messages_in(body)
    return [Message(None, text) for text in _strings(value)]


def _edge(fact: Fact) -> Json:
    return {
        "source_entity_name": fact.subject,
        "target_entity_name": fact.target,
        "relation_type": fact.relation,
        "fact": fact.text,
        "episode_indices": [fact.episode],
    }


def _recorded_edge(fact: RecordedFact) -> Json:
    return {
        "source_entity_name": fact.subject,
        "target_entity_name": fact.object,
        "relation_type": fact.relation,
        "fact": fact.fact,
        "episode_indices": [0],
    }


def _node_resolutions(prompt: Prompt) -> Json:
    existing = _candidates(prompt)
    entities = prompt.literal("ENTITIES")
    return {
        "entity_resolutions": [
            {
                "id": entity["id"],
                "name": entity["name"],
                "duplicate_candidate_id": existing.get(_plain(entity["name"]), -1),
            }
            for entity in (entities if isinstance(entities, list) else [])
        ]
    }


def _node_duplicate(prompt: Prompt) -> Json:
    entity = prompt.literal("NEW ENTITY")
    name = entity.get("name", "") if isinstance(entity, dict) else ""
    return {
        "id": entity.get("id", 0) if isinstance(entity, dict) else 0,
        "name": name,
        "duplicate_candidate_id": _candidates(prompt).get(_plain(name), -1),
    }


def _candidates(prompt: Prompt) -> dict[str, int]:
    existing = prompt.literal("EXISTING ENTITIES")
    found: dict[str, int] = {}
    for candidate in existing if isinstance(existing, list) else []:
        found.setdefault(_plain(candidate["name"]), candidate["candidate_id"])
    return found


def _doctor_sample(prompt: Prompt) -> Json:
    message = prompt.text.rpartition("MESSAGE:\n")[2].partition("\n")[0]
    return {"people": names_in(messages_in(message)), "facts": []}


def _relevance(prompt: Prompt) -> Json:
    """Score texts by the words they share with the question."""
    asked = set(_words(str(prompt.literal("QUESTION"))))
    scores = [
        {"index": each["index"], "score": min(10, 5 * len(asked & set(_words(each["text"]))))}
        for each in prompt.literal("TEXTS") or ()
    ]
    return {"scores": scores}


def _words(text: str) -> list[str]:
    return re.findall(r"\w{3,}", text.casefold())


def _doctor_recollection(prompt: Prompt) -> Json:
    return {"ferry": prompt.text.partition(" ferry that is called ")[2].partition(".")[0]}


def _timestamps(prompt: Prompt) -> Json:
    return _times(prompt.part("FACT") or "", prompt.moment("REFERENCE TIME", "REFERENCE_TIME"))


def _timestamps_batch(prompt: Prompt) -> Json:
    facts = prompt.literal("FACTS")
    return {
        "timestamps": [
            _times(str(fact.get("fact")), read_moment(str(fact.get("reference_time"))))
            for fact in (facts if isinstance(facts, list) else [])
        ]
    }


def _times(fact: str, moment: datetime | None) -> Json:
    """Return since and until when a fact holds that was told at *moment*."""
    return {"valid_at": _iso(moment) if tells_time(fact) else None, "invalid_at": None}


def _episodes_of(name: str, messages: Sequence[Message]) -> list[int]:
    found = {
        message.episode
        for message in messages
        if message.speaker == name or name.casefold() in message.text.casefold()
    }
    return sorted(found) or [0]


def _names_of(entities: Any) -> list[str]:
    return [entity["name"] for entity in entities] if isinstance(entities, list) else []


def _numbered(facts: Any) -> list[tuple[int, str]]:
    return [(fact["idx"], fact["fact"]) for fact in facts] if isinstance(facts, list) else []


def _strings(value: Any) -> list[str]:
    """Return the texts in a JSON value."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return [text for item in items for text in _strings(item)]
    return [value] if isinstance(value, str) else []


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())


def _iso(moment: datetime | None) -> str | None:
    return to_iso(moment) if moment else None
