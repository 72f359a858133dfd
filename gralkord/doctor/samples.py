"""What models are asked in order to see whether they are fit for their role."""

from __future__ import annotations

import struct
import zlib
from typing import Final, Literal

from pydantic import BaseModel, Field

from gralkord.providers.base import ChatMessage, Image

CHARACTERS_PER_TOKEN: Final = 4

Relation = Literal["LIVES_IN", "WORKS_WITH", "OWNS"]


class SampleFact(BaseModel):
    """One thing that the message says of somebody."""

    subject: str = Field(description="Name of the person, as it is written.")
    relation: Relation = Field(description="What is said.")
    object: str = Field(description="Name of the other person, place or thing.")
    since: str | None = Field(None, description="Since when, as YYYY-MM-DD; null if not said.")


class DoctorSample(BaseModel):
    """Who is named in a message, and what it says of them."""

    people: list[str] = Field(description="Names of all people in the message.")
    facts: list[SampleFact] = Field(description="Everything that the message says of them.")


MESSAGE: Final = "On 3 May 2021 Ida moved to Bergen. She works with Tomas, who owns a ferry."
PEOPLE: Final = ("Ida", "Tomas")
PLACE: Final = "Bergen"

CONVERSATION: Final = (
    ChatMessage("system", "You extract facts from messages. Answer with nothing but JSON."),
    ChatMessage(
        "user",
        f"Name all people in the message, and what it says of them.\n\nMESSAGE:\n{MESSAGE}",
    ),
)
# What a model should need for the answer, several times over.
MAX_TOKENS: Final = 2_048

# The second is near to the question, the others are not.
TEXTS: Final = (
    "The invoice of the printing house is overdue.",
    "Ida lives in Bergen.",
    "Neural networks are trained by gradient descent.",
)
QUESTION: Final = "Does Ida live in Bergen or in Oslo?"
BEST: Final = 1

FERRY: Final = "Lyngbris"
# What stands around the turns of a session in a prompt.
AROUND_CHARACTERS: Final = 8_192

COLOUR: Final = "red"
_SIDE: Final = 64


def understood(answer: DoctorSample) -> list[str]:
    """Return what the answer should name and does not."""
    named = {name.casefold() for name in answer.people}
    named |= {word.casefold() for fact in answer.facts for word in (fact.subject, fact.object)}
    return [name for name in (*PEOPLE, PLACE) if not any(name.casefold() in one for one in named)]


class DoctorRecollection(BaseModel):
    """What a long text says at its beginning."""

    ferry: str = Field(description="Name of the ferry that Tomas owns.")


def long_conversation(characters: int) -> tuple[ChatMessage, ...]:
    """Return a prompt of so many characters, with what is asked for at its beginning."""
    lines = [f"Tomas owns a ferry that is called {FERRY}."]
    number, size = 0, 0
    while size < characters:
        number += 1
        lines.append(f"On day {number} the water stood at {number * 37 % 101} centimetres.")
        size += len(lines[-1]) + 1
    text = "\n".join(lines)
    return (
        ChatMessage("system", "You look things up in texts. Answer with nothing but JSON."),
        ChatMessage("user", f"TEXT:\n{text}\n\nWhat is the ferry called that Tomas owns?"),
    )


def picture() -> Image:
    """Return an image that is red all over."""
    row = b"\0" + bytes((220, 20, 20)) * _SIDE
    header = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 2, 0, 0, 0)
    parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(row * _SIDE)))
    return Image("image/png", b"\x89PNG\r\n\x1a\n" + b"".join(parts) + _chunk(b"IEND", b""))


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def tokens_of_chat() -> tuple[int, int]:
    """Return how many tokens the sample of a language model takes at most, sent and written."""
    sent = sum(len(message.content) for message in CONVERSATION)
    sent += len(str(DoctorSample.model_json_schema()))
    # It is sent with a repair turn too, and then with the first answer.
    return 3 * sent // CHARACTERS_PER_TOKEN, 2 * MAX_TOKENS


def tokens_of_length(characters: int) -> tuple[int, int]:
    """Return how many tokens the long prompt takes, sent and written."""
    # Numbers take more than words.
    return characters // (CHARACTERS_PER_TOKEN - 1), MAX_TOKENS


def tokens_of_texts() -> int:
    """Return how many tokens the sample of an embedder or reranker takes."""
    return 2 * len(" ".join((*TEXTS, QUESTION))) // CHARACTERS_PER_TOKEN
