"""What is sent to a model unless the settings say otherwise."""

from __future__ import annotations

import re
from typing import Any, Final

from gralkord.providers.specs import ModelSpec

OLLAMA_CONTEXT: Final = 16_384


def usual_options(spec: ModelSpec) -> dict[str, Any]:
    """Return the fields that keep answers short and steady, as far as this model takes them."""
    if spec.role in {"embedder", "reranker"}:
        return {}
    match spec.provider.name:
        case "openai":
            return _openai(spec.model)
        case "google":
            return {"generationConfig": _google(spec.model)}
        case "ollama":
            # Ollama cuts longer prompts without a word, and its own limit is shorter than ours are.
            return {"options": {"temperature": 0, "num_ctx": OLLAMA_CONTEXT}}
        case _:
            return {"temperature": 0}


def _openai(model: str) -> dict[str, Any]:
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", model)
    if version:
        number = (int(version[1]), int(version[2] or 0))
        if number >= (5, 0):
            return {"reasoning_effort": "none" if number >= (5, 1) else "minimal"}
    return {} if re.match(r"o\d", model) else {"temperature": 0}


def _google(model: str) -> dict[str, Any]:
    """Models of version 3 are to be left at their own temperature; some cannot but think."""
    version = re.match(r"gemini-(\d+)", model)
    if version and int(version[1]) >= 3:
        return {"thinkingConfig": {"thinkingLevel": "minimal"}} if "flash" in model else {}
    flash = model.startswith("gemini-2.5-flash")
    return {"temperature": 0} | ({"thinkingConfig": {"thinkingBudget": 0}} if flash else {})
