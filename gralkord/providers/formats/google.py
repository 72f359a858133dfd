"""Google's format: ``generateContent`` with a response schema of its own kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

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
from gralkord.providers.formats.google_schema import google_schema
from gralkord.providers.structured import Answer

HOWS: Final[tuple[How, ...]] = ("json_schema", "json_object", "text")
_REASONS: Final[Mapping[Any, str]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
}


@dataclass(frozen=True, slots=True)
class GoogleFormat:
    """``/models/…:generateContent``; implements `ChatFormat`."""

    model: str
    options: Json = field(default_factory=dict)
    how: How = HOWS[0]
    usual_limit: int | None = None
    limited: bool = True

    def request(self, ask: Ask) -> Request:
        """Return the request for *ask*."""
        schema = google_schema(ask.schema.model_json_schema())
        how = "json_object" if self.how == "json_schema" and schema is None else self.how
        messages = ask.spoken(how)
        system = "\n\n".join(turn.content for turn in messages if turn.role == "system")
        turns = [turn for turn in messages if turn.role != "system"]
        settings: Json = {}
        if how != "text":
            settings["responseMimeType"] = "application/json"
        if how == "json_schema":
            settings["responseSchema"] = schema
        if ask.max_tokens and self.limited:
            settings["maxOutputTokens"] = ask.max_tokens
        body: Json = {
            "contents": [_turn(turn) for turn in turns or [ChatMessage("user", system)]],
            "generationConfig": settings,
        }
        if system and turns:
            body["systemInstruction"] = {"parts": [{"text": sendable(system)}]}
        name = quote(self.model.removeprefix("models/"), safe="")
        return Request(f"/models/{name}:generateContent", merged(body, self.options))

    def reply(self, body: Any) -> Reply:
        """Read an answer; a prompt that is blocked has none."""
        blocked = (body.get("promptFeedback") or {}).get("blockReason")
        if blocked and not body.get("candidates"):
            return Reply(Answer("", "content_filter"), f"the prompt is blocked: {blocked}")
        candidate = body["candidates"][0]
        parts = (candidate.get("content") or {}).get("parts") or []
        text = "".join(part.get("text") or "" for part in parts if not part.get("thought"))
        return Reply(Answer(text, _REASONS.get(candidate.get("finishReason"))))

    def usage(self, body: Any) -> Usage:
        """Return what the call has used, as far as *body* says."""
        reported = body.get("usageMetadata") if isinstance(body, dict) else None
        written = number(reported, "candidatesTokenCount") + number(reported, "thoughtsTokenCount")
        cached = number(reported, "cachedContentTokenCount")
        return Usage(1, number(reported, "promptTokenCount"), written, cached)

    def without(self, complaint: str) -> GoogleFormat | None:
        """Return a format without what the server's *complaint* names, if it names something."""
        if is_too_long(complaint):
            return None
        if (options := pruned(self.options, complaint)) is not None:
            return replace(self, options=options)
        if self.limited and re.search("max_?output_?tokens", complaint, re.IGNORECASE):
            return replace(self, limited=False)
        named = re.search("schema|response_?mime_?type|JSON mode", complaint, re.IGNORECASE)
        return self.simpler() if named else None

    def simpler(self) -> GoogleFormat | None:
        """Return a format that asks less of the server, if there is one."""
        place = HOWS.index(self.how) + 1
        return replace(self, how=HOWS[place]) if place < len(HOWS) else None


def _turn(message: ChatMessage) -> Json:
    text = sendable(message.content)
    shown = [
        {"inlineData": {"mimeType": image.media_type, "data": encoded(image)}}
        for image in message.images
    ]
    return {
        "role": "model" if message.role == "assistant" else "user",
        "parts": [{"text": text if text.strip() else SILENCE}, *shown],
    }
