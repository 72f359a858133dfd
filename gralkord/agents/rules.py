"""How traces become messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gralkord.agents.profiles import DEFAULT_PROFILES, Profile
from gralkord.errors import ConfigError

# Tools that answer from memory; what they found must not be captured again.
_MEMORY_TOOLS: Final = frozenset({"memory_search", "memory_recall", "recall_memory"})
_OURS: Final = ("gralkord", "gralkor")


@dataclass(frozen=True, slots=True)
class Rules:
    """How traces become messages.

    Attributes:
        profiles: What is stripped from messages, besides injected memory, which always is.
        thought_chars: Characters kept of a thought.
        arguments_chars: Characters kept of a tool's arguments.
        result_chars: Characters kept of a tool's result, and of a failure.
        memory_tools: Tools whose results are recalled memory, so are left out; those whose names
            have ``gralkord`` in them are, too.
    """

    profiles: tuple[Profile, ...] = DEFAULT_PROFILES
    thought_chars: int = 4_000
    arguments_chars: int = 500
    result_chars: int = 2_000
    memory_tools: frozenset[str] = _MEMORY_TOOLS

    def __post_init__(self) -> None:
        for name in ("thought_chars", "arguments_chars", "result_chars"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be positive", field=name)

    def recalls(self, tool: str) -> bool:
        """Return whether what that tool answers comes from memory."""
        folded = tool.casefold()
        tools = {tool.casefold() for tool in self.memory_tools}
        return folded in tools or any(name in folded for name in _OURS)


DEFAULT_RULES: Final = Rules()
