"""Items of OpenAI's Responses API: the input and the output of a response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from gralkord.agents.events import Answer, Event, Said, Thought, ToolCall, ToolResult
from gralkord.agents.reading import (
    blocks_at,
    join_texts,
    list_at,
    look,
    look_text,
    read_json,
    speaker_of,
    text_at,
)
from gralkord.errors import InvalidInput

# What the tools that the API runs itself were asked, under which name.
_ASKED: Final = ("arguments", "input", "action", "queries", "code", "operation", "prompt")
# An image is no text, nor is the list of a server's tools.
_WITHOUT_RESULT: Final = frozenset({"image_generation_call", "computer_call_output"})


def read_openai_responses(trace: Iterable[Any]) -> Iterator[Event]:
    """Yield the events that items tell of; system text and items of unknown types are left out.

    What the agent says just before it uses a tool is a thought: the answer comes later.

    Raises:
        InvalidInput: An item is none of these.
    """
    waiting: list[Event] = []
    for number, item in enumerate(trace):
        for event in _item(item, f"items[{number}]"):
            if isinstance(event, ToolCall):
                yield from map(_as_thought, waiting)
                waiting = []
                yield event
            elif isinstance(event, Answer) or (waiting and isinstance(event, Thought)):
                waiting.append(event)
            else:
                yield from waiting
                waiting = []
                yield event
    yield from waiting


def _as_thought(event: Event) -> Event:
    return Thought(event.text, event.speaker) if isinstance(event, Answer) else event


def _item(item: Any, place: str) -> Iterator[Event]:
    kind = look_text(item, "type")
    role = look_text(item, "role")
    if kind == "message" or (role and not kind):
        yield from _message(item, role, place)
    elif kind == "reasoning":
        parts = list_at(item, "summary", place) or list_at(item, "content", place)
        texts = [look_text(part, "text") for part in parts]
        yield Thought("\n".join(filter(None, texts)))
    elif kind.endswith("_call_output"):
        yield ToolResult(
            None if kind in _WITHOUT_RESULT else _output(item, place),
            None,
            text_at(item, "call_id", place) or None,
        )
    elif kind.endswith("_call"):
        yield from _call(item, kind, place)
    elif not kind:
        raise InvalidInput(
            f"{place}: has neither a type nor a role", field=place, hint="pass response.output"
        )


def _message(item: Any, role: str, place: str) -> Iterator[Event]:
    blocks = blocks_at(item, "content", place)
    text = join_texts(blocks)
    if role in {"system", "developer"}:
        return
    if role == "user":
        yield Said(text, speaker_of(item, place, "name"))
    elif role == "assistant":
        refusals = [look_text(block, "refusal") for block in blocks]
        text = text or "\n".join(filter(None, refusals))
        # The API says of some messages that they are no answers yet.
        yield Thought(text) if look(item, "phase") == "commentary" else Answer(text)
    else:
        raise InvalidInput(
            f"{place}.role: must be system, developer, user or assistant", field=f"{place}.role"
        )


def _call(item: Any, kind: str, place: str) -> Iterator[Event]:
    """Yield a call, and its result where the item has that as well."""
    identity = text_at(item, "call_id", place) or text_at(item, "id", place) or None
    name = text_at(item, "name", place) or kind.removesuffix("_call")
    asked = (look(item, key) for key in _ASKED)
    yield ToolCall(name, read_json(next((one for one in asked if one is not None), None)), identity)
    error = look(item, "error")
    if error is not None:
        yield ToolResult(error, name, identity, failed=True)
    elif look_text(item, "status") in {"failed", "incomplete"}:
        yield ToolResult(None, name, identity, failed=True)
    elif kind not in _WITHOUT_RESULT:
        keys = ("output", "results", "outputs")
        found = [value for key in keys if (value := look(item, key)) is not None]
        if found:
            yield ToolResult(found[0], name, identity)


def _output(item: Any, place: str) -> Any:
    output = look(item, "output")
    return join_texts(blocks_at(item, "output", place)) if isinstance(output, list) else output
