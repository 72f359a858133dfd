"""What the scripted model answers when it is to generalise."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gralkord.testing.rules import contradicts, messages_in, sentences_of, third_person

if TYPE_CHECKING:
    from gralkord.testing.prompts import Prompt

Json = dict[str, Any]

# How sure a sentence with such a word is to hold beyond its conversation.
_SURE: Final = {"always": 0.9, "never": 0.9, "usually": 0.7, "prefer": 0.8, "prefers": 0.8}
_UNSURE: Final = {"maybe": 0.2, "sometimes": 0.2}
_WORD: Final = re.compile(r"\w+")
# Words that say how, not what.
_HOW: Final = frozenset({"a", "an", "the", "in", "at", "on", "to", "of", "and", *_SURE, *_UNSURE})


def hypotheses(prompt: Prompt) -> Json:
    """Return the sentences that say what is always or usually so, in the third person."""
    found: list[Json] = []
    for text in prompt.literal("TRANSCRIPT") or ():
        for message in messages_in(text):
            for sentence in sentences_of(message.text):
                if (sure := _confidence(sentence)) and not sentence.endswith("?"):
                    said = third_person(sentence, message.speaker) if message.speaker else sentence
                    found.append({"content": said, "confidence": sure})
    return {"generalisations": found}


def decisions(prompt: Prompt) -> Json:
    """Return what each hypothesis is to the first known one that has to do with it, by its words.

    What has the same words says the same, more words narrow, fewer broaden; one of two that differ
    in ``always`` and ``never`` alone is wrong.
    """
    known = prompt.literal("KNOWN") or ()
    return {
        "decisions": [
            next(
                (
                    {"hypothesis": one["id"], "action": action, "known": other["id"]}
                    for other in known
                    if (action := _relation(one["content"], other["content"]))
                ),
                {"hypothesis": one["id"], "action": "save", "known": None},
            )
            for one in prompt.literal("HYPOTHESES") or ()
        ]
    }


def _confidence(sentence: str) -> float | None:
    words = [word.casefold() for word in _WORD.findall(sentence)]
    unsure = [_UNSURE[word] for word in words if word in _UNSURE]
    sure = [_SURE[word] for word in words if word in _SURE]
    return next(iter(unsure or sure), None)


def _relation(new: str, old: str) -> str | None:
    ours, theirs = _words(new), _words(old)
    if ("never" in ours) != ("never" in theirs) and ours - _HOW == theirs - _HOW:
        return "contradicts"
    if contradicts(new, old):
        return "contradicts"
    ours, theirs = ours - _HOW, theirs - _HOW
    if ours == theirs:
        return "skip"
    if ours and ours < theirs:
        return "broadens"
    return "narrows" if theirs and theirs < ours else None


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))
