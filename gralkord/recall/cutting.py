"""An answer cut to a level of detail and to a limit of tokens: plain functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from gralkord.graph.analyzer import Analyzer
from gralkord.models import Memory
from gralkord.models.recall import Tier
from gralkord.recall.block import NOTHING, memory_block
from gralkord.recall.tokens import Counter, checked, estimate

NO_ROOM: Final = "The relevant memories do not fit into the token limit."

# Where the words of a question are looked for in a text.
MOST_LOOKED_AT: Final = 4_000
_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
ELLIPSIS: Final = "\u2026"
# What an answer of a tier shows: so many memories, of each so many characters.
MOST: Final[dict[Tier, int]] = {1: 5, 2: 5, 3: 10}
CHARACTERS: Final[dict[Tier, int]] = {1: 0, 2: 40, 3: 200}
_KEPT: Final = ("kind", "id", "score", "lens", "origin", "source", "offset", "invalidated")
_KEPT_WITH_TEXT: Final = ("speaker", "event_time", "valid_at", "invalid_at")
# What a reader needs to know of a note to understand its text.
_KEPT_ATTRIBUTES: Final = ("success", "confidence", "memory_kind")


@dataclass(frozen=True, slots=True)
class Shaped:
    """An answer as it is shown.

    Attributes:
        memories: Those that are left, in their order.
        block: The memory block.
        tokens: What the block takes, about or as the counter says.
    """

    memories: list[Memory]
    block: str
    tokens: int


def shape(
    memories: Sequence[Memory],
    tier: Tier | None,
    budget: int | None,
    count: Counter = estimate,
    *,
    by_lens: bool = False,
    query: str = "",
) -> Shaped:
    """Return an answer of a level of detail within a limit of tokens.

    Args:
        memories: What was found, in its order.
        tier: The level of detail; None: everything.
        budget: Tokens at most, of the block and of the texts; None: any number.
        count: Counts the tokens of a text.
        by_lens: Whether memories stand under the names of their lenses.
        query: The question: of a text that is cut, what has most of its words is shown.
    """
    kept = list(memories)
    order = _by_rank(kept) if by_lens else list(range(len(kept)))
    if tier is not None:
        order = order[: MOST[tier]]
        terms = frozenset(Analyzer().terms(query)) if tier != 1 else frozenset()
        kept = [cut(each, tier, terms) for each in kept]

    def first(many: int) -> list[Memory]:
        chosen = order[:many]
        return [kept[at] for at in (sorted(chosen) if by_lens else chosen)]

    def shown(some: Sequence[Memory]) -> tuple[str, int]:
        block = memory_block(some, tier, by_lens=by_lens, nothing=NO_ROOM if memories else NOTHING)
        return block, checked(count(block))

    if budget is None:
        some = first(len(order))
        return Shaped(some, *shown(some))

    def fits(many: int) -> bool:
        some = first(many)
        if shown(some)[1] > budget:
            return False
        return checked(count("\n".join(each.text for each in some))) <= budget

    some = first(_most(len(order), fits))
    block, tokens = shown(some)
    return Shaped(some, block, tokens) if tokens <= budget else Shaped([], "", 0)


def cut(memory: Memory, tier: Tier, terms: frozenset[str] = frozenset()) -> Memory:
    """Return what a level of detail shows of a memory.

    Args:
        memory: The memory.
        tier: The level of detail.
        terms: Those of the question.
    """
    names = _KEPT if tier == 1 else (*_KEPT, *_KEPT_WITH_TEXT)
    told: dict[str, Any] = {name: getattr(memory, name) for name in names}
    if tier != 1:
        known = memory.attributes
        told["attributes"] = {name: known[name] for name in _KEPT_ATTRIBUTES if name in known}
    return Memory(text=_cut_text(memory.text, CHARACTERS[tier], terms), **told)


def _cut_text(text: str, limit: int, terms: frozenset[str]) -> str:
    flat = " ".join(text.split())
    if len(flat) <= limit or not limit:
        return flat[:limit]
    start = _best_start(flat, limit, terms)
    before = ELLIPSIS if start else ""
    shown = flat[start:]
    if len(shown) > limit - len(before):
        shown = shown[: limit - len(before) - 1].rstrip() + ELLIPSIS
    return before + shown


def _best_start(text: str, limit: int, terms: frozenset[str]) -> int:
    """Return where to begin to show most of the terms, the first such place."""
    analyzer = Analyzer()
    hits: list[tuple[int, int, str]] = []
    for match in _WORD.finditer(text[:MOST_LOOKED_AT]) if terms else ():
        found = {analyzer.term(word)[0] for word in analyzer.words(match[0])} & terms
        hits += [(match.start(), match.end(), term) for term in found]
    best, most = 0, len({term for _, end, term in hits if end < limit})
    for at, (start, _, _) in enumerate(hits):
        within = (term for _, end, term in hits[at:] if end < start + limit - 1)
        if (many := len(set(within))) > most:
            best, most = start, many
    # Near the end there is room for what is before it.
    last = len(text) - limit + 1
    return text.find(" ", last) + 1 if best > last else best


def _by_rank(memories: Sequence[Memory]) -> list[int]:
    """Return the places of the best of each lens, then of the second best, and so on."""
    ranks = [
        rank
        for _, some in groupby(memories, key=lambda memory: memory.lens)
        for rank, _ in enumerate(some)
    ]
    return sorted(range(len(memories)), key=lambda at: (ranks[at], at))


def _most(upto: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number up to *upto* that fits, as if all below it did; at least 0."""
    if fits(upto):
        return upto
    least = 0
    while upto - least > 1:
        middle = (least + upto) // 2
        least, upto = (middle, upto) if fits(middle) else (least, middle)
    return least
