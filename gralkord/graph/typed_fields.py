"""The fields of entities and facts whose kinds an ontology names: asked for in one call together.

Graphiti asks for each by itself, with the whole transcript each time, and an answer that does not
fit costs the episode. Here it costs the field, or at worst the fields of this one call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator, create_model
from pydantic.fields import FieldInfo

from gralkord.errors import MalformedOutput
from gralkord.graph.library import (
    EntityEdge,
    EntityNode,
    LLMClient,
    Message,
    ModelSize,
    to_prompt_json,
)
from gralkord.graph.sanitise import clean_attribute
from gralkord.providers.quoting import tagless, untagged

log = structlog.get_logger(__name__)

STAGE: Final = "ontology.extract_fields"
# More in one call and a small model loses track.
ASKED_A_CALL: Final = 20

Fields = dict[str, Any]

_SYSTEM: Final = (
    "You fill in what is said about people, things and facts. NEVER fill in what is not said."
)
_TASK: Final = """\
Fill in the fields of each of the ITEMS. KINDS says which fields an item of a kind has.

- The fields of an entity are filled in from the CURRENT MESSAGE, those of a fact from its own \
words.
- Fill in only what is said, or follows from it directly. Leave all else null: do not guess, and \
do not take what is said of one item for another.
- `known` is what was said before. Leave those fields null, too, unless something else is said now.
- Values are short. Numbers have no units.

Return the items under their kind, each with its id; leave out those of which nothing is said.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """Something whose fields are wanted.

    Attributes:
        targets: What gets them: objects that stand for the same.
        kind: What the model calls its kind; unlike each other for entities and facts.
        model: The fields.
        shown: What the model is told of it.
    """

    targets: Sequence[EntityNode | EntityEdge]
    kind: str
    model: type[BaseModel]
    shown: Mapping[str, Any]

    @property
    def known(self) -> Fields:
        """The fields that it has."""
        attributes = self.targets[0].attributes
        return {name: attributes[name] for name in self.model.model_fields if name in attributes}


def of_entities(
    entities: Sequence[EntityNode], models: Mapping[str, type[BaseModel]]
) -> list[Asked]:
    """Return the entities that are of kinds with fields, each once."""
    same: dict[str, list[EntityNode]] = {}
    for entity in entities:
        same.setdefault(entity.uuid, []).append(entity)
    found = []
    for objects in same.values():
        labels = {label for one in objects for label in one.labels}
        kind = next((name for name in models if name in labels), None)
        if kind and models[kind].model_fields:
            shown = {"name": objects[0].name}
            found.append(Asked(objects, f"entity_{kind}", models[kind], shown))
    return found


async def fill(asked: Sequence[Asked], transcript: str, model: LLMClient) -> None:
    """Have fields read, and put them among the attributes of what they are of.

    Args:
        asked: What has fields; if there is nothing no model is asked.
        transcript: What was said.
        model: Answers.

    Raises:
        GralkorError: The model's failure, but for answers that do not fit.
    """
    parts = [asked[at : at + ASKED_A_CALL] for at in range(0, len(asked), ASKED_A_CALL)]
    await asyncio.gather(*(_fill(part, transcript, model) for part in parts))


async def _fill(
    asked: Sequence[Asked], transcript: str, model: LLMClient, *, again: bool = True
) -> None:
    schema = _schema(tuple({one.kind: one.model for one in asked}.items()))
    try:
        answer = await model.generate_response(
            _prompt(asked, transcript), schema, model_size=ModelSize.small, prompt_name=STAGE
        )
        read = schema.model_validate(answer)
    except (MalformedOutput, ValidationError):
        half = len(asked) // 2
        if not again or not half:
            log.info("fields_left_out", items=len(asked))
            return
        for some in (asked[:half], asked[half:]):  # a weak model may do with fewer
            await _fill(some, transcript, model, again=False)
        return
    for kind, number, fields in _items(read):
        if 0 <= number < len(asked) and asked[number].kind == kind:
            for target in asked[number].targets:
                target.attributes |= fields


def _items(read: BaseModel) -> Iterator[tuple[str, int, Fields]]:
    """Yield what is said; of two answers on one field the first counts."""
    for kind in type(read).model_fields:
        for item in reversed(getattr(read, kind)):
            values = {
                name: clean_attribute(getattr(item.fields, name))
                for name in type(item.fields).model_fields
            }
            yield (
                kind,
                item.id,
                {name: value for name, value in values.items() if value not in (None, "")},
            )


def _prompt(asked: Sequence[Asked], transcript: str) -> list[Message]:
    kinds = {
        one.kind: {
            "description": one.model.__doc__ or "",
            "fields": {name: _meant(field) for name, field in one.model.model_fields.items()},
        }
        for one in asked
    }
    items = [
        {"id": number, "kind": one.kind, **one.shown, "known": one.known}
        for number, one in enumerate(asked)
    ]
    # A fact tells its fields by itself.
    said = any(isinstance(one.targets[0], EntityNode) for one in asked)
    message = f"<CURRENT MESSAGE>\n{untagged(transcript)}\n</CURRENT MESSAGE>\n" if said else ""
    listed = (
        f"<KINDS>\n{tagless(to_prompt_json(kinds))}\n</KINDS>\n\n"
        f"<ITEMS>\n{tagless(to_prompt_json(items))}\n</ITEMS>\n\n{message}"
    )
    return [
        Message(role="system", content=_SYSTEM),
        Message(role="user", content=f"{_TASK}\n{listed}"),
    ]


def _meant(field: FieldInfo) -> str:
    """Return what the model is told of a field."""
    needed = "look for it with care" if field.is_required() else ""
    return "; ".join(filter(None, (field.description, needed)))


@lru_cache(maxsize=256)
def _schema(kinds: tuple[tuple[str, type[BaseModel]], ...]) -> type[BaseModel]:
    """Return the schema of an answer about items of some kinds."""
    lists: dict[str, Any] = {
        kind: (list[_item(kind, model)], Field(default_factory=list))  # type: ignore[misc]
        for kind, model in kinds
    }
    return create_model("TypedFields", **lists)


@lru_cache(maxsize=1_024)
def _item(kind: str, model: type[BaseModel]) -> type[BaseModel]:
    definitions: dict[str, Any] = {
        name: (
            Annotated[field.annotation | None, WrapValidator(_lenient)],  # type: ignore[operator]
            Field(None, description=field.description),
        )
        for name, field in model.model_fields.items()
    }
    fields = create_model(
        f"{kind}_fields", __config__=ConfigDict(coerce_numbers_to_str=True), **definitions
    )
    number = Field(description="id of the item")
    return create_model(f"{kind}_item", id=(int, number), fields=(fields, ...))


def _lenient(value: Any, check: Callable[[Any], Any]) -> Any:
    """Return a value that fits, else none: one that does not is as good as not said."""
    try:
        found = check(value)
    except ValidationError:
        return None
    # A truth is no number, though it counts as one.
    return None if isinstance(value, bool) and not isinstance(found, bool) else found
