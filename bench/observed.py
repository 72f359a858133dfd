"""The observations of a LoCoMo file: what its authors say that each turn states."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from gralkord.client.import_locomo import TURN_STEP, read_samples
from gralkord.errors import InvalidInput
from gralkord.evaluation.locomo import read_evidence
from gralkord.testing.replay import RecordedFact, Recording, Replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from gralkord.client.import_locomo import Sample

# The file names no relation.
RELATION: Final = "OBSERVED"
OBJECT_WORDS: Final = 4

_WORD: Final = re.compile(r"[\w'-]+")
# What follows these tells more of an object, and is no part of its name.
_END: Final = re.compile(
    r"[,;:.]| (?:and|which|that|who|where|because|with|to|for|in|on|at|of|as|by|from|since) "
)


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation.

    Attributes:
        speaker: Whom it is about.
        text: The observation.
        turns: The ``dia_id`` of the turns that it was made of.
    """

    speaker: str
    text: str
    turns: frozenset[str]


def read_observed(path: Path) -> tuple[Sample, list[Observation]]:
    """Return the one conversation of a file, and its observations; each text once.

    Raises:
        InvalidInput: It holds another number of conversations, or an observation that is not of the
            form ``[TEXT, DIA_ID]`` or names no turn.
    """
    samples = read_samples(path)
    if len(samples) != 1:
        raise InvalidInput(f"{path} holds {len(samples)} conversations, not one")
    content = orjson.loads(path.read_bytes())
    item = content[0] if isinstance(content, list) else content
    known = {turn.dia_id for session in samples[0].sessions for turn in session.turns}
    found: dict[str, Observation] = {}
    for speaker, said in _entries(item, path):
        if not isinstance(said, list) or len(said) != 2 or not isinstance(said[0], str):
            raise InvalidInput(f"{path}: an observation is not of the form [text, dia_id]")
        texts = said[1] if isinstance(said[1], list) else [said[1]]
        turns = read_evidence(map(str, texts)) & known
        if not turns:
            raise InvalidInput(f"{path}: an observation names no turn: {said[1]!r}")
        before = found.get(said[0])
        turns |= before.turns if before else frozenset()
        found[said[0]] = Observation(speaker, said[0], turns)
    return samples[0], list(found.values())


def recorded(sample: Sample, observations: Sequence[Observation]) -> Replay:
    """Return what a scripted model is to find: in each turn what was observed there, or nothing."""
    recordings: dict[str, Recording] = {}
    for session in sample.sessions:
        for place, turn in enumerate(session.turns):
            moment = session.date + place * TURN_STEP
            facts = [
                fact_of(one).model_copy(update={"valid_at": moment})
                for one in observations
                if turn.dia_id in one.turns
            ]
            line = f"{turn.speaker}: {turn.text}"
            known = recordings.get(line)
            recordings[line] = Recording(facts=(*(known.facts if known else ()), *facts))
    return Replay(recordings)


def fact_of(observation: Observation) -> RecordedFact:
    """Return the fact that an observation is recorded as.

    Its object is a phrase of the text, since every fact has two ends.
    """
    return RecordedFact(
        subject=observation.speaker,
        relation=RELATION,
        object=_object(observation),
        fact=observation.text,
    )


def _object(observation: Observation) -> str:
    """Return the last words of the first clause, the speaker left out."""
    about = re.escape(observation.speaker)
    rest = re.sub(rf"^{about}(?:'s)?\s+", "", observation.text)
    for clause in _END.split(rest):
        words = [word for word in _WORD.findall(clause) if word != observation.speaker]
        if len(words) > 1:
            return " ".join(words[-OBJECT_WORDS:])
    return rest[:40].strip()


def _entries(item: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    sessions = item.get("observation")
    if not isinstance(sessions, dict) or not sessions:
        raise InvalidInput(f"{path} has no observations")
    for speakers in sessions.values():
        for speaker, said in speakers.items():
            for one in said:
                yield speaker, one
