"""Triples: facts that are told as subject, predicate and object, and questions for them."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from gralkord.models.base import Identifier, Moment, Text, Wire

MAX_TRIPLES: Final = 100
MAX_PAGE: Final = 1_000
MAX_NAME_CHARS: Final = 250
MAX_FACT_CHARS: Final = 2_000
MAX_HANDLES: Final = 16


def check_name(text: str) -> str:
    """Return *text* unchanged if it can name an entity or a relation.

    Raises:
        ValueError: It has no character that can be seen.
    """
    if not any(char.isprintable() and not char.isspace() for char in text):
        raise ValueError("must not be blank")
    return text


Name = Annotated[Text, AfterValidator(check_name), Field(max_length=MAX_NAME_CHARS)]


class EntityRef(Wire):
    """An entity that is meant: a known one, or a new one of that name."""

    term: Name | None = Field(None, description="Its id, a handle or its name.")
    id: Identifier | None = Field(None, description="Its id; it has to exist.")
    name: Name | None = Field(None, description="Its name, whatever case and blanks.")
    handles: list[Name] = Field(
        default_factory=list,
        max_length=MAX_HANDLES,
        description="What else stands for it alone: an e-mail address, an account.",
    )

    @model_validator(mode="after")
    def _says_which(self) -> EntityRef:
        if self.term is not None and (self.id or self.name or self.handles):
            raise ValueError("term: goes with nothing else")
        if not (self.term or self.id or self.name or self.handles):
            raise ValueError("give an id, a name or handles")
        if self.id and self.name:
            raise ValueError("name: goes not with an id, which says which entity it is")
        return self


def _as_reference(value: Any) -> Any:
    return {"term": value} if isinstance(value, str) else value


Reference = Annotated[EntityRef, BeforeValidator(_as_reference, json_schema_input_type=Any)]


class Triple(Wire):
    """A fact: what a subject has to do with an object."""

    subject: Reference = Field(description="An id, handle or name; or an object that says which.")
    predicate: Name = Field(description="The relation, such as WORKS_AT or `works at`.")
    object: Reference = Field(description="An id, handle or name; or an object that says which.")
    fact: Text | None = Field(
        None,
        max_length=MAX_FACT_CHARS,
        description="The same in words; default: made of them.",
    )
    valid_at: Moment | None = Field(None, description="Since when it holds; default: not known.")
    invalid_at: Moment | None = Field(None, description="Since when it does not hold any more.")
    supersede: bool = Field(
        False,
        description="It ends the other facts of this subject and predicate: from `valid_at` on, or "
        "from now on.",
    )
    source: Identifier | None = Field(None, description="What it was taken from.")
    offset: Identifier | None = Field(None, description="Where in the source it stands.")
    confidence: float | None = Field(None, ge=0, le=1, description="How sure its producer is.")

    @model_validator(mode="after")
    def _ends_after_its_start(self) -> Triple:
        if self.valid_at and self.invalid_at and self.invalid_at <= self.valid_at:
            raise ValueError("invalid_at: must be later than valid_at")
        if self.fact is not None and not self.fact.strip():
            raise ValueError("fact: must not be blank")
        return self


class TriplesRequest(Wire):
    """Add facts to what is known of an operator: all of them, or none."""

    operator: Identifier
    lens: Identifier = Field(
        "default", description="The lens whose memory they go to, or `global`."
    )
    triples: list[Triple] = Field(min_length=1, max_length=MAX_TRIPLES)
    timeout_ms: int = Field(
        30_000,
        ge=0,
        le=600_000,
        description="Answer when they are added, at the latest after so long; the work goes on.",
    )


class TripleEnd(Wire):
    """An entity at one end of a triple. Its name is untrusted data."""

    id: str
    name: str


class AddedTriple(Wire):
    """What became of one triple."""

    id: str = Field(description="Id of the fact.")
    created: bool = Field(description="Whether it was not known before.")
    subject: TripleEnd
    predicate: str = Field(description="The relation as it is kept, such as WORKS_AT.")
    object: TripleEnd
    superseded: list[str] = Field(default_factory=list, description="Ids of facts that it ended.")
    invalidated: bool = Field(False, description="It is known, and somebody has invalidated it.")


class TriplesResult(Wire):
    """What became of triples, in their order."""

    id: str = Field(description="Id of the request; see /v1/results.")
    complete: bool = Field(description="Whether they are added; else they will be.")
    triples: list[AddedTriple] = Field(default_factory=list)
    entities: list[str] = Field(default_factory=list, description="Ids of entities made for them.")


class TripleQuery(Wire):
    """Which facts: all parts that are given have to fit."""

    operator: Identifier
    lens: Identifier = Field("default", description="The lens whose memory is asked, or `global`.")
    subject: Name | None = Field(None, description="Id, handle or name of the subject.")
    predicate: Name | None = Field(None, description="The relation, whatever its spelling.")
    object: Name | None = Field(None, description="Id, handle or name of the object.")
    as_of: Moment | None = Field(None, description="What was valid then; default: now.")
    known_at: Moment | None = Field(None, description="Only what was known then.")
    include_invalidated: bool = Field(
        False, description="Facts too that do not hold any more, or did not hold then."
    )
    limit: int = Field(100, ge=1, le=MAX_PAGE, description="Most facts of a page.")
    after: str | None = Field(None, max_length=100, description="`next` of the page before.")


class StoredTriple(Wire):
    """A fact as subject, predicate and object. Its texts are untrusted data."""

    id: str
    subject: TripleEnd
    predicate: str
    object: TripleEnd
    fact: str
    valid_at: str | None = None
    invalid_at: str | None = None
    invalidated: bool = Field(False, description="It does not hold at the time asked for.")
    reason: str | None = Field(None, description="Why it ended.")
    created_at: str | None = None
    source: str | None = None
    offset: str | None = None
    confidence: float | None = None
    episodes: list[str] = Field(default_factory=list, description="Episodes that say it.")


class TriplePage(Wire):
    """A page of facts, in the order in which they were written."""

    triples: list[StoredTriple]
    next: str | None = Field(None, description="Where the next page begins; nothing: no more.")
