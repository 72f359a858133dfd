"""Messages of OpenAI's chat completions, as many servers and frameworks have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

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


def read_openai_chat(trace: Iterable[Any]) -> Iterator[Event]:
    """Yield the events that chat messages tell of; system text is left out.

    Raises:
        InvalidInput: A message is not one of these.
    """
    for number, message in enumerate(trace):
        place = f"messages[{number}]"
        role = look_text(message, "role")
        if role in {"system", "developer"}:
            continue
        if role == "user":
            text = join_texts(blocks_at(message, "content", place))
            yield Said(text, speaker_of(message, place, "name"))
        elif role == "assistant":
            yield from _assistant(message, place)
        elif role in {"tool", "function"}:
            yield ToolResult(
                join_texts(blocks_at(message, "content", place)),
                text_at(message, "name", place) or None,
                text_at(message, "tool_call_id", place) or None,
            )
        else:
            raise InvalidInput(
                f"{place}.role: must be system, developer, user, assistant, tool or function",
                field=f"{place}.role",
            )


def _assistant(message: Any, place: str) -> Iterator[Event]:
    speaker = speaker_of(message, place, "name", agent=True)
    text = (
        join_texts(blocks_at(message, "content", place))
        or text_at(message, "refusal", place)
        or look_text(look(message, "audio"), "transcript")
    )
    thought = look_text(message, "reasoning_content") or look_text(message, "reasoning")
    calls = list(openai_calls(message, place, speaker))
    if thought:
        yield Thought(thought, speaker)
    if text:
        yield Thought(text, speaker) if calls else Answer(text, speaker)
    yield from calls


def openai_calls(message: Any, place: str, speaker: str | None) -> Iterator[ToolCall]:
    """Yield the calls that a message of an assistant makes.

    Raises:
        InvalidInput: They are no list.
    """
    for number, call in enumerate(list_at(message, "tool_calls", place)):
        used = look(call, "function") or look(call, "custom")
        at = f"{place}.tool_calls[{number}]"
        arguments = look(used, "arguments")
        yield ToolCall(
            text_at(used, "name", at) or None,
            read_json(look(used, "input") if arguments is None else arguments),
            text_at(call, "id", at) or None,
            speaker,
        )
    if (used := look(message, "function_call")) is not None:
        yield ToolCall(
            text_at(used, "name", f"{place}.function_call") or None,
            read_json(look(used, "arguments")),
            None,
            speaker,
        )
