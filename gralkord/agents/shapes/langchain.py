"""Messages of LangChain and LangGraph: objects, their serialised forms, and what is taken for them.

Nothing of LangChain is imported; a message is known by the names that all versions have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gralkord.agents.events import Answer, Event, Said, Thought, ToolCall, ToolResult
from gralkord.agents.reading import (
    block_kind,
    blocks_at,
    join_texts,
    list_at,
    look,
    look_text,
    read_json,
    speaker_of,
    text_at,
)
from gralkord.agents.shapes.openai_chat import openai_calls
from gralkord.errors import InvalidInput

_KINDS: Final = {
    "human": "human",
    "user": "human",
    "ai": "ai",
    "assistant": "ai",
    "tool": "tool",
    "function": "tool",
    "system": "skipped",
    "developer": "skipped",
    "remove": "skipped",
}


def read_langchain(trace: Iterable[Any]) -> Iterator[Event]:
    """Yield the events that messages tell of; system text is left out.

    Raises:
        InvalidInput: A message is not one of these.
    """
    for number, thing in enumerate(trace):
        place = f"messages[{number}]"
        message, kind = _unwrap(thing)
        if kind == "human":
            text = join_texts(blocks_at(message, "content", place))
            yield Said(text, speaker_of(message, place, "name"))
        elif kind == "ai":
            yield from _ai(message, place)
        elif kind == "tool":
            yield _tool(message, place)
        elif kind != "skipped":
            raise InvalidInput(
                f"{place}: not known as a message of a human, an AI, a tool or the system",
                field=place,
            )


def _unwrap(thing: Any) -> tuple[Any, str]:
    """Return a message out of whatever form it has, and its kind."""
    if isinstance(thing, str):
        return {"content": thing}, "human"
    if isinstance(thing, tuple) and len(thing) == 2:
        return {"content": thing[1]}, _kind(thing[0])
    if isinstance(thing, Mapping) and thing.get("type") == "constructor":
        names = thing.get("id")
        inner = thing.get("kwargs")
        kind = _kind(names[-1]) if isinstance(names, list) and names else ""
        return inner, kind or _kind(look(inner, "role"))
    if isinstance(thing, Mapping) and isinstance(thing.get("data"), Mapping):
        inner, kind = thing["data"], _kind(thing.get("type"))
        return inner, kind or _kind(look(inner, "role"))
    kind = _kind(look(thing, "type"))
    return thing, kind or _kind(look(thing, "role"))


def _kind(name: Any) -> str:
    if not isinstance(name, str):
        return ""
    return _KINDS.get(name.lower().removesuffix("chunk").removesuffix("message"), "")


def _ai(message: Any, place: str) -> Iterator[Event]:
    speaker = speaker_of(message, place, "name", agent=True)
    blocks = blocks_at(message, "content", place)
    extra = look(message, "additional_kwargs")
    thoughts = [_thought(block) for block in blocks]
    yield from (Thought(text, speaker) for text in thoughts if text)
    if not any(thoughts) and (text := look_text(extra, "reasoning_content")):
        yield Thought(text, speaker)
    calls = list(_calls(message, extra, place, speaker))
    if text := join_texts(blocks):
        yield Thought(text, speaker) if calls else Answer(text, speaker)
    yield from calls


def _thought(block: Any) -> str:
    """Return what a block tells of the model's reasoning."""
    kind = block_kind(block)
    if kind not in {"thinking", "reasoning", "reasoning_content"}:
        return ""
    value = look(block, kind)
    if isinstance(value, str):
        return value
    if kind == "reasoning":
        parts = look(block, "summary")
        texts = map(_text, parts) if isinstance(parts, list) else ()
        return "\n".join(filter(None, texts))
    return _text(value)


def _text(thing: Any) -> str:
    return look_text(thing, "text")


def _calls(message: Any, extra: Any, place: str, speaker: str | None) -> Iterator[Event]:
    calls = list_at(message, "tool_calls", place)
    if any(look(call, "function") is not None for call in calls):
        yield from openai_calls(message, place, speaker)
        calls = []
    elif not calls:  # older versions keep them as the provider had them
        yield from openai_calls(extra, f"{place}.additional_kwargs", speaker)
    for number, call in enumerate(calls):
        at = f"{place}.tool_calls[{number}]"
        name, identity = text_at(call, "name", at) or None, text_at(call, "id", at) or None
        yield ToolCall(name, look(call, "args"), identity, speaker)
    for number, call in enumerate(list_at(message, "invalid_tool_calls", place)):
        at = f"{place}.invalid_tool_calls[{number}]"
        name, identity = text_at(call, "name", at) or None, text_at(call, "id", at) or None
        yield ToolCall(name, read_json(look(call, "args")), identity, speaker)
        yield ToolResult(text_at(call, "error", at) or None, name, identity, failed=True)


def _tool(message: Any, place: str) -> Event:
    return ToolResult(
        join_texts(blocks_at(message, "content", place)),
        text_at(message, "name", place) or None,
        text_at(message, "tool_call_id", place) or None,
        look(message, "status") == "error",
    )
