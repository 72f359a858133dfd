"""The agent's side: what an agent did, as turns that can be captured."""

from gralkord.agents.events import Answer, Event, Failure, Said, Thought, ToolCall, ToolResult
from gralkord.agents.profiles import (
    DEFAULT_PROFILES,
    Profile,
    Stripped,
    pattern_profile,
    tag_profile,
)
from gralkord.agents.rules import Rules
from gralkord.agents.transcript import Shape, turn_of, turns_of

__all__ = [
    "DEFAULT_PROFILES",
    "Answer",
    "Event",
    "Failure",
    "Profile",
    "Rules",
    "Said",
    "Shape",
    "Stripped",
    "Thought",
    "ToolCall",
    "ToolResult",
    "pattern_profile",
    "tag_profile",
    "turn_of",
    "turns_of",
]
