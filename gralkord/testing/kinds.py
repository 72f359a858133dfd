"""What the scripted model makes of an ontology: which kind a name is of, and its fields."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gralkord.testing.rules import mentions_of, messages_in, sentences_of, third_person

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gralkord.testing.prompts import Prompt

Json = dict[str, Any]

# What Graphiti calls entities of no particular kind.
ANY: Final = "Entity"

_EXAMPLES: Final = re.compile(r"(?:\bsuch as|\blike|:)\s+([^.:]+)", re.IGNORECASE)
_BETWEEN: Final = re.compile(r",|;|\bor\b|\band\b|…")
_TRUTHS: Final = {"yes": True, "true": True, "no": False, "false": False}


def kinds_of(prompt: Prompt) -> dict[str, Json]:
    """Return the kinds of entities that a prompt lists, by name."""
    listed = prompt.literal("ENTITY TYPES")
    return {kind["entity_type_name"]: kind for kind in (listed if isinstance(listed, list) else [])}


def examples_in(kinds: dict[str, Json], body: str) -> dict[str, str]:
    """Return the examples in descriptions that a text names, each with its kind.

    ``Something to drink, such as tea or coffee.`` makes ``tea`` a name of that kind.
    """
    found: dict[str, str] = {}
    for kind, described in kinds.items():
        examples = _EXAMPLES.search(str(described.get("entity_type_description") or ""))
        if kind == ANY or examples is None:
            continue
        names = [name.strip() for name in _BETWEEN.split(examples[1]) if name.strip()]
        found |= {name: kind for _, name in mentions_of(names, body)}
    return found


def typed_fields(prompt: Prompt) -> Json:
    """Answer which fields the items of a prompt have.

    ``My age is 41`` and ``Ann's age is 41`` say it of an entity, ``… with strength 0.9`` of a fact.
    """
    kinds, answer = prompt.literal("KINDS") or {}, dict[str, list[Json]]()
    said = list(_said(prompt.part("CURRENT MESSAGE") or ""))
    for item in prompt.literal("ITEMS") or ():
        fields = {
            name: value
            for name in kinds[item["kind"]]["fields"]
            if (value := _value(item, name.replace("_", " "), said)) is not None
        }
        if fields:
            answer.setdefault(item["kind"], []).append({"id": item["id"], "fields": fields})
    return {kind: list[Json]() for kind in kinds} | answer


def _said(body: str) -> Iterator[str]:
    for message in messages_in(body):
        for sentence in sentences_of(message.text):
            yield third_person(sentence, message.speaker) if message.speaker else sentence


def _value(item: Json, field: str, said: list[str]) -> Any:
    if "fact" in item:
        found = re.search(rf"\b{re.escape(field)}(?: of| is)? (.+?)[.!]?$", item["fact"])
        return _read(found[1]) if found else None
    pattern = rf"(?i)\b{re.escape(item['name'])}'s {re.escape(field)} is (?:now )?(.+?)[.!]?$"
    values = [found[1] for sentence in said if (found := re.search(pattern, sentence))]
    return _read(values[-1]) if values else None


def _read(text: str) -> Any:
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    number = re.fullmatch(r"-?\d+(\.\d+)?", text)
    if number is None:
        return text
    return float(text) if number[1] else int(text)
