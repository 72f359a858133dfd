"""What a search through lenses is asked, and what it answers."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from gralkord.models.base import Wire
from gralkord.models.recall import MAX_RESULTS, Memory, Question, RecallResult

# Most results of a lens, unless the request or the lens says otherwise.
RESULTS_OF_A_LENS: Final = 10


class SearchRequest(Question):
    """What do these lenses know that helps with this? Each answers for itself."""

    max_results: int | None = Field(
        None,
        ge=1,
        le=MAX_RESULTS,
        description="Most results of each lens. Default: as the lens is set, else 10.",
    )


class SearchResult(Wire):
    """The answer to a search."""

    results: list[Memory] = Field(
        description="Lens by lens, those of each best first; scores compare within a lens."
    )
    lenses: list[str] = Field(
        description="What was searched, in the order of the results; `global` is what all global "
        "lenses share, searched once."
    )
    memory_block: str
    tokens_estimate: int = Field(0, description="Tokens that the memory block takes, about.")
    partial: bool = False
    degraded: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    took_ms: float


def plain(answer: RecallResult | SearchResult, *, short: bool) -> dict[str, Any]:
    """Return an answer as JSON knows it.

    Args:
        answer: Of a recall or a search.
        short: Whether what a memory does not tell is left out, which is most of it in a tier.
    """
    told = answer.model_dump(mode="json", exclude={"results"} if short else None)
    if short:
        results = [one.model_dump(mode="json", exclude_defaults=True) for one in answer.results]
        told = {"results": results} | told
    return told
