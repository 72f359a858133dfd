"""What each part of a score is worth: the same questions with one part after the other left out.

Nothing is started: conversations are held in memory and searched by the code of recall, with the
weights of recall, of which some are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from gralkord.evaluation.retrieval import MAX_RESULTS, Score, score
from gralkord.evaluation.sets import Conversation
from gralkord.evaluation.summary import summarize
from gralkord.evaluation.talks import Talk, hold
from gralkord.recall.fusion import Weights
from gralkord.recall.search import Searched, search

WHOLE: Final = "all parts"
# Not that of learnings: there are none in what is imported without a model.
PARTS: Final = tuple(part.name for part in fields(Weights) if part.name != "succeeded")
_OF_WORDS: Final = ("turn", "fact_words")


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to search that leaves something out.

    Attributes:
        name: What it is called.
        without: Weights that are 0.
        vectors: Whether questions have vectors; else nothing is found by closeness either.
    """

    name: str
    without: tuple[str, ...] = ()
    vectors: bool = True


VARIANTS: Final = (
    Variant(WHOLE),
    *(Variant(f"without {name}", (name,)) for name in PARTS),
    Variant("without neighbours", ("one", "two")),
    Variant("without vectors", vectors=False),
    Variant("words alone", tuple(name for name in PARTS if name not in _OF_WORDS), vectors=False),
)


async def ablate(
    conversations: Sequence[Conversation], on_progress: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Return the figures with all parts, and those of each variant with the difference to them.

    Questions that are not answerable are not asked. A part that no question gives occasion for
    makes no difference, such as those of facts where nothing is told.

    Raises:
        InvalidInput: A turn cannot be kept, a conversation has no question with evidence or is
            there twice.
    """
    talks = await hold(conversations)
    report: dict[str, Any] = {"sets": [talk.name for talk in talks], "variants": {}}
    whole: dict[str, Any] = {}
    for variant in VARIANTS:
        summary = summarize([one for talk in talks for one in _scores(talk, variant)])
        figures = {name: summary[name] for name in ("overall", "by_category", "measures")}
        whole = whole or figures
        report["questions"] = summary["questions"]
        report["variants"][variant.name] = figures | {
            "difference": _difference(figures["overall"], whole["overall"])
        }
        on_progress(1)
    return report


def _scores(talk: Talk, variant: Variant) -> list[Score]:
    weights = replace(Weights(), **dict.fromkeys(variant.without, 0.0))
    found = []
    for case in talk.cases:
        vector = case.vector if variant.vectors else None
        where = [Searched(talk.group, talk.cache, vector)]
        memories = search(case.query, where, MAX_RESULTS, case.view, weights)
        found.append(score(case.question, memories, 0.0))
    return found


def _difference(figures: Any, whole: Any) -> dict[str, dict[str, float]]:
    return {
        kind: {name: round(share - whole[kind][name], 4) for name, share in shares.items()}
        for kind, shares in figures.items()
    }
