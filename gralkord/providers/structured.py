"""From what a language model wrote to an object that fits a schema, or why it does not."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from gralkord.errors import MalformedOutput
from gralkord.providers.lenient import readings, values_in

if TYPE_CHECKING:
    from pydantic import BaseModel

# How much of an unusable answer is kept for the dead letter and for the repair turn.
RAW_CHARACTERS: Final = 20_000
SCHEMA_KEYWORDS: Final = frozenset({"$defs", "$ref", "$schema", "properties"})

# What models put around an answer when they write a call of a tool.
_ARGUMENTS: Final = ("arguments", "parameters", "input")
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
    for values in readings(answer.text):
        fitting, problem = _fitting(values, schema)
        if len(fitting) > 1:
            reason = "it holds several different objects"
            break
        if fitting:
            return fitting[0]
        reason = reason or problem
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


def _fitting(
    values: list[dict[str, Any] | list[Any]], schema: type[BaseModel]
) -> tuple[list[dict[str, Any]], str]:
    """Return those of *values* that fit, each once, and why the first of the others does not."""
    fitting: list[dict[str, Any]] = []
    reason = ""
    for value in values:
        try:
            fit = _fit(value, schema)
        except ValueError as error:
            reason = reason or str(error)
        else:
            if fit not in fitting:
                fitting.append(fit)
    return fitting, reason


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
        value = _unwrapped(value, names)
    left_out = _collections(schema) - value.keys()
    if not value and left_out:
        raise ValueError("it is empty")  # which would read as if there were nothing to say
    others = [value[name] for name in value.keys() - names]
    if left_out and any(isinstance(item, list | dict) for item in others):
        raise ValueError(f"{', '.join(sorted(left_out))} may be there under another name")
    try:
        checked = schema.model_validate(_clean(value))
    except ValidationError as error:
        raise ValueError(_explain(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return checked.model_dump(mode="json", exclude_unset=True, by_alias=True)


def _unwrapped(value: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Return the object inside *value*, which has none of the fields itself."""
    around = [item for name in _ARGUMENTS if (item := value.get(name)) is not None]
    inner = around or (list(value.values()) if len(value) == 1 else [])
    for item in inner:
        read = values_in(item) if isinstance(item, str) else [item]
        if len(read) == 1 and isinstance(read[0], dict) and names & read[0].keys():
            return read[0]
    if value:
        raise ValueError(f"it has none of the fields {', '.join(sorted(names))}")
    return value


def _collections(schema: type[BaseModel]) -> set[str]:
    """Return the fields that may be left out and are lists or tables."""
    return {
        field.alias or name
        for name, field in schema.model_fields.items()
        if not field.is_required()
        and isinstance(field.get_default(call_default_factory=True, validated_data={}), list | dict)
    }


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
