"""What all formats of requests to language models have in common."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, Self

from pydantic import BaseModel

from gralkord.providers.base import ChatMessage, Image, Usage
from gralkord.providers.structured import Answer, schema_instruction

Json = dict[str, Any]
# How an answer is made to fit: the server keeps to the schema, a tool is called with it, any JSON
# object is written, or the model is asked in words.
How = Literal["json_schema", "tools", "json_object", "text"]

# What an empty text is sent as: some servers refuse a message that says nothing.
SILENCE: Final = "(nothing)"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a language model is asked.

    Attributes:
        messages: The conversation so far.
        schema: What the answer must fit.
        max_tokens: Limit of the answer's length; None leaves it to the provider.
        spell: Whether to spell the schema out in words even where the server is given it.
    """

    messages: Sequence[ChatMessage]
    schema: type[BaseModel]
    max_tokens: int | None = None
    spell: bool = False

    @property
    def name(self) -> str:
        """The schema's name, of characters that every provider takes."""
        return re.sub(r"[^A-Za-z0-9_-]", "_", self.schema.__name__)[:64]

    def spoken(self, how: How) -> list[ChatMessage]:
        """Return the messages to send, with the schema in words unless *how* carries it."""
        if how in {"json_schema", "tools"} and not self.spell:
            return list(self.messages)
        *before, last = self.messages
        asked = schema_instruction(self.schema)
        if last.role == "user":
            return [*before, ChatMessage("user", f"{last.content}\n\n{asked}", last.images)]
        return [*self.messages, ChatMessage("user", asked)]


@dataclass(frozen=True, slots=True)
class Request:
    """What is posted, and to which path below the base URL."""

    path: str
    body: Json


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back.

    Attributes:
        answer: What the model wrote.
        refusal: Its words, or the provider's, where it declines to answer.
        ignored: Whether the server took no notice of how the schema was given.
    """

    answer: Answer
    refusal: str | None = None
    ignored: bool = False


class ChatFormat(Protocol):
    """How one provider is asked for an answer that fits a schema."""

    @property
    def how(self) -> How:
        """How the answer is made to fit."""
        ...

    @property
    def usual_limit(self) -> int | None:
        """The limit of an answer's length that is sent where none is given."""
        ...

    def request(self, ask: Ask) -> Request:
        """Return the request for *ask*."""
        ...

    def reply(self, body: Any) -> Reply:
        """Read the body of a 200.

        Raises:
            ValueError: It is no answer of a language model; so say LookupError, TypeError and
                AttributeError.
        """
        ...

    def usage(self, body: Any) -> Usage:
        """Return what the call has used, as far as *body* says; it never fails."""
        ...

    def without(self, complaint: str) -> Self | None:
        """Return a format without what the server's *complaint* names, if it names something."""
        ...

    def simpler(self) -> Self | None:
        """Return a format that asks less of the server, if there is one."""
        ...


def merged(fields: Mapping[str, Any], more: Mapping[str, Any]) -> Json:
    """Return *fields* with *more* over them, objects inside merged as well."""
    result = dict(fields)
    for name, value in more.items():
        inner = result.get(name)
        if isinstance(inner, Mapping) and isinstance(value, Mapping):
            result[name] = merged(inner, value)
        else:
            result[name] = value
    return result


def pruned(options: Mapping[str, Any], complaint: str) -> Json | None:
    """Return *options* without the one that *complaint* names; None if it names none of them."""
    said = _plain(complaint)
    for name, value in options.items():
        if isinstance(value, Mapping) and (inner := pruned(value, complaint)) is not None:
            rest = {key: kept for key, kept in options.items() if key != name}
            return rest | ({name: inner} if inner else {})
        # What is said of thinking goes by many names.
        thinks = "think" in name.lower() or "reasoning" in name.lower()
        named = re.search(rf"(?<![a-z0-9]){re.escape(_plain(name))}(?![a-z0-9])", said)
        if named or (thinks and re.search("think|reasoning", said)):
            return {key: kept for key, kept in options.items() if key != name}
    return None


def is_too_long(complaint: str) -> bool:
    """Return whether the prompt is longer than the model can read: no other form would help."""
    return re.search("context.?(length|window)|too long|token count", complaint) is not None


def sendable(text: str) -> str:
    """Return *text* as valid Unicode."""
    return text.encode("utf-8", "replace").decode()


def encoded(image: Image) -> str:
    """Return the file in base64."""
    return base64.b64encode(image.data).decode()


def number(reported: Any, name: str) -> int:
    """Return a count that a server reports; 0 if it does not."""
    value = reported.get(name) if isinstance(reported, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


def _plain(text: str) -> str:
    return text.lower().replace("_", "")
