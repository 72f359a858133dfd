"""Messages of Anthropic's API, whose contents are blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gralkord.agents.events import Answer, Event, Said, Thought, ToolCall, ToolResult
from gralkord.agents.reading import (
    block_kind,
    blocks_at,
    join_texts,
    look,
    look_text,
    speaker_of,
    text_at,
)
from gralkord.errors import InvalidInput


def read_anthropic(trace: Iterable[Any]) -> Iterator[Event]:
    """Yield the events that messages tell of; system text and redacted thinking are left out.

    Raises:
        InvalidInput: A message is not one of these.
    """
    for number, message in enumerate(trace):
        place = f"messages[{number}]"
        role = look_text(message, "role")
        if role == "system":
            continue
        blocks = blocks_at(message, "content", place)
        if role == "user":
            yield from _user(message, blocks, place)
        elif role == "assistant":
            yield from _assistant(message, blocks, place)
        else:
            raise InvalidInput(f"{place}.role: must be user or assistant", field=f"{place}.role")


def _user(message: Any, blocks: Sequence[Any], place: str) -> Iterator[Event]:
    """Yield the results of tools, which come as a user's message, then what the user said."""
    for number, block in enumerate(blocks):
        if block_kind(block) == "tool_result":
            yield _result(block, f"{place}.content[{number}]")
    if text := join_texts(blocks):
        yield Said(text, speaker_of(message, place, "name"))


def _assistant(message: Any, blocks: Sequence[Any], place: str) -> Iterator[Event]:
    """Yield what the agent thought, did and said.

    Text before the last use of a tool is a thought. So is all text if the tool is the client's, for
    then the answer comes in a later message.
    """
    speaker = speaker_of(message, place, "name", agent=True)
    kinds = [block_kind(block) for block in blocks]
    uses = [n for n, kind in enumerate(kinds) if kind.endswith(("tool_use", "tool_result"))]
    answers_from = len(blocks) if "tool_use" in kinds else max(uses, default=-1) + 1
    for number, (kind, block) in enumerate(zip(kinds, blocks, strict=True)):
        at = f"{place}.content[{number}]"
        if kind == "thinking":
            yield Thought(look_text(block, "thinking"), speaker)
        elif kind.endswith("tool_use"):
            yield ToolCall(
                text_at(block, "name", at) or None,
                look(block, "input"),
                text_at(block, "id", at) or None,
                speaker,
            )
        elif kind.endswith("tool_result"):
            yield _result(block, at)
        elif number < answers_from:
            yield Thought(join_texts([block]), speaker)
    if text := join_texts(blocks[answers_from:]):
        yield Answer(text, speaker)


def _result(block: Any, place: str) -> ToolResult:
    content = look(block, "content")
    code = look(content, "error_code")
    failed = look(block, "is_error") is True or code is not None
    return ToolResult(
        _shown(content) if code is None else code,
        None,
        text_at(block, "tool_use_id", place) or None,
        failed,
    )


def _shown(content: Any) -> Any:
    """Return the words of a result; of what a search found, titles and addresses.

    The pages themselves come encrypted, for the model's next turn only.
    """
    if not isinstance(content, list | tuple):
        return content
    lines = []
    for block in content:
        if text := join_texts([block]):
            lines.append(text)
        elif url := look_text(block, "url"):
            lines.append(f"{look_text(block, 'title')} ({url})".strip())
    return "\n".join(lines)
