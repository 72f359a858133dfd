"""Metadata that channels and harnesses put around a message: ids, times, who wrote it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Stripped:
    """What is left of a text, and who wrote it, if what was stripped said so."""

    text: str
    speaker: str | None = None


# Only these labels, at the start of a message: a user may well paste JSON under a heading.
_LABELS: Final = (
    "Conversation info|Sender|Thread starter|Replied message|Reply target|Forwarded message context"
    "|Chat history since last reply|Location|Attachments"
)
_LABELLED: Final = re.compile(
    rf"\s*(?P<label>{_LABELS})(?: \(untrusted[^()\n]{{0,80}}\))?:[^\S\n]*\n"
    r"```(?:json)?[^\S\n]*\n(?P<body>.*?)\n?```[^\S\n]*(?:\n|$)",
    re.DOTALL,
)
_CONTEXT: Final = re.compile(
    r"\s*(?:Untrusted context \([^()\n]{0,120}\)|Conversation context \(untrusted[^()\n]{0,80}\)):"
    r"[^\n]*(?:\n(?!\s*\n)[^\n]*)*"
)
_STAMP: Final = re.compile(
    r"\s*\[(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\]\n]{0,32}\]"
    r"[^\S\n]*"
)
_CHANNEL: Final = re.compile(
    r"\s*\[(?:Telegram|WhatsApp|Signal|Discord|Slack|iMessage|Matrix|WebChat|Teams|LINE|Mattermost)"
    r" (?P<who>[^\]\n]{1,160}?) id:(?P<id>-?[\w@.:+]+)[^\]\n]{0,120}\][^\S\n]*"
)
_REPLY: Final = re.compile(r"\s*\[\[ ?reply_to(?:_current|: ?[^\]\n]{1,80}) ?\]\][^\S\n]*")
_MESSAGE_ID: Final = re.compile(r"[^\S\n]*\[message_id: ?[^\]\n]{1,80}\]")
_NUMBERS: Final = re.compile(r"[\d\s+-]+")


def strip_channel(text: str) -> Stripped:
    """Return *text* without the envelope of a messaging channel.

    The kinds of it: labelled JSON such as ``Sender (untrusted metadata):``, ``[Telegram Ann id:7
    …]``, ``[Mon 2026-03-02 08:15 CET]`` and ``[[reply_to_current]]`` at the start,
    ``[message_id: 7]`` at the end.
    """
    speaker = None
    position = 0
    while True:
        if found := _LABELLED.match(text, position):
            speaker = _sender(found["label"], found["body"]) or speaker
        elif found := _CHANNEL.match(text, position):
            # The negative ids are those of groups.
            speaker = speaker or (None if found["id"].startswith("-") else found["who"])
        else:
            found = next(filter(None, (p.match(text, position) for p in _PLAIN)), None)
        if not found:
            break
        position = found.end()
    left = text[position:]
    before, _, last = left.rstrip().rpartition("\n")
    return Stripped(before if _MESSAGE_ID.fullmatch(last) else left, speaker)


_PLAIN: Final = (_STAMP, _REPLY, _CONTEXT)


def _sender(label: str, body: str) -> str | None:
    """Return the name that a labelled block says, or nothing."""
    if label not in {"Sender", "Conversation info"}:
        return None
    try:
        said: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    names = ("name", "username") if label == "Sender" else ("sender_name", "sender")
    for name in names:
        value = said.get(name)
        # An id, of a person or of the program that sent it, is no name.
        ids = (said.get("id"), said.get("sender_id"), "openclaw-control-ui")
        if isinstance(value, str) and value not in ids and not _NUMBERS.fullmatch(value):
            return value
    return None
