"""What the scripted model answers when it is to interpret memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gralkord.testing.prompts import Prompt

ASIDE: Final = "(by the way)"


def interpretation(prompt: Prompt) -> dict[str, Any]:
    """Return all memories but those that say of themselves that they are beside the point."""
    return {
        "relevant": [
            {"number": each["number"], "reason": f"{each['kind']} {each['number']}"}
            for each in prompt.literal("MEMORIES") or ()
            if ASIDE not in each["text"]
        ],
        "conflicting": [],
    }
