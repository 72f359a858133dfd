"""Ollama's own format: unlike its OpenAI-compatible one it lets thinking be switched off."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gralkord.providers.base import ChatMessage, Usage
from gralkord.providers.formats.base import (
    Ask,
    How,
    Json,
    Reply,
    Request,
    encoded,
    is_too_long,
    merged,
    number,
    pruned,
    sendable,
)
from gralkord.providers.formats.usual import OLLAMA_CONTEXT
from gralkord.providers.structured import Answer

LEAST_CHARACTERS_PER_TOKEN: Final = 3
ANSWER_TOKENS: Final = 4_096
MOST_CONTEXT: Final = 131_072
HOWS: Final[tuple[How, ...]] = ("json_schema", "json_object", "text")


@dataclass(frozen=True, slots=True)
class OllamaFormat:
    """``/api/chat``; implements `ChatFormat`.

    Attributes:
        thinking: Whether the model may think; None: the server does not know of that.
    """

    model: str
    options: Json = field(default_factory=dict)
    how: How = HOWS[0]
    thinking: bool | None = False
    usual_limit: int | None = None

    def request(self, ask: Ask) -> Request:
        """Return the request for *ask*."""
        turns = [_turn(message) for message in ask.spoken(self.how)]
        body: Json = {"model": self.model, "messages": turns, "stream": False}
        if self.thinking is not None:
            body["think"] = self.thinking
        if self.how == "json_schema":
            body["format"] = ask.schema.model_json_schema()
        elif self.how == "json_object":
            body["format"] = "json"
        if ask.max_tokens:
            body["options"] = {"num_predict": ask.max_tokens}
        body = merged(body, self.options)
        chosen = body.get("options")
        if isinstance(chosen, dict) and chosen.get("num_ctx") == OLLAMA_CONTEXT:
            body["options"] = {**chosen, "num_ctx": _context(ask)}
        return Request("/api/chat", body)

    def reply(self, body: Any) -> Reply:
        """Read an answer."""
        text = body["message"]["content"]
        if not isinstance(text, str):
            raise TypeError("the answer is no text")
        reason = body.get("done_reason")
        return Reply(Answer(text, reason if isinstance(reason, str) else None))

    def usage(self, body: Any) -> Usage:
        """Return what the call has used, as far as *body* says."""
        return Usage(1, number(body, "prompt_eval_count"), number(body, "eval_count"))

    def without(self, complaint: str) -> OllamaFormat | None:
        """Return a format without what the server's *complaint* names, if it names something."""
        if is_too_long(complaint):
            return None
        if (options := pruned(self.options, complaint)) is not None:
            return replace(self, options=options)
        if self.thinking is not None and re.search("think", complaint):
            return replace(self, thinking=None)
        if self.how != "text" and re.search("format|schema|grammar", complaint):
            return self.simpler()
        return None

    def simpler(self) -> OllamaFormat | None:
        """Return a format that asks less of the server, if there is one."""
        place = HOWS.index(self.how) + 1
        return replace(self, how=HOWS[place]) if place < len(HOWS) else None


def _context(ask: Ask) -> int:
    """Return a context that holds the prompt and an answer.

    Ollama cuts longer prompts without a word; it loads the model anew for each other context, so
    these are few.
    """
    characters = sum(len(message.content) for message in ask.messages)
    needed = characters // LEAST_CHARACTERS_PER_TOKEN + ANSWER_TOKENS
    context = OLLAMA_CONTEXT
    while context < min(needed, MOST_CONTEXT):
        context *= 2
    return context


def _turn(message: ChatMessage) -> Json:
    turn: Json = {"role": message.role, "content": sendable(message.content)}
    if message.images:
        turn["images"] = [encoded(image) for image in message.images]
    return turn
