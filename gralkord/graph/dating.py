"""When facts hold: asked of the model again only where their words tell it and its answer did not.

Graphiti asks once more for every fact that the first answer gave no time, one call each. Most of
them have none: "Ann met Bob". Those hold at the latest since they were told, which is known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import structlog

from gralkord.errors import MalformedOutput
from gralkord.graph.library import (
    BatchEdgeTimestamps,
    EntityEdge,
    LLMClient,
    ModelSize,
    apply_extracted_timestamps,
    prompt_library,
)

log = structlog.get_logger(__name__)

FACTS_A_CALL: Final = 20


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORD: Final = re.compile(r"[^\W\d_]+")
# Words of English that other languages have not: as a rule one word in seven is one of them.
_ENGLISH: Final = _set("the and of with that you your my this are it have for they she from what")
_LEAST_ENGLISH: Final = 0.06
_TIMES: Final = _set(
    "january february march april may june july august september october november december "
    "monday tuesday wednesday thursday friday saturday sunday spring summer autumn fall winter "
    "second seconds minute minutes hour hours day days week weeks weekend weekends month months "
    "year years decade decades century centuries morning noon afternoon evening night midnight "
    "today tonight yesterday tomorrow ago last next previous current now currently then since "
    "until till before after during later earlier recently lately soon once former formerly "
    "previously originally longer anymore when while christmas easter birthday anniversary "
    "holiday holidays daily weekly monthly yearly annual annually"
)


async def date_facts(facts: Sequence[EntityEdge], text: str, model: LLMClient) -> None:
    """Ask since and until when those facts hold whose words tell it, but that have no time yet.

    An answer that cannot be used costs their times, not the facts.

    Args:
        facts: New facts; their times are set.
        text: What they were taken from.
        model: Answers.

    Raises:
        GralkorError: The model's, but for answers that do not fit.
    """
    english = is_english(text)
    undated = [
        fact
        for fact in facts
        if fact.valid_at is None
        and fact.invalid_at is None
        and fact.reference_time is not None
        and may_tell_time(fact.fact, english=english)
    ]
    for start in range(0, len(undated), FACTS_A_CALL):
        await _date(undated[start : start + FACTS_A_CALL], model)


def is_english(text: str) -> bool:
    """Return whether *text* is plainly English."""
    words = _WORD.findall(text.casefold())
    found = [word for word in words if word in _ENGLISH]
    return len(found) > len(words) * _LEAST_ENGLISH and len(set(found)) > 1


def may_tell_time(fact: str, *, english: bool) -> bool:
    """Return whether the words of a fact may tell when it holds.

    Args:
        fact: The fact.
        english: Whether it is English; of other languages that cannot be told.
    """
    if not english or not fact.isascii() or any(letter.isdigit() for letter in fact):
        return True
    return not _TIMES.isdisjoint(_WORD.findall(fact.casefold()))


async def _date(facts: Sequence[EntityEdge], model: LLMClient) -> None:
    listed = [
        {"fact": fact.fact, "reference_time": fact.reference_time.isoformat()}
        for fact in facts
        if fact.reference_time
    ]
    prompt = prompt_library.extract_edges.extract_timestamps_batch({"facts": listed})
    try:
        answer = await model.generate_response(
            prompt,
            BatchEdgeTimestamps,
            model_size=ModelSize.small,
            prompt_name="extract_edges.extract_timestamps_batch",
        )
        times = BatchEdgeTimestamps.model_validate(answer).timestamps
    except (MalformedOutput, ValueError):
        times = []
    if len(times) != len(facts):  # whose times these are is not known
        log.info("facts_left_undated", facts=len(facts))
        return
    for fact, time in zip(facts, times, strict=True):
        apply_extracted_timestamps(fact, time.valid_at, time.invalid_at, fact.reference_time)
