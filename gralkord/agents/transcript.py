"""The canonical transcript: what an agent did, as messages of the roles user, behaviour, assistant.

Nothing an agent was told by its makers is in it: no system text, no memory that was put into the
conversation, no envelope. A turn that failed ends in the behaviour ``request failed: …``, so that
something can be learned from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from gralkord.agents.events import (
    Answer,
    Event,
    Failure,
    Said,
    Thought,
    ToolCall,
    ToolResult,
    read_events,
)
from gralkord.agents.fitting import fit
from gralkord.agents.profiles import strip, strip_memory
from gralkord.agents.reading import check_speaker, opened, show
from gralkord.agents.rules import DEFAULT_RULES, Rules
from gralkord.agents.shapes.anthropic import read_anthropic
from gralkord.agents.shapes.langchain import read_langchain
from gralkord.agents.shapes.openai_chat import read_openai_chat
from gralkord.agents.shapes.openai_responses import read_openai_responses
from gralkord.errors import InvalidInput
from gralkord.models import Message, Role

Shape = Literal["events", "openai-chat", "openai-responses", "anthropic", "langchain"]

_READERS: Final[dict[str, Callable[[Iterable[Any]], Iterator[Event]]]] = {
    "events": read_events,
    "openai-chat": read_openai_chat,
    "openai-responses": read_openai_responses,
    "anthropic": read_anthropic,
    "langchain": read_langchain,
}
_TOOL_NAME_CHARS: Final = 128

# The colours of terminals, then what `models.base.check_text` refuses.
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_UNFIT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def turn_of(
    trace: Iterable[Any],
    shape: Shape = "events",
    *,
    failure: Any = None,
    rules: Rules = DEFAULT_RULES,
) -> list[Message]:
    """Return one turn, all of *trace*, as the messages to capture.

    Args:
        trace: Events, or messages or items as the framework has them: mappings or objects.
        shape: What *trace* consists of.
        failure: Why the turn ended without an answer: an exception or a text.
        rules: What is stripped, and how much is kept.

    Returns:
        The messages in the order of what happened; none if there is nothing to capture.

    Raises:
        InvalidInput: The trace is not of that shape, or its words do not fit into a turn.
        ConfigError: A profile failed.
    """
    return _messages(_events(trace, shape, failure), rules)


def turns_of(
    trace: Iterable[Any],
    shape: Shape = "events",
    *,
    failure: Any = None,
    rules: Rules = DEFAULT_RULES,
) -> list[list[Message]]:
    """Return the turns of a whole conversation, each as `turn_of` would.

    A turn begins with what somebody says after the agent has answered or failed; what is said while
    the agent is at work belongs to the turn under way. Turns with nothing to capture are left out.

    Args:
        trace: Events, or messages or items as the framework has them: mappings or objects.
        shape: What *trace* consists of.
        failure: Why the last turn ended without an answer: an exception or a text.
        rules: What is stripped, and how much is kept.

    Raises:
        InvalidInput: The trace is not of that shape, or the words of a turn do not fit into one.
        ConfigError: A profile failed.
    """
    found: list[list[Event]] = [[]]
    ended = False
    for event in _events(trace, shape, failure):
        if isinstance(event, Said) and ended:
            found.append([])
            ended = False
        ended = ended or isinstance(event, Answer | Failure)
        found[-1].append(event)
    return [turn for turn in (_messages(events, rules) for events in found) if turn]


def _events(trace: Iterable[Any], shape: str, failure: Any) -> list[Event]:
    if shape not in _READERS:
        raise InvalidInput(
            f"shape: {str(shape)[:64]!r} is not known", field="shape", hint=", ".join(_READERS)
        )
    if isinstance(trace, str | bytes | Mapping) or not isinstance(trace, Iterable):
        raise InvalidInput(
            "trace: must be a list of messages, items or events",
            field="trace",
            hint="of a state or a response, pass its list",
        )
    events = list(_READERS[shape](trace))
    return events if failure is None else [*events, Failure(failure)]


def _messages(events: list[Event], rules: Rules) -> list[Message]:
    results = _results(events)
    answered = {id(result) for result in results.values()}
    found: list[Message] = []
    for number, event in enumerate(events):
        place = f"events[{number}]"
        speaker = check_speaker(
            getattr(event, "speaker", None), f"{place}.speaker", agent=not isinstance(event, Said)
        )
        match event:
            case Said():
                found += _words("user", event.text, speaker, place, rules)
            case Answer():
                found += _words("assistant", event.text, speaker, place, rules)
            case Thought():
                text = _cut(_bare(event.text, rules), rules.thought_chars)
                found += _behaviour(text and f"thought: {text}", speaker)
            case ToolCall():
                found += _behaviour(_tool(event, results.get(number), rules), speaker)
            case ToolResult() if id(event) not in answered:
                found += _behaviour(_tool(None, event, rules), speaker)
            case Failure():
                text = _cut(_bare(show(event.error), rules), rules.result_chars)
                found += _behaviour(f"request failed: {text}" if text else "request failed", None)
            case _:
                pass
    return fit(found)


def _results(events: list[Event]) -> dict[int, ToolResult]:
    """Return for each call, by its number, its result: the one with its id, else of its tool."""
    found: dict[int, ToolResult] = {}
    waiting: dict[str, list[int]] = {}
    for number, event in enumerate(events):
        if isinstance(event, ToolCall):
            waiting.setdefault(show(event.id), []).append(number)
        elif isinstance(event, ToolResult):
            calls = waiting.get(show(event.id), [])
            for call in calls:
                # An id says all; without one, tools that work side by side are told by their names.
                if event.id or event.name is None or event.name == _name(events[call]):
                    found[call] = event
                    calls.remove(call)
                    break
    return found


def _name(event: Event) -> str | None:
    return event.name if isinstance(event, ToolCall) else None


def _words(role: Role, text: Any, speaker: str | None, place: str, rules: Rules) -> list[Message]:
    """Return what was said, if words are left."""
    if not isinstance(text, str):
        raise InvalidInput(f"{place}.text: must be a text", field=f"{place}.text")
    left = strip(_clean(text), role, rules.profiles)
    words = left.text if role == "user" else left.text.strip()
    if not words.strip():
        return []
    # Who an envelope names may be a human only: nothing puts one before what an agent says.
    written_by = left.speaker if role == "user" else None
    return [Message(role=role, content=words, speaker=speaker or check_speaker(written_by, place))]


def _tool(call: ToolCall | None, result: ToolResult | None, rules: Rules) -> str:
    """Return the line of a tool's use: ``tool name(arguments) → result``."""
    name = (call and call.name) or (result and result.name) or ""
    name = " ".join(_bare(show(name), rules).split())[:_TOOL_NAME_CHARS]
    line = f"tool {name}".rstrip()
    if call and (arguments := _arguments(call.arguments, rules)):
        line += f"({arguments})"
    if result is None:
        return line
    shown = _cut(_bare(show(result.result), rules), rules.result_chars)
    if rules.recalls(name) and not result.failed:
        shown = ""
    if result.failed:
        shown = f"error {shown}".rstrip()
    return f"{line} → {shown}" if shown else line


def _arguments(arguments: Any, rules: Rules) -> str:
    arguments = opened(arguments)
    if isinstance(arguments, Mapping):
        pairs = (f"{show(name)}={_quoted(value)}" for name, value in arguments.items())
        text = ", ".join(pairs)
    else:
        text = show(arguments)
    return _cut(" ".join(_bare(text, rules).split()), rules.arguments_chars)


def _quoted(value: Any) -> str:
    """Return an argument's value as JSON, whatever it is."""
    if isinstance(value, str):
        return f'"{value}"'
    return "null" if value is None else show(value)


def _behaviour(text: str, speaker: str | None) -> list[Message]:
    # Once more, for what stands side by side now.
    content = strip_memory(text).strip()
    return [Message(role="behaviour", content=content, speaker=speaker)] if content else []


def _bare(text: Any, rules: Rules) -> str:
    """Return what an agent thought or a tool said, without what does not belong to it.

    Raises:
        ConfigError: A profile failed.
    """
    return strip(_clean(show(text)), "behaviour", rules.profiles).text.strip()


def _clean(text: str) -> str:
    """Return *text* as it can be stored."""
    return text if text.isprintable() else _UNFIT.sub("", _ANSI.sub("", text))


def _cut(text: str, limit: int) -> str:
    left_out = len(text) - limit
    return f"{text[:limit].rstrip()} … [{left_out} characters left out]" if left_out > 0 else text
