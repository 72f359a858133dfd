"""How the scripted model names and sums up a community: by the facts themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gralkord.testing.prompts import Prompt

NAME_WORDS: Final = 4
SUMMARY_FACTS: Final = 3


def community_summary(prompt: Prompt) -> dict[str, Any]:
    """Answer CommunitySummary: named after the first fact, summed up as the first few."""
    facts = [str(fact) for fact in prompt.literal("FACTS") or ()]
    name = " ".join(facts[0].split()[:NAME_WORDS]) if facts else "nothing"
    return {"name": name.rstrip("."), "summary": " ".join(facts[:SUMMARY_FACTS])}
