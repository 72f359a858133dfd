"""From transcripts to a plan of what is to be written: both pipelines go this way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Final

import structlog

from gralkord.graph.drafts import NoteKind
from gralkord.graph.notes import FoundNote, NoteFinder
from gralkord.groups import parse_group
from gralkord.providers.base import LanguageModel
from gralkord.turns.generalise.decide import Known, Plan, folded, save_all, settle, survivors
from gralkord.turns.generalise.evaluate import evaluate
from gralkord.turns.generalise.hypothesise import Hypothesis, hypothesise

log = structlog.get_logger(__name__)

KINDS: Final[tuple[NoteKind, ...]] = ("generalisation",)
# Of each hypothesis so many known generalisations are looked at, and of all of them so many.
NEIGHBOURS: Final = 5
MAX_KNOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Generaliser:
    """Makes generalisations of transcripts.

    Attributes:
        model: Answers, at most twice for what fits in a call.
        notes: Finds what is known.
        least: The least confidence of what is kept.
    """

    model: LanguageModel
    notes: NoteFinder
    least: float

    async def plan(self, group: str, texts: Sequence[str]) -> Plan:
        """Return what is to be written of *texts*; nothing is written.

        Args:
            group: The group id: what is known in it is looked at, and nothing else.
            texts: Transcripts of ``Speaker: words``, oldest first.

        Raises:
            BackendUnavailable: The graph does not answer.
            GralkorError: The model's or the embedder's failure.
        """
        payer = parse_group(group)
        proposed = await hypothesise(texts, self.model, payer)
        kept = survivors(proposed.usable, self.least)
        near = await self._near(group, kept)
        fresh = [one for one, some in zip(kept, near, strict=True) if not _repeated(one, some)]
        known = _known(near)
        if fresh and known:
            decisions = await evaluate(fresh, known, self.model, payer)
            plan = settle(fresh, known, decisions, self.least)
        else:
            plan = save_all(fresh)
        counts = plan.counts.plus(
            hypotheses=len(proposed.usable) + proposed.unusable,
            kept=len(kept),
            skipped=len(kept) - len(fresh),
            ignored=proposed.unusable,
        )
        log.info(
            "generalised",
            group=group,
            hypotheses=counts.hypotheses,
            kept=counts.kept,
            made=len(plan.made),
            skipped=counts.skipped,
            ignored=counts.ignored,
        )
        return Plan(plan.made, counts)

    async def _near(self, group: str, kept: Sequence[Hypothesis]) -> list[list[FoundNote]]:
        texts = [one.content for one in kept]
        return await self.notes.near(group, texts, KINDS, NEIGHBOURS)


def _repeated(hypothesis: Hypothesis, near: Sequence[FoundNote]) -> bool:
    """Whether it is known word for word, which no model need be asked about."""
    said = folded(hypothesis.content)
    return any(folded(one.row.fact) == said for one in near)


def _known(near: Sequence[Sequence[FoundNote]]) -> list[Known]:
    """Return what was found, each once, the nearest of each hypothesis before the second ones."""
    found = (one for one in chain.from_iterable(zip_longest(*near)) if one is not None)
    once = {one.row.uuid: one.row for one in found}
    return [Known.of(row) for row in list(once.values())[:MAX_KNOWN]]
