"""What happens in a turn, whatever framework tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gralkord.agents.reading import look, speaker_of, text_at
from gralkord.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Said:
    """Words of somebody the agent talks to.

    Attributes:
        speaker: Who, where that is not the turn's `user`.
    """

    text: str
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Thought:
    """What the agent told itself.

    Attributes:
        speaker: Which agent, where that is not the turn's `agent`; so in all events.
    """

    text: str
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The agent uses a tool.

    Attributes:
        arguments: Plain data, or the text that the model wrote.
        id: What its result refers to.
    """

    name: str | None
    arguments: Any = None
    id: str | None = None
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered.

    Attributes:
        result: A text or plain data.
        name: Name of the tool, if there is no call that says it.
        id: Which call this answers.
        failed: The tool reports an error.
    """

    result: Any
    name: str | None = None
    id: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What the agent said in the end."""

    text: str
    speaker: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """The turn ended without an answer.

    Attributes:
        error: An exception, a text or plain data.
    """

    error: Any


Event = Said | Thought | ToolCall | ToolResult | Answer | Failure
EVENTS: Final = (Said, Thought, ToolCall, ToolResult, Answer, Failure)


def read_events(trace: Iterable[Any]) -> Iterator[Event]:
    """Yield gralkord's own events; each is one already, or the same as a mapping.

    A mapping names its kind under ``event``: ``said``, ``thought``, ``tool_call``, ``tool_result``,
    ``answer`` or ``failure``. Other kinds are left out: telemetry is no memory.

    Raises:
        InvalidInput: Something is no event, or a field is not what it has to be.
    """
    for number, thing in enumerate(trace):
        place = f"events[{number}]"
        if isinstance(thing, EVENTS):
            yield thing
            continue
        kind = look(thing, "event") if isinstance(thing, Mapping) else None
        if not isinstance(kind, str):
            raise InvalidInput(
                f"{place}: neither an event nor a mapping that names one under 'event'",
                field=place,
            )
        if kind in _READERS:
            yield _READERS[kind](thing, place)


def _read_said(thing: Any, place: str) -> Event:
    return Said(text_at(thing, "text", place), speaker_of(thing, place, "speaker"))


def _read_thought(thing: Any, place: str) -> Event:
    return Thought(text_at(thing, "text", place), speaker_of(thing, place, "speaker"))


def _read_call(thing: Any, place: str) -> Event:
    return ToolCall(
        text_at(thing, "name", place),
        look(thing, "arguments"),
        text_at(thing, "id", place) or None,
        speaker_of(thing, place, "speaker"),
    )


def _read_result(thing: Any, place: str) -> Event:
    return ToolResult(
        look(thing, "result"),
        text_at(thing, "name", place) or None,
        text_at(thing, "id", place) or None,
        look(thing, "failed") is True,
    )


def _read_answer(thing: Any, place: str) -> Event:
    return Answer(text_at(thing, "text", place), speaker_of(thing, place, "speaker"))


def _read_failure(thing: Any, place: str) -> Event:
    del place
    return Failure(look(thing, "error"))


_READERS: Final[dict[str, Callable[[Any, str], Event]]] = {
    "said": _read_said,
    "thought": _read_thought,
    "tool_call": _read_call,
    "tool_result": _read_result,
    "answer": _read_answer,
    "failure": _read_failure,
}
