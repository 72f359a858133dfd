"""What new facts say about known ones: asked of the model for all facts of an episode together.

Graphiti asks for each fact by itself, with ten known facts of each kind. Here a call holds as many
new facts as fit, each known fact once, and says which are to be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from pydantic import BaseModel, Field, ValidationError

from gralkord.errors import MalformedOutput
from gralkord.graph.library import (
    EntityEdge,
    LLMClient,
    Message,
    ModelSize,
    to_prompt_json,
)
from gralkord.providers.quoting import tagless

log = structlog.get_logger(__name__)

STAGE: Final = "dedupe_edges.resolve_facts"

# More in one call and a small model loses track.
FACTS_A_CALL: Final = 12
CHARS_A_CALL: Final = 24_000

_SYSTEM: Final = (
    "You compare new facts with known facts. NEVER say that a known fact is false unless a new "
    "fact explicitly makes it false."
)
_TASK: Final = """\
For each of the NEW FACTS say which KNOWN FACT it repeats and which KNOWN FACTS it makes false. \
Compare it only with the KNOWN FACTS whose ids it lists.

SAME AS
- `same_as` is the id of the KNOWN FACT, out of `may_repeat`, that gives identical information, \
else -1.
- NEVER for facts with key differences, particularly around numeric values, dates, or key \
qualifiers.

MADE FALSE
- `made_false` are the ids, out of `may_end`, of the KNOWN FACTS that cannot be true together with \
the NEW FACT; as a rule there are none.
- It needs explicit evidence that the known fact stopped being true or was replaced: clear \
termination, replacement, transfer, or mutually exclusive current states.
- Do NOT infer it from recency, dates, or a new event with the same entities.
- Additional activity, progress, or status do not make a role, ownership, responsibility, \
membership, or assignment false: who works on a project may still be responsible for it.
- A fact can be both repeated and made false only when it is said again with an explicit \
incompatible change.

Return exactly one verdict for each of the NEW FACTS, with its id.

<EXAMPLE>
KNOWN FACTS: [{"id": 0, "fact": "Alice joined Acme Corp in 2020"}, \
{"id": 1, "fact": "Alice works at Acme Corp as a software engineer"}, \
{"id": 2, "fact": "Bob ran 5 miles on Tuesday"}]
NEW FACTS: [{"id": 0, "fact": "In 2020 Alice joined Acme Corp", "may_repeat": [0, 1], \
"may_end": [0, 1]}, \
{"id": 1, "fact": "Alice works at Acme Corp as a senior engineer", "may_repeat": [0, 1], \
"may_end": [0, 1]}, \
{"id": 2, "fact": "Bob ran 3 miles on Wednesday", "may_repeat": [], "may_end": [2]}]
Verdicts: {"id": 0, "same_as": 0, "made_false": []} (identical information), \
{"id": 1, "same_as": -1, "made_false": [1]} (the title has changed), \
{"id": 2, "same_as": -1, "made_false": []} (different events on different days)
</EXAMPLE>
"""


class FactVerdict(BaseModel):
    """What one new fact says about known ones."""

    id: int = Field(description="id of the new fact")
    same_as: int = Field(description="id of the known fact that gives identical information, or -1")
    made_false: list[int] = Field(
        description="ids of the known facts that the new fact makes false; empty if none"
    )


class FactVerdicts(BaseModel):
    """One verdict for each new fact."""

    verdicts: list[FactVerdict]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A new fact, and the known ones that it has to be compared with.

    Attributes:
        fact: The new fact.
        may_repeat: Facts that it may say again.
        may_end: Facts that cannot hold any more if it contradicts them, or that end it.
    """

    fact: EntityEdge
    may_repeat: Sequence[EntityEdge]
    may_end: Sequence[EntityEdge]

    def others(self) -> dict[str, EntityEdge]:
        """Return all facts that it is compared with, by uuid."""
        return {other.uuid: other for other in (*self.may_repeat, *self.may_end)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the model says of a comparison.

    Attributes:
        same_as: The fact that is repeated.
        contradicted: The facts that are contradicted.
    """

    same_as: EntityEdge | None = None
    contradicted: tuple[EntityEdge, ...] = ()


async def judge(comparisons: Sequence[Comparison], model: LLMClient) -> dict[str, Verdict]:
    """Return the verdict on each new fact, by its uuid; on some there may be none.

    Args:
        comparisons: What is to be compared; where there is nothing no model is asked.
        model: Answers.

    Raises:
        MalformedOutput: An answer about a single fact does not fit.
        GralkorError: The model's failure.
    """
    open_ones = [each for each in comparisons if each.may_repeat or each.may_end]
    return await _all_of([_ask(some, model) for some in _parts(open_ones)])


async def _all_of(calls: Sequence[Coroutine[Any, Any, dict[str, Verdict]]]) -> dict[str, Verdict]:
    answers = await asyncio.gather(*calls)
    return {uuid: verdict for found in answers for uuid, verdict in found.items()}


def _parts(comparisons: Sequence[Comparison]) -> Iterator[list[Comparison]]:
    """Yield what fits in a call; facts with the same subject together, for they share others."""
    part: list[Comparison] = []
    shown: set[str] = set()
    size = 0
    for each in sorted(comparisons, key=lambda one: one.fact.source_node_uuid):
        others = each.others()
        more = len(each.fact.fact) + sum(
            len(other.fact) for uuid, other in others.items() if uuid not in shown
        )
        if part and (len(part) >= FACTS_A_CALL or size + more > CHARS_A_CALL):
            yield part
            part, shown, size = [], set(), 0
        part.append(each)
        shown |= set(others)
        size += more
    if part:
        yield part


async def _ask(comparisons: Sequence[Comparison], model: LLMClient) -> dict[str, Verdict]:
    known = list(
        {uuid: fact for each in comparisons for uuid, fact in each.others().items()}.values()
    )
    numbers = {fact.uuid: number for number, fact in enumerate(known)}
    new = [
        {
            "id": number,
            "fact": each.fact.fact,
            "may_repeat": [numbers[other.uuid] for other in each.may_repeat],
            "may_end": [numbers[other.uuid] for other in each.may_end],
        }
        for number, each in enumerate(comparisons)
    ]
    try:
        answer = await model.generate_response(
            _prompt(known, new), FactVerdicts, model_size=ModelSize.small, prompt_name=STAGE
        )
        verdicts = FactVerdicts.model_validate(answer).verdicts
    except (MalformedOutput, ValidationError) as error:
        half = len(comparisons) // 2
        if half:  # a weak model may do with fewer
            log.info("verdicts_asked_in_halves", facts=len(comparisons))
            halves = (comparisons[:half], comparisons[half:])
            return await _all_of([_ask(some, model) for some in halves])
        if isinstance(error, MalformedOutput):
            raise
        raise MalformedOutput(f"an answer does not fit: {error.error_count()} errors") from error
    return {
        comparisons[each.id].fact.uuid: _read(comparisons[each.id], each, known)
        for each in reversed(verdicts)  # of two on one fact the first counts
        if 0 <= each.id < len(comparisons)
    }


def _read(comparison: Comparison, verdict: FactVerdict, known: Sequence[EntityEdge]) -> Verdict:
    """Return a verdict without what was not asked."""
    named = {known[number].uuid for number in verdict.made_false if 0 <= number < len(known)}
    same = known[verdict.same_as].uuid if 0 <= verdict.same_as < len(known) else None
    return Verdict(
        next((other for other in comparison.may_repeat if other.uuid == same), None),
        tuple(other for other in comparison.may_end if other.uuid in named),
    )


def _prompt(known: Sequence[EntityEdge], new: Sequence[dict[str, object]]) -> list[Message]:
    facts = [{"id": number, "fact": fact.fact} for number, fact in enumerate(known)]
    listed = (
        f"<KNOWN FACTS>\n{tagless(to_prompt_json(facts))}\n</KNOWN FACTS>\n\n"
        f"<NEW FACTS>\n{tagless(to_prompt_json(list(new)))}\n</NEW FACTS>\n"
    )
    return [
        Message(role="system", content=_SYSTEM),
        Message(role="user", content=f"{_TASK}\n{listed}"),
    ]
