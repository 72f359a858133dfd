"""How the scripted model sums up: the sentences that mention a name, in the third person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gralkord.testing.rules import mentions_of, messages_in, sentences_of, third_person

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gralkord.testing.prompts import Prompt

SUMMARY_CHARACTERS: Final = 1_000


def summarized_entities(prompt: Prompt) -> dict[str, Any]:
    """Answer SummarizedEntities: those entities of which there is something to say."""
    entities = prompt.literal("ENTITIES")
    texts = prompt.spoken("MESSAGES", "EPISODES")
    written = [
        (entity["name"], _about(entity["name"], entity.get("summary") or "", texts))
        for entity in (entities if isinstance(entities, list) else [])
    ]
    return {"summaries": [{"name": name, "summary": text} for name, text in written if text]}


def summary(prompt: Prompt) -> dict[str, Any]:
    """Answer Summary: of one entity, or of several summaries in one."""
    entity = prompt.literal("ENTITY") or prompt.part("ENTITY")
    if entity is None:
        return {"summary": _cut(" ".join(prompt.listed_after("Summaries:")))}
    if isinstance(entity, dict):
        name, known = str(entity.get("name", "")), str(entity.get("summary") or "")
    else:
        name, known = str(entity), prompt.part("ENTITY CONTEXT") or ""
    return {"summary": _about(name, known, prompt.spoken("MESSAGES"))}


def saga_summary(prompt: Prompt) -> dict[str, Any]:
    """Answer SagaSummary: what was known, and each sentence of the messages."""
    body = "\n".join((prompt.part("MESSAGES") or "").split("\n---\n"))
    known = prompt.part("EXISTING_KNOWLEDGE") or ""
    return {"summary": _cut(" ".join([known, *_in_third_person(body)]).strip())}


def summary_description(prompt: Prompt) -> dict[str, Any]:
    """Answer SummaryDescription: the first sentence."""
    sentences = [part for text in prompt.listed_after("Summary:") for part in sentences_of(text)]
    return {"description": sentences[0] if sentences else ""}


def _about(name: str, known: str, texts: Sequence[str]) -> str:
    """Return what is known of *name* and each sentence that mentions it."""
    sentences = [
        sentence
        for text in texts
        for sentence in _in_third_person(text)
        if mentions_of([name], sentence)
    ]
    fresh = [sentence for sentence in dict.fromkeys(sentences) if sentence not in known]
    return _cut(" ".join([known, *fresh]).strip())


def _in_third_person(body: str) -> list[str]:
    return [
        third_person(sentence, message.speaker) if message.speaker else sentence
        for message in messages_in(body)
        for sentence in sentences_of(message.text)
    ]


def _cut(text: str) -> str:
    return text[:SUMMARY_CHARACTERS]
