"""What is ingested becomes turns of a session of its own, each with an id that follows from it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gralkord.errors import InvalidInput
from gralkord.models.ingest import Ingest, IngestKind, Said
from gralkord.models.pieces import pieces
from gralkord.models.places import place_turn_id
from gralkord.models.turns import MAX_MESSAGES, MAX_TURN_BYTES, Capture, Message
from gralkord.wire import read_model

TURN_CHARS: Final = 8_000
MAX_TURNS: Final = 1_000
# Stands for the agent where none is named.
NO_AGENT: Final = "ingest"

_NAMES: Final[Mapping[IngestKind, str]] = {"document": "document", "structured_record": "record"}
_SPEAKER_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class Ingested:
    """Something to ingest, as it is captured.

    Attributes:
        kind: What it is.
        description: What it is and where it is from, in words.
        turns: Its words, each turn with its id; without its time where it names none.
        id: The producer's id.
        version: Stands for the words of all turns and their places.
        offset: Where in the source it stands; each turn's own is made of it.
    """

    kind: IngestKind
    description: str
    turns: tuple[Capture, ...]
    id: str | None
    version: str
    offset: str

    @property
    def session(self) -> str:
        """The session that it is."""
        return self.turns[0].session


def read_ingest(ingest: Ingest, new_id: str) -> Ingested:
    """Return the turns that something to ingest is cut into.

    Args:
        ingest: What came.
        new_id: Stands for its id where it has neither one nor a source.

    Raises:
        InvalidInput: A message of a conversation is none, or has no speaker; or it would be too
            many turns, or too long ones.
    """
    parts = list(_parts(ingest))
    if not parts:
        raise InvalidInput("content: has no words", field="content")
    if len(parts) > MAX_TURNS:
        raise InvalidInput(
            f"content: it would be {len(parts)} turns, the limit is {MAX_TURNS} turns",
            field="content",
            limit=MAX_TURNS,
            hint="hand it over in parts, each with an offset of its own",
        )
    known = ingest.id if ingest.source is None else None
    name = known or new_id
    turns = tuple(_turn(ingest, name, number, part) for number, part in enumerate(parts, 1))
    return Ingested(
        ingest.kind,
        ingest.source_description,
        turns,
        ingest.id or (new_id if ingest.source is None else None),
        _digest("version", *(turn.turn_id or "" for turn in turns)),
        ingest.offset or "",
    )


def place_of(source: str, offset: str, number: int) -> tuple[str, str]:
    """Return the place of a turn of something that was ingested.

    Args:
        source: What it was taken from.
        offset: Where in that it stands as a whole; empty if it is all of it.
        number: Which turn of it, from 1.
    """
    return source, f"{offset}#{number}"


def _turn(ingest: Ingest, name: str, number: int, messages: list[Message]) -> Capture:
    agent = ingest.agent or NO_AGENT
    place = (ingest.source or "", ingest.offset or "") if ingest.source else ("", name)
    first = next((one for one in messages if one.role == "user"), messages[0])
    size = sum(len(message.content.encode()) for message in messages)
    if size > MAX_TURN_BYTES:
        raise InvalidInput(
            f"content: {size} bytes that cannot be parted, the limit is {MAX_TURN_BYTES} bytes",
            field="content",
            limit=MAX_TURN_BYTES,
        )
    source, offset = place_of(ingest.source, place[1], number) if ingest.source else (None, None)
    turn = Capture(
        session=f"ingest:{_digest('session', ingest.operator, agent, *place)}",
        operator=ingest.operator,
        agent=agent,
        user=first.speaker or agent,
        turn=messages,
        lenses=[ingest.lens] if ingest.lens else [],
        event_time=ingest.event_time,
        source=source,
        offset=offset,
        metadata=ingest.metadata,
    )
    turn_id = place_turn_id(turn) or f"ingest-{_digest('turn', name, str(number))}"
    return turn.model_copy(update={"turn_id": turn_id})


def _parts(ingest: Ingest) -> Iterator[list[Message]]:
    if ingest.kind == "conversation":
        yield from _conversation(ingest)
        return
    speaker = ingest.source or _NAMES[ingest.kind]
    content = ingest.content
    if ingest.kind == "structured_record":
        texts = _record(content)
    else:
        texts = pieces(str(content), TURN_CHARS, headings=True)
    for text in texts:
        if text.strip():
            yield [Message(role="user", content=text, speaker=speaker)]


def _record(content: Any) -> Iterator[str]:
    """Yield a record as texts: whole, or so that each is a record itself, one member a line."""
    value = content
    if isinstance(content, str):
        if len(content) <= TURN_CHARS:
            yield content
            return
        try:
            value = orjson.loads(content)
        except orjson.JSONDecodeError:
            value = None
    if isinstance(value, list):
        yield from _joined((_json(one) for one in value), "[]")
    elif isinstance(value, dict):
        yield from _joined((f"{_json(name)}: {_json(one)}" for name, one in value.items()), "{}")
    else:
        yield from pieces(content, TURN_CHARS)


def _joined(members: Iterable[str], ends: str) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for member in members:
        if held and size + len(member) > TURN_CHARS - 4:
            yield f"{ends[0]}\n" + ",\n".join(held) + f"\n{ends[1]}"
            held, size = [], 0
        held.append(member)
        size += len(member) + 2  # a comma and a line feed
    yield f"{ends[0]}\n" + ",\n".join(held) + f"\n{ends[1]}"


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _conversation(ingest: Ingest) -> Iterator[list[Message]]:
    """Yield the messages of a conversation in turns.

    Where it tells what the agent did, each turn begins with what somebody else says: what is made
    of that is made of one turn. Else a turn is as long as a chapter of a document.
    """
    messages = list(_messages(ingest))
    acts = any(message.role == "behaviour" for message in messages)
    turn: list[Message] = []
    size = 0
    for message in messages:
        full = size + len(message.content) > TURN_CHARS or len(turn) >= MAX_MESSAGES
        begins = acts and message.role == "user" and turn and turn[-1].role != "user"
        if turn and (full or begins):
            yield turn
            turn, size = [], 0
        turn.append(message)
        size += len(message.content)
    if turn:
        yield turn


def _messages(ingest: Ingest) -> Iterator[Message]:
    content = ingest.content
    said = _lines(content) if isinstance(content, str) else _listed(content)
    for path, one in said:
        if not one.content.strip():
            continue
        mine = one.role in {"assistant", "behaviour"}
        speaker = one.speaker or (ingest.agent if mine else None)
        if speaker is None:
            raise InvalidInput(
                f"{path}speaker: is missing",
                field=f"{path}speaker",
                hint="name who says it; of what the agent says, `agent` does" if mine else None,
            )
        role = one.role or ("assistant" if speaker == ingest.agent else "user")
        yield Message(role=role, content=one.content, speaker=speaker)


def _listed(content: Any) -> Iterator[tuple[str, Said]]:
    for number, raw in enumerate(content):
        within = f"content.{number}"
        yield f"{within}.", read_model(Said, raw, within=within)


def _lines(text: str) -> Iterator[tuple[str, Said]]:
    """Yield what stands in lines of ``Speaker: words``; a line without a speaker goes on."""
    speaker, words = "", list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if found := _spoken(line):
            if speaker:
                yield "content.", Said(speaker=speaker, content="\n".join(words))
            speaker, words = found[0], [found[1]]
        elif speaker:
            words.append(line)
        elif line.strip():
            raise InvalidInput(
                f"content: line {number} names no speaker",
                field="content",
                hint="write lines of `Speaker: words`, or give a list of messages",
            )
    if speaker:
        yield "content.", Said(speaker=speaker, content="\n".join(words).rstrip())


def _spoken(line: str) -> tuple[str, str] | None:
    """Return who speaks in a line, and the words.

    Who it is stands in front of the first colon, if that is short and a blank or nothing follows.
    """
    name, colon, words = line.partition(":")
    name = name.strip()
    if not colon or not 0 < len(name) <= _SPEAKER_CHARS or (words and not words[0].isspace()):
        return None
    return name, words.lstrip()


def _digest(*parts: str) -> str:
    # No id has a control character, so that no two lists of them are joined to the same text.
    return hashlib.blake2b("\x00".join(parts).encode(), digest_size=16).hexdigest()
