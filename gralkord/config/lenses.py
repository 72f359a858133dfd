"""Settings of lenses: what comes through them, what is made of it, and which agents use them."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from gralkord.config.base import Section, several
from gralkord.models import Identifier
from gralkord.models.recall import MAX_RESULTS, MemoryKind

PROCESSES: Final = ("store", "generalise", "consolidate", "index")

# It is looked at three times a minute whether the time has come.
LEAST_HOURS: Final = 0.01

_REFERENCE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class LensSearch(Section):
    """How a lens is searched, where a request says nothing else."""

    max_results: int | None = Field(
        None, ge=1, le=MAX_RESULTS, description="Most results from it in one answer."
    )
    kinds: Annotated[list[MemoryKind], BeforeValidator(several)] | None = Field(
        None, min_length=1, description="What is searched in it; default: everything."
    )


class DefaultLens(Section):
    """The lens that always exists: each operator's own memory."""

    ontology: str | None = Field(
        None,
        min_length=1,
        description="What it looks for; a file is looked for beside this one. "
        "It is no other lens's: those have their own.",
    )
    distil: bool = Field(
        True, description="Sum up what the agent did in a turn, in a sentence or two of its own."
    )
    learn: Literal["behaviour", "every", "never"] = Field(
        "behaviour",
        description="Of which turns lessons are drawn: those in which the agent did something or "
        "that tell an outcome (`outcome` of their metadata), every one, or none.",
    )
    generalise_on_flush: bool = Field(
        False, description="Generalise what a flush has handed over, once it is understood."
    )
    generalise_hours: float = Field(
        0,
        ge=0,
        le=8_760,
        description="Generalise what is new of each operator after so many hours; 0: never.",
    )
    search: LensSearch = Field(default_factory=LensSearch)

    @field_validator("generalise_hours")
    @classmethod
    def _check_hours(cls, hours: float) -> float:
        if 0 < hours < LEAST_HOURS:
            raise ValueError(f"must be 0, or at least {LEAST_HOURS}")
        return hours


class Lens(Section):
    """A named channel into memory."""

    scope: Literal["operator", "global"] = Field(
        "operator", description="`operator`: each its own memory; `global`: one per tenant."
    )
    ingestion: str = Field(
        "store",
        description="The ingestion process: `store`, `generalise`, `consolidate`, `index`, or "
        "your own as `package.module:function`.",
    )
    ontology: str | None = Field(
        None,
        min_length=1,
        description="What it looks for: a TOML file, beside this one, or `package.module:name`; "
        "default: anything.",
    )
    distil: bool = Field(
        True, description="Sum up what the agent did in a turn, in a sentence or two of its own."
    )
    timeout_seconds: float = Field(
        120, gt=0, le=3_600, description="Limit of one run of a process of your own."
    )
    search: LensSearch = Field(default_factory=LensSearch)

    @field_validator("ingestion")
    @classmethod
    def _process(cls, ingestion: str) -> str:
        if ingestion not in PROCESSES and not _REFERENCE.fullmatch(ingestion):
            raise ValueError(f"must be one of {', '.join(PROCESSES)}, or `package.module:function`")
        return ingestion

    @model_validator(mode="after")
    def _index_needs_words(self) -> Self:
        if self.ingestion == "index" and self.scope == "global":
            raise ValueError("ingestion: `index` keeps words, and a global lens holds none")
        return self


class Generalise(Section):
    """How generalisations are made."""

    min_confidence: float = Field(
        0.3, ge=0, le=1, description="Hypotheses that are less sure are dropped."
    )


class Consolidate(Section):
    """How memories are extracted from what is observed, and reconciled with what is known."""

    min_confidence: float = Field(
        0.5, ge=0, le=1, description="Candidates that are less sure are dropped."
    )
    reconcile: Literal["heuristic", "model"] = Field(
        "heuristic",
        description="`heuristic`: what is nearly the same as a known memory is dropped; `model`: "
        "one more call decides to add, update, forget or drop.",
    )


class Agent(Section):
    """Through which lenses an agent of this name writes and searches, unless a request says so."""

    default_lens: Identifier | None = Field(None, description="Where its turns go.")
    search_lenses: Annotated[list[Identifier], BeforeValidator(several)] = Field(
        default_factory=list,
        description="Searched after `default` and its own lens; `global` may be named.",
    )
    generalise_lens: Identifier | None = Field(
        None, description="Each flushed transcript goes to this lens, too."
    )

    @model_validator(mode="after")
    def _with_default(self) -> Self:
        if self.default_lens is None and (self.search_lenses or self.generalise_lens):
            raise ValueError("default_lens must be set, too")
        if self.generalise_lens is not None and self.generalise_lens == self.default_lens:
            raise ValueError("generalise_lens must be another lens than default_lens")
        return self
