"""From what a language model wrote to an object that fits a schema, or why it does not."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from gralkord.errors import MalformedOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

# How much of an unusable answer is kept for the dead letter and for the repair turn.
RAW_CHARACTERS: Final = 20_000
SCHEMA_KEYWORDS: Final = frozenset({"$defs", "$ref", "$schema", "properties"})

_THINKING: Final = re.compile(
    r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE
)
# Some chat templates put the opening tag into the prompt, so only the closing one is seen.
_THINKING_TAIL: Final = re.compile(r"\A.*</(think|thinking|reasoning)>", re.DOTALL | re.IGNORECASE)
_FENCE: Final = re.compile(r"```[\w-]*\s*\n?(.*?)```", re.DOTALL)
# Lenient, because weak models write line breaks inside strings.
_DECODER: Final = json.JSONDecoder(strict=False)
_LINE: Final = re.compile(r"^\{", re.MULTILINE)
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote, and why it stopped."""

    text: str
    finish_reason: str | None = None


class UnusableAnswer(MalformedOutput):
    """The model's answer does not fit the schema."""

    def __init__(self, reason: str, answer: Answer) -> None:
        super().__init__(f"the model's answer is not usable: {reason}")
        self.reason = reason
        self.raw = answer.text[:RAW_CHARACTERS]


def read_answer(answer: Answer, schema: type[BaseModel]) -> dict[str, Any]:
    """Return the object in *answer* as plain JSON values, checked by *schema*.

    Thinking aloud, code fences and words around the object are dropped. Only fields that the
    answer names are returned, so defaults never look like something the model said.

    Raises:
        UnusableAnswer: There is no such object.
    """
    reason = ""
    for value in _candidates(answer.text):
        try:
            return _fit(value, schema)
        except ValueError as error:
            reason = reason or str(error)
    raise UnusableAnswer(_unfinished(answer) or reason or "there is no JSON object in it", answer)


def schema_instruction(schema: type[BaseModel]) -> str:
    """Return the sentence that asks for *schema* where the server cannot enforce it."""
    written = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return f"Respond with a JSON object in the following format:\n\n{written}"


def repair_instruction(problem: UnusableAnswer) -> str:
    """Return the turn that shows the model what was wrong with its answer."""
    return (
        f"That answer cannot be used: {problem.reason}.\n"
        "Answer again with one complete JSON object that fits the schema, and nothing else: "
        "values, not the schema itself; no comments; no code fence."
    )


def _unfinished(answer: Answer) -> str | None:
    if answer.finish_reason == "length":
        return "it was cut off at the length limit; be briefer"
    if answer.finish_reason == "content_filter":
        return "the provider's content filter stopped it"
    return None


def _candidates(text: str) -> Iterator[dict[str, Any] | list[Any]]:
    """Yield the JSON values that *text* may have meant as its answer, likeliest first.

    An object inside a broken one is never among them: a list of facts that breaks off must not
    read as a short one.
    """
    # Untouched first: "<think>" may stand in a remembered text.
    blocks = [text.strip()]
    spoken = _THINKING_TAIL.sub("", _THINKING.sub("", text)).strip()
    blocks += [spoken, *(block.strip() for block in _FENCE.findall(spoken))]
    for block in dict.fromkeys(blocks):
        yield from _decode(block, 0)
    for brace in dict.fromkeys([spoken.find("{"), *(at.start() for at in _LINE.finditer(spoken))]):
        if brace > 0:
            yield from _decode(spoken, brace)


def _decode(text: str, start: int) -> Iterator[dict[str, Any] | list[Any]]:
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict | list):
        yield value


def _fit(value: dict[str, Any] | list[Any], schema: type[BaseModel]) -> dict[str, Any]:
    names = _field_names(schema)
    if isinstance(value, list):
        # A bare list of items is clear enough; an empty one may mean anything.
        if len(names) != 1 or not value:
            raise ValueError("it is a list, not an object")
        value = {next(iter(names)): value}
    if SCHEMA_KEYWORDS & (value.keys() - names):
        raise ValueError("it repeats the schema instead of filling it in")
    if names and not names & value.keys():
        inner = [item for item in value.values() if isinstance(item, dict)]
        if len(value) == 1 and inner and names & inner[0].keys():
            value = inner[0]
        elif value:
            raise ValueError(f"it has none of the fields {', '.join(sorted(names))}")
    try:
        checked = schema.model_validate(_clean(value))
    except ValidationError as error:
        raise ValueError(_explain(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return checked.model_dump(mode="json", exclude_unset=True, by_alias=True)


def _field_names(schema: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in schema.model_fields.items()}


def _explain(error: ValidationError) -> str:
    places = [
        f"{'.'.join(str(part) for part in item['loc']) or 'the object'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)[:5]
    ]
    return "; ".join(places)


def _clean(value: Any) -> Any:
    """Return *value* without the characters that no store accepts, in keys and texts."""
    if isinstance(value, str):
        return _CONTROL.sub("", value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value
