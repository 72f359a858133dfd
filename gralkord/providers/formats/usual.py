"""What is sent to a model unless the settings say otherwise."""

from __future__ import annotations

import re
from typing import Any, Final

from gralkord.providers.specs import ModelSpec

OLLAMA_CONTEXT: Final = 16_384


def usual_options(spec: ModelSpec, *, thinking: bool = False) -> dict[str, Any]:
    """Return the fields that keep answers short and steady, as far as this model takes them.

    Args:
        spec: The model.
        thinking: Whether it may think before it answers.
    """
    if spec.role in {"embedder", "reranker"}:
        return {}
    match spec.provider.name:
        case "openai":
            return _openai(spec.model, thinking)
        case "google":
            return {"generationConfig": _google(spec.model, thinking)}
        case "ollama":
            # Its own is shorter than our prompts; longer ones get more, see `OllamaFormat`.
            return {"options": {"temperature": 0, "num_ctx": OLLAMA_CONTEXT}}
        case "anthropic" if thinking:
            return {}  # then it takes no other temperature than its own
        case _:
            return {"temperature": 0}


def _openai(model: str, thinking: bool) -> dict[str, Any]:
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", model)
    if version:
        number = (int(version[1]), int(version[2] or 0))
        if number >= (5, 0):
            least = "none" if number >= (5, 1) else "minimal"
            return {} if thinking else {"reasoning_effort": least}
    return {} if re.match(r"o\d", model) else {"temperature": 0}


def _google(model: str, thinking: bool) -> dict[str, Any]:
    """Models of version 3 are to be left at their own temperature; some cannot but think."""
    version = re.match(r"gemini-(\d+)", model)
    recent = version is not None and int(version[1]) >= 3
    steady = {} if recent else {"temperature": 0}
    if thinking or not ("flash" in model if recent else model.startswith("gemini-2.5-flash")):
        return steady
    least = {"thinkingLevel": "minimal"} if recent else {"thinkingBudget": 0}
    return steady | {"thinkingConfig": least}
