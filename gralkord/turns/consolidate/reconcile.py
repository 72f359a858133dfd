"""Candidates against what is known: compared, or decided about by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gralkord.clock import to_iso
from gralkord.config import Consolidate
from gralkord.graph.analyzer import Analyzer
from gralkord.graph.notes import READ_MS, FoundNote, NoteFinder
from gralkord.graph.rows import to_ms
from gralkord.graph.sanitise import fold_name
from gralkord.groups import Group, parse_group
from gralkord.providers.base import LanguageModel
from gralkord.turns.consolidate.candidates import Candidate, Line, extract
from gralkord.turns.consolidate.decisions import ENDING, Decision, decide, repeats
from gralkord.turns.consolidate.judge import judge
from gralkord.turns.work import no_model

# Out of so many known memories the nearest are looked at for a candidate: by the cosine and, for
# embedders that tell little of short texts, by the words that both share. None that is less near.
LOOKED_AT: Final = 20
NEIGHBOURS: Final = 5
NEAR: Final = 0.3
SHARED: Final = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be done after a conversation: one decision for each candidate that was kept."""

    decisions: Sequence[Decision] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Consolidator:
    """Decides what is to be remembered; writes nothing.

    Attributes:
        model: Extracts, and reconciles where the settings say so.
        notes: Finds what is known.
        settings: How.
    """

    model: LanguageModel | None
    notes: NoteFinder
    settings: Consolidate

    async def consider(self, group: str, lines: Sequence[Line], when: datetime) -> Outcome:
        """Return what is to be done after a conversation.

        Args:
            group: The group whose memories are compared with.
            lines: What was said.
            when: When, UTC.

        Raises:
            ConfigError: There is no model.
            MalformedOutput: The model's decisions do not fit the candidates, also when asked again.
            GralkorError: The model's failure, the embedder's, or the graph's.
        """
        if self.model is None:
            raise no_model()
        if all(line.role != "user" for line in lines):  # only what people state counts
            return Outcome()
        payer = parse_group(group)
        found = await extract(
            self.model,
            lines,
            when,
            group=payer,
            min_confidence=self.settings.min_confidence,
        )
        if not found.kept:
            return Outcome(left_out=found.left_out)
        decisions = await self._reconcile(self.model, group, found.kept)
        return Outcome([_not_before(each, when) for each in decisions], found.left_out)

    async def _reconcile(
        self, model: LanguageModel, group: str, candidates: Sequence[Candidate]
    ) -> list[Decision]:
        payer = parse_group(group)
        again = repeats(candidates, await self._vectors(group, payer, candidates))
        refused = await self._refused(group, candidates)
        fresh = [at for at in range(len(candidates)) if at not in again and at not in refused]
        chosen = [candidates[at] for at in fresh]
        near = await self._near(group, chosen)
        if self.settings.reconcile == "model":
            made = await judge(model, payer, chosen, near)
        else:
            made = decide(chosen, near)
        found = refused | dict(zip(fresh, made, strict=True))
        return [
            found.get(at) or Decision("noop", each, like=again[at], reason="it was said twice")
            for at, each in enumerate(candidates)
        ]

    async def _refused(self, group: str, candidates: Sequence[Candidate]) -> dict[int, Decision]:
        """Return which candidates say again what somebody has invalidated, in the same words."""
        known = await self.notes.caches.fresh(group, timeout_ms=READ_MS)
        rows = known.facts.rows() if known is not None else ()
        gone = {fold_name(row.fact): row for row in rows if row.note_kind and row.withdrawn_at}
        return {
            at: Decision("noop", each, row, reason="somebody has invalidated it")
            for at, each in enumerate(candidates)
            if (row := gone.get(fold_name(each.content))) is not None
        }

    async def _near(self, group: str, candidates: Sequence[Candidate]) -> list[list[FoundNote]]:
        texts = [each.content for each in candidates]
        found = await self.notes.near(group, texts, {"memory"}, LOOKED_AT)
        return [nearest(text, some) for text, some in zip(texts, found, strict=True)]

    async def _vectors(
        self, group: str, payer: Group, candidates: Sequence[Candidate]
    ) -> NDArray[np.float32] | None:
        if len(candidates) == 1:
            return None
        known = await self.notes.caches.fresh(group, timeout_ms=READ_MS)
        embedder = self.notes.embedders.fitting(known.space.embedder if known else "")
        if embedder is None:
            return None
        texts = [each.content for each in candidates]
        return await embedder.embed(texts, group=payer, stage="notes")


def nearest(text: str, found: Sequence[FoundNote]) -> list[FoundNote]:
    """Return the memories that *text* may repeat, outdate or take back, nearest first."""
    analyzer = Analyzer()
    asked = set(analyzer.terms(text))
    scored = []
    for one in found:
        shared = asked.intersection(analyzer.terms(one.row.fact))
        score = max(one.score, 0.0) + SHARED * len(shared) / max(len(asked), 1)
        if score >= NEAR:
            scored.append((score, one))
    scored.sort(key=lambda pair: -pair[0])
    return [one for _, one in scored[:NEIGHBOURS]]


def _not_before(decision: Decision, when: datetime) -> Decision:
    """Return the decision, or none to act on where it would end what is newer than it."""
    row = decision.known
    if decision.action not in ENDING or row is None or not row.valid_at:
        return decision
    if to_ms(row.valid_at) <= int(when.timestamp() * 1000):
        return decision
    return replace(decision, action="noop", reason=f"told at {to_iso(when)}, the known is newer")
