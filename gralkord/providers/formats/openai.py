"""OpenAI's format, which vLLM, llama.cpp, LM Studio and most gateways speak too."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
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
from gralkord.providers.structured import Answer

HOWS: Final[tuple[How, ...]] = ("json_schema", "tools", "json_object", "text")
_COMPLAINTS: Final[Mapping[How, str]] = {
    "json_schema": "response_format|json_schema|schema|structured",
    "tools": "tool|function",
    "json_object": "response_format|json_object",
}


@dataclass(frozen=True, slots=True)
class OpenAIFormat:
    """``/chat/completions``; implements `ChatFormat`.

    Attributes:
        limit_name: What the server calls the limit of an answer's length; empty: it takes none.
    """

    model: str
    options: Json = field(default_factory=dict)
    how: How = HOWS[0]
    limit_name: str = "max_tokens"
    usual_limit: int | None = None

    def request(self, ask: Ask) -> Request:
        """Return the request for *ask*."""
        turns = [_turn(message) for message in ask.spoken(self.how)]
        body: Json = {"model": self.model, "messages": turns}
        if ask.max_tokens and self.limit_name:
            body[self.limit_name] = ask.max_tokens
        schema = ask.schema.model_json_schema()
        if self.how == "json_schema":
            wanted = {"name": ask.name, "schema": schema, "strict": False}
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        elif self.how == "tools":
            function = {"name": ask.name, "description": "Give the answer.", "parameters": schema}
            body["tools"] = [{"type": "function", "function": function}]
            body["tool_choice"] = {"type": "function", "function": {"name": ask.name}}
        elif self.how == "json_object":
            body["response_format"] = {"type": "json_object"}
        return Request("/chat/completions", merged(body, self.options))

    def reply(self, body: Any) -> Reply:
        """Read a chat completion."""
        choice = body["choices"][0]
        message = choice["message"]
        text = _text(message.get("content"))
        calls = message.get("tool_calls")
        if calls:
            arguments = calls[0]["function"]["arguments"]
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        reason = choice.get("finish_reason")
        reason = "stop" if reason in {"tool_calls", "function_call"} else reason
        refusal = message.get("refusal")
        return Reply(
            Answer(text, reason if isinstance(reason, str) else None),
            str(refusal) if refusal else None,
            ignored=self.how == "tools" and not calls,
        )

    def usage(self, body: Any) -> Usage:
        """Return what the call has used, as far as *body* says."""
        reported = body.get("usage") if isinstance(body, dict) else None
        details = reported.get("prompt_tokens_details") if isinstance(reported, dict) else None
        return Usage(
            1,
            number(reported, "prompt_tokens"),
            number(reported, "completion_tokens"),
            number(details, "cached_tokens"),
        )

    def without(self, complaint: str) -> OpenAIFormat | None:
        """Return a format without what the server's *complaint* names, if it names something."""
        if (limit_name := self._limit_after(complaint)) is not None:
            return replace(self, limit_name=limit_name)
        if is_too_long(complaint):
            return None
        if (options := pruned(self.options, complaint)) is not None:
            return replace(self, options=options)
        if self.how != "text" and re.search(_COMPLAINTS[self.how], complaint):
            return self.simpler()
        return None

    def _limit_after(self, complaint: str) -> str | None:
        """Return how the limit of an answer is to be called after *complaint*, if it is about that.

        Where it is more than the model can write, or is counted into its context, none is sent:
        then the server takes what there is.
        """
        if not self.limit_name:
            return None
        if "max_completion_tokens" in complaint and self.limit_name == "max_tokens":
            return "max_completion_tokens"
        counted = "context length" in complaint and "completion" in complaint
        return "" if counted or self.limit_name in complaint else None

    def simpler(self) -> OpenAIFormat | None:
        """Return a format that asks less of the server, if there is one."""
        place = HOWS.index(self.how) + 1
        return replace(self, how=HOWS[place]) if place < len(HOWS) else None


def _turn(message: ChatMessage) -> Json:
    text = sendable(message.content)
    if not message.images:
        return {"role": message.role, "content": text}
    shown = [
        {
            "type": "image_url",
            "image_url": {"url": f"data:{image.media_type};base64,{encoded(image)}"},
        }
        for image in message.images
    ]
    return {"role": message.role, "content": [{"type": "text", "text": text}, *shown]}


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else "" if content is None else json.dumps(content)
