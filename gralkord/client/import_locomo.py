"""Read LoCoMo files: long dialogues of two people over many dated sessions.

A file holds one sample, or a list of them. A sample has a ``sample_id`` and a ``conversation`` with
``session_N`` (a list of turns ``{speaker, dia_id, text, blip_caption?}``) and
``session_N_date_time`` (``"1:56 pm on 8 May, 2023"``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import orjson
from pydantic import ValidationError

from gralkord.client.imports import ImportTurn, RejectedTurn, operator_tag
from gralkord.errors import InvalidInput
from gralkord.models import Capture, Message
from gralkord.wire import explain, json_fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# A turn a second: the sessions carry one time for all their turns, and order must survive.
TURN_STEP: Final = timedelta(seconds=1)

_SESSION = re.compile(r"session_(\d+)")
_DATE = re.compile(
    r"(\d{1,2}):(\d{2})\s*([ap])\.?m\.?\s+on\s+(\d{1,2})\s+([a-z]+),?\s+(\d{4})", re.IGNORECASE
)
_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One conversation of a file, its shape checked.

    Attributes:
        id: ``sample_id``, such as ``conv-26``.
        speakers: The two who talk.
        sessions: In order of their number.
        questions: ``qa`` as it stands in the file.
    """

    id: str
    speakers: tuple[str, ...]
    sessions: tuple[Session, ...]
    questions: tuple[Mapping[str, Any], ...]

    @property
    def turns(self) -> int:
        """How many turns the conversation has."""
        return sum(len(session.turns) for session in self.sessions)


@dataclass(frozen=True, slots=True)
class Session:
    """One dated session of a sample."""

    name: str
    date: datetime
    turns: tuple[DialogueTurn, ...]


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    """What one speaker says, photo caption included, and its ``dia_id``."""

    where: str
    speaker: str
    dia_id: str
    text: str


def read_samples(path: Path) -> list[Sample]:
    """Return the conversations in the LoCoMo file at *path*.

    Raises:
        InvalidInput: It cannot be read, is not JSON, or has not the shape; the message says where.
    """
    try:
        body = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}", field="file") from error
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(
            f"{path} is not JSON: {json_fault(body, error)}", field="file"
        ) from error
    items = content if isinstance(content, list) else [content]
    if not items:
        raise InvalidInput(f"{path} holds no conversation", field="file")
    try:
        return [
            _sample(item, path.stem, f"[{number}]." if isinstance(content, list) else "")
            for number, item in enumerate(items)
        ]
    except _ShapeError as error:
        raise InvalidInput(f"{path} is not a LoCoMo file: {error}", field="file") from error


def locomo_turns(
    sample: Sample, *, operator: str, agent: str, user: str | None = None
) -> Iterator[ImportTurn | RejectedTurn]:
    """Yield the turns of *sample*, in order, as captures for *operator*.

    Each keeps its speaker. Its time is its session's, a second more for each turn before it; its
    ``source`` is the sample's id, its ``offset`` the ``dia_id``.

    Args:
        sample: A conversation.
        operator: Whose memory it becomes.
        agent: The agent that the sessions are bound to.
        user: Whom the agent talks to; default: the speaker who is not the operator.
    """
    tag = operator_tag(operator)
    user = user or _other_speaker(sample.speakers, operator)
    for session in sample.sessions:
        for index, turn in enumerate(session.turns):
            try:
                capture = Capture(
                    session=f"{sample.id}/{session.name}@{tag}",
                    operator=operator,
                    agent=agent,
                    user=user,
                    turn=[Message(role="user", content=turn.text, speaker=turn.speaker)],
                    turn_id=f"{sample.id}:{turn.dia_id}@{tag}",
                    event_time=session.date + index * TURN_STEP,
                    source=sample.id,
                    offset=turn.dia_id,
                )
            except ValidationError as error:
                yield RejectedTurn(turn.where, explain(error, Capture).message)
            else:
                yield ImportTurn(turn.where, capture)


def parse_date(text: str) -> datetime:
    """Return the moment that a text such as ``1:56 pm on 8 May, 2023`` names, as UTC.

    Raises:
        ValueError: It is not of that form, or names no moment.
    """
    match = _DATE.fullmatch(text.strip())
    if not match or match[5].lower() not in _MONTHS:
        raise ValueError(f"{text[:64]!r} is not a date such as '1:56 pm on 8 May, 2023'")
    hour, minute, half, day, month, year = match.groups()
    if not 1 <= int(hour) <= 12:
        raise ValueError(f"{text[:64]!r}: there is no hour {hour} {half}m")
    return datetime(
        int(year),
        _MONTHS.index(month.lower()) + 1,
        int(day),
        int(hour) % 12 + (12 if half.lower() == "p" else 0),
        int(minute),
        tzinfo=UTC,
    )


class _ShapeError(ValueError):
    """The file has not the shape of a LoCoMo file."""


def _sample(item: Any, default_id: str, where: str) -> Sample:
    if not isinstance(item, dict) or not isinstance(item.get("conversation"), dict):
        raise _ShapeError(f"{where}conversation: an object is missing")
    conversation = item["conversation"]
    sample_id = item.get("sample_id", default_id)
    if not isinstance(sample_id, str) or not sample_id.strip():
        raise _ShapeError(f"{where}sample_id: must be a text that is not blank")
    numbers = sorted(int(match[1]) for key in conversation if (match := _SESSION.fullmatch(key)))
    if not numbers:
        raise _ShapeError(f"{where}conversation: it has no session_1")
    sessions = tuple(
        _session(conversation, f"session_{number}", f"{where}conversation.") for number in numbers
    )
    _check_distinct(sessions)
    questions = item.get("qa", [])
    if not isinstance(questions, list) or not all(isinstance(one, dict) for one in questions):
        raise _ShapeError(f"{where}qa: must be a list of objects")
    return Sample(sample_id, _speakers(conversation, sessions), sessions, tuple(questions))


def _check_distinct(sessions: tuple[Session, ...]) -> None:
    seen: dict[str, str] = {}
    for turn in (turn for session in sessions for turn in session.turns):
        if turn.dia_id in seen:
            raise _ShapeError(f"{turn.where}.dia_id: {turn.dia_id!r} is {seen[turn.dia_id]} too")
        seen[turn.dia_id] = turn.where


def _session(conversation: Mapping[str, Any], name: str, where: str) -> Session:
    turns = conversation[name]
    if not isinstance(turns, list):
        raise _ShapeError(f"{where}{name}: must be a list of turns")
    date = conversation.get(f"{name}_date_time")
    if not isinstance(date, str):
        raise _ShapeError(f"{where}{name}_date_time: is missing")
    try:
        moment = parse_date(date)
    except ValueError as error:
        raise _ShapeError(f"{where}{name}_date_time: {error}") from error
    read = (_turn(turn, f"{where}{name}[{index}]") for index, turn in enumerate(turns))
    return Session(name, moment, tuple(read))


def _turn(turn: Any, where: str) -> DialogueTurn:
    if not isinstance(turn, dict):
        raise _ShapeError(f"{where}: must be an object")
    for key in ("speaker", "dia_id", "text"):
        if not isinstance(turn.get(key), str):
            raise _ShapeError(f"{where}.{key}: a text is missing")
    text, caption = turn["text"].strip(), turn.get("blip_caption")
    if isinstance(caption, str) and caption.strip():
        text = f"{text} [photo: {caption.strip()}]".lstrip()
    return DialogueTurn(where, turn["speaker"], turn["dia_id"], text)


def _speakers(conversation: Mapping[str, Any], sessions: tuple[Session, ...]) -> tuple[str, ...]:
    named = (conversation.get("speaker_a"), conversation.get("speaker_b"))
    talking = (turn.speaker for session in sessions for turn in session.turns)
    every = [name for name in (*named, *talking) if isinstance(name, str) and name.strip()]
    if not every:
        raise _ShapeError("conversation: nobody says anything")
    return tuple(dict.fromkeys(every))


def _other_speaker(speakers: tuple[str, ...], operator: str) -> str:
    """Return the last of the first two speakers that is not *operator* himself."""
    others = [name for name in speakers[:2] if name.casefold() != operator.casefold()]
    return others[-1] if others else speakers[0]
