"""Anthropic's format: the answer is the input of a tool that the model must call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gralkord.providers.base import ChatMessage, Usage
from gralkord.providers.formats.base import (
    SILENCE,
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
from gralkord.providers.structured import Answer

# A limit must be sent. All models of today can write that much.
USUAL_LIMIT: Final = 8_192
THINKING_TOKENS: Final = 4_096
_REASONS: Final[Mapping[Any, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


@dataclass(frozen=True, slots=True)
class AnthropicFormat:
    """``/messages``; implements `ChatFormat`."""

    model: str
    options: Json = field(default_factory=dict)
    how: How = "tools"
    thinking: bool = False
    most_tokens: int | None = None
    usual_limit: int | None = USUAL_LIMIT

    def request(self, ask: Ask) -> Request:
        """Return the request for *ask*."""
        messages = ask.spoken(self.how)
        system = "\n\n".join(turn.content for turn in messages if turn.role == "system")
        turns = [turn for turn in messages if turn.role != "system"]
        limit = ask.max_tokens or USUAL_LIMIT
        body: Json = {"model": self.model}
        if self.how == "tools":
            body["tools"] = [
                {
                    "name": ask.name,
                    "description": "Give the answer.",
                    "input_schema": ask.schema.model_json_schema(),
                }
            ]
            # A model that thinks may not be made to call a tool, only be offered one.
            choice = {"type": "auto"} if self.thinking else {"type": "tool", "name": ask.name}
            body["tool_choice"] = choice
        if self.thinking:
            body["thinking"] = {"type": "enabled", "budget_tokens": THINKING_TOKENS}
            limit += THINKING_TOKENS
        if system and turns:
            body["system"] = sendable(system)
        body["messages"] = [_turn(turn) for turn in turns or [ChatMessage("user", system)]]
        body["max_tokens"] = min(limit, self.most_tokens or limit)
        return Request("/messages", merged(body, self.options))

    def reply(self, body: Any) -> Reply:
        """Read a message."""
        parts = [part for part in body["content"] if isinstance(part, dict)]
        said = "".join(part["text"] for part in parts if part.get("type") == "text")
        used = [part["input"] for part in parts if part.get("type") == "tool_use"]
        reason = _REASONS.get(body.get("stop_reason"))
        text = json.dumps(used[0], ensure_ascii=False) if used else said
        if used and not used[0] and reason == "length":
            text = ""  # the tool's input was cut off, which reads as an empty one
        refusal = (said or "(no words)") if body.get("stop_reason") == "refusal" else None
        return Reply(Answer(text, reason), refusal)

    def usage(self, body: Any) -> Usage:
        """Return what the call has used, as far as *body* says."""
        reported = body.get("usage") if isinstance(body, dict) else None
        cached = number(reported, "cache_read_input_tokens")
        fresh = number(reported, "input_tokens") + number(reported, "cache_creation_input_tokens")
        return Usage(1, fresh + cached, number(reported, "output_tokens"), cached)

    def without(self, complaint: str) -> AnthropicFormat | None:
        """Return a format without what the server's *complaint* names, if it names something."""
        most = re.search(r"max_tokens: \d+ > (\d+)", complaint)
        if most and self.most_tokens is None:
            return replace(self, most_tokens=int(most[1]))
        if is_too_long(complaint):
            return None
        if (options := pruned(self.options, complaint)) is not None:
            return replace(self, options=options)
        if self.thinking and re.search("thinking|budget_tokens", complaint):
            return replace(self, thinking=False)
        if self.how == "tools" and re.search("tool|input_schema", complaint):
            return self.simpler()
        return None

    def simpler(self) -> AnthropicFormat | None:
        """Return a format that asks less of the server, if there is one."""
        return replace(self, how="text") if self.how == "tools" else None


def _turn(message: ChatMessage) -> Json:
    text = sendable(message.content)
    content: list[Json] = [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": image.media_type, "data": encoded(image)},
        }
        for image in message.images
    ]
    return {
        "role": message.role,
        "content": [*content, {"type": "text", "text": text if text.strip() else SILENCE}],
    }
