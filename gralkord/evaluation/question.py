"""A question whose answer is known, or known to be nowhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """A question about what was imported.

    Attributes:
        text: The question.
        category: What kind of question it is; figures are told for each by itself.
        evidence: Offsets of the turns or memories that answer it; none if nobody knows them.
        id: What it is called in results, so that two runs can be compared.
        distractors: Offsets of what looks like an answer and is none.
        whole: Whether nothing but all of the evidence answers it, such as both sides of a
            contradiction.
        answerable: Whether there is an answer; else the right answer is nothing.
        as_of: The moment that it is asked about, ISO 8601; default: now.
    """

    text: str
    category: str
    evidence: frozenset[str]
    id: str = ""
    distractors: frozenset[str] = frozenset()
    whole: bool = False
    answerable: bool = True
    as_of: str | None = None

    @property
    def asked(self) -> bool:
        """Whether its answer can be judged."""
        return bool(self.evidence) or not self.answerable
