"""How the scripted model finds what is worth remembering, and decides what is done with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gralkord.testing.rules import contradicts, same_fact, sentences_of, third_person

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gralkord.testing.prompts import Prompt

Json = dict[str, Any]

LEAST_WORDS: Final = 3

_UNSURE: Final = re.compile(r"\b(?:maybe|perhaps|might|guess)\b", re.IGNORECASE)
_KINDS: Final = (
    ("instruction", re.compile(r"\b(?:always|never|please|from now on)\b", re.IGNORECASE)),
    ("preference", re.compile(r"\b(?:likes?|loves?|prefers?|wants?|hates?)\b", re.IGNORECASE)),
    ("episodic", re.compile(r"\b(?:yesterday|ago|last|went|met)\b", re.IGNORECASE)),
)
_NOW: Final = "now"


def memory_candidates(prompt: Prompt) -> Json:
    """Answer what of a conversation is worth remembering: each sentence that a user states."""
    return {"memories": [_candidate(text) for text in _stated(prompt)]}


def memory_decisions(prompt: Prompt) -> Json:
    """Answer what is done with candidates.

    The same words are known; what is denied is forgotten; and what is so "now" takes the place of
    what begins alike.
    """
    known = {one["number"]: one["content"] for one in prompt.literal("KNOWN") or ()}
    return {
        "decisions": [
            {"index": one["index"], **_decision(one, known)}
            for one in prompt.literal("CANDIDATES") or ()
        ]
    }


def _stated(prompt: Prompt) -> Iterator[str]:
    for line in prompt.literal("CONVERSATION") or ():
        if line["role"] != "user":
            continue
        for sentence in sentences_of(line["text"]):
            if not sentence.endswith("?") and len(sentence.split()) >= LEAST_WORDS:
                yield third_person(sentence, line["speaker"])


def _candidate(text: str) -> Json:
    kind = next((kind for kind, words in _KINDS if words.search(text)), "semantic")
    sure = 0.3 if _UNSURE.search(text) else 0.9
    return {"content": text, "kind": kind, "importance": 0.5, "confidence": sure}


def _decision(candidate: Json, known: dict[int, str]) -> Json:
    text = candidate["content"]
    for number in candidate["known"]:
        if same_fact(known[number], text):
            return {"action": "noop", "target": number, "reason": "the same words"}
        if _takes_place(text, known[number]):
            return {"action": "update", "target": number, "reason": "it is so now"}
        if contradicts(text, known[number]):
            return {"action": "forget", "target": number, "reason": "it is denied"}
    return {"action": "add", "target": -1, "reason": "nothing says it"}


def _takes_place(new: str, old: str) -> bool:
    words, before = ([word for word in _words(text) if word != _NOW] for text in (new, old))
    return _NOW in _words(new) and words[:2] == before[:2] and words != before


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
