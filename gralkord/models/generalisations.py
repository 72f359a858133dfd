"""Generalisations: what holds beyond one conversation, and the form in which they are passed on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import AfterValidator, BeforeValidator, Field

from gralkord.errors import GeneralisationParseFailed
from gralkord.models.base import Identifier, Moment, Text, Wire, check_id, check_text

PREFIX: Final = "GEN|v1|"
MAX_CONTENT_CHARS: Final = 2_000
MAX_GENERALISATIONS: Final = 100
MAX_LINEAGE: Final = 50
MAX_LEVEL: Final = 1_000
MAX_PAGE: Final = 1_000
MAX_TRANSCRIPT_CHARS: Final = 100_000

_BEGINNING: Final = re.compile(rf"^(?={re.escape(PREFIX)})", re.MULTILINE)

Action = Literal["save", "broadens", "narrows", "contradicts"]


def check_content(text: str) -> str:
    """Return *text* unchanged if it says something.

    Raises:
        ValueError: It is blank.
    """
    if not text.strip():
        raise ValueError("must not be blank")
    return text


Content = Annotated[Text, AfterValidator(check_content), Field(max_length=MAX_CONTENT_CHARS)]


class Generalisation(Wire):
    """A statement that holds beyond the conversations it was made of."""

    id: Identifier
    content: Content
    confidence: float = Field(ge=0, le=1, description="How sure it is.")
    level: int = Field(0, ge=0, le=MAX_LEVEL, description="How many others stand below it.")
    generalises: list[Identifier] = Field(
        default_factory=list,
        max_length=MAX_LINEAGE,
        description="Ids of the generalisations that it broadens, narrows or contradicts.",
    )


def level_of(attributes: Mapping[str, Any]) -> int:
    """Return the level that stands in the attributes of a note; 0 if none does."""
    level = attributes.get("level")
    return level if type(level) is int and 0 <= level <= MAX_LEVEL else 0


def to_wire(generalisation: Generalisation | ShownGeneralisation) -> str:
    """Return the ``GEN|v1`` form: a line with what is known of it, then its words."""
    head = {
        "id": generalisation.id,
        "level": generalisation.level,
        "confidence": generalisation.confidence,
        "generalises": generalisation.generalises,
    }
    # Where many stand one after another, such a line would begin another one.
    content = _BEGINNING.sub(" ", generalisation.content.strip())
    return f"{PREFIX}{orjson.dumps(head).decode()}\n{content}"


def from_wire(text: str) -> Generalisation | None:
    """Return the generalisation whose ``GEN|v1`` form is *text*.

    Returns:
        None, if it is no such form: it begins otherwise, or has one line only.

    Raises:
        GeneralisationParseFailed: It begins so, and what follows is not what it has to be.
    """
    first, line_end, content = text.partition("\n")
    if not line_end or not first.startswith(PREFIX):
        return None
    try:
        head = orjson.loads(first.removeprefix(PREFIX))
        if not isinstance(head, dict):
            raise ValueError("it is no JSON object")  # noqa: TRY004, TRY301
        return Generalisation(
            id=check_id(_text(head, "id")),
            level=_level(head.get("level")),
            confidence=_confidence(head.get("confidence")),
            generalises=_lineage(head.get("generalises")),
            content=_content(content),
        )
    except ValueError as error:  # of pydantic and orjson, too
        reason = str(error) if type(error) is ValueError else "it is no JSON of the right shape"
        failed = GeneralisationParseFailed(f"a generalisation cannot be read: {reason}")
        failed.raw = text
        raise failed from None


def wires_in(text: str) -> Iterator[str]:
    """Yield the ``GEN|v1`` forms that stand one after another in *text*; each begins a line."""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.startswith(PREFIX) and lines:
            yield "".join(lines)
            lines = []
        if lines or line.strip():
            lines.append(line)
    if lines:
        yield "".join(lines)


def _text(head: dict[str, Any], name: str) -> str:
    value = head.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text")  # noqa: TRY004
    return value


def _level(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_LEVEL:
        raise ValueError(f"level must be a whole number from 0 to {MAX_LEVEL}")
    return value


def _confidence(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("confidence must be a number")  # noqa: TRY004
    if not math.isfinite(value) or not 0 <= value <= 1:
        raise ValueError("confidence must be from 0 to 1")
    return float(value)


def _lineage(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError("generalises must be a list of ids")
    if len(value) > MAX_LINEAGE:
        raise ValueError(f"generalises has {len(value)} ids, the limit is {MAX_LINEAGE}")
    return [check_id(one) for one in value]


def _content(text: str) -> str:
    content = text.strip()
    if not content:
        raise ValueError("there are no words behind its first line")
    if len(content) > MAX_CONTENT_CHARS:
        raise ValueError(f"it is too long, the limit is {MAX_CONTENT_CHARS} characters")
    return check_text(content)


def read_forms(values: Any) -> Any:
    """Return the generalisations of a list of texts; what else is in it stays as it is.

    Raises:
        GeneralisationParseFailed: A text is no ``GEN|v1`` form.
    """
    if not isinstance(values, list):
        return values
    found: list[Any] = []
    for place, value in enumerate(values):
        field = f"generalisations.{place}"
        try:
            form = from_wire(value) if isinstance(value, str) else value
        except GeneralisationParseFailed as error:
            error.message, error.field = f"{field}: {error.message}", field
            raise
        if form is None:
            failed = GeneralisationParseFailed(
                f"{field}: it does not begin with {PREFIX}, or has one line only", field=field
            )
            failed.raw = value
            raise failed
        found.append(form)
    return found


def check_once(forms: list[Generalisation]) -> list[Generalisation]:
    """Return *forms* unchanged, in which one may stand twice.

    Raises:
        ValueError: Two of them have the same id and are not the same.
    """
    once: dict[str, Generalisation] = {}
    for form in forms:
        if once.setdefault(form.id, form) != form:
            raise ValueError(f"two have the id {form.id[:64]!r} and are not the same")
    return forms


Forms = Annotated[
    list[Generalisation],
    BeforeValidator(read_forms, json_schema_input_type=list[str | Generalisation]),
    AfterValidator(check_once),
]


class GeneraliseRequest(Wire):
    """Generalise a transcript, or what is new of an operator."""

    operator: Identifier
    transcript: Text | None = Field(
        None,
        min_length=1,
        max_length=MAX_TRANSCRIPT_CHARS,
        description="Lines of `Speaker: words`; default: what was understood since the last time.",
    )
    event_time: Moment | None = Field(
        None, description="When the last of the transcript was said; default: now."
    )
    id: Identifier | None = Field(
        None, description="Your name for the request: the same within 7 days is done once."
    )
    timeout_ms: int = Field(
        60_000,
        ge=0,
        le=600_000,
        description="Answer when it is done, at the latest after so long; the work goes on.",
    )


class ShownGeneralisation(Wire):
    """A generalisation as it is kept. Its text is untrusted data."""

    id: str
    content: str
    confidence: float = Field(description="How sure it is, 0 to 1.")
    level: int = Field(0, description="How many others stand below it.")
    generalises: list[str] = Field(
        default_factory=list,
        description="Ids of the generalisations that it broadens, narrows or contradicts.",
    )


class MadeGeneralisation(ShownGeneralisation):
    """A generalisation that was made. Its text is untrusted data."""

    action: Action = Field(description="What it is to the first one that it `generalises`.")


class GeneraliseResult(Wire):
    """What came of it. Nothing `kept` is a result as well."""

    id: str = Field(description="Id of the request; see /v1/results.")
    complete: bool = Field(description="Whether it is done; else it will be.")
    hypotheses: int = Field(0, description="What the model has proposed.")
    kept: int = Field(0, description="Those sure enough, each once.")
    saved: int = 0
    broadened: int = 0
    narrowed: int = 0
    contradicted: int = 0
    skipped: int = Field(0, description="Those that say what is known.")
    ignored: int = Field(
        0, description="Answers of the model that could not be used, and what it has left out."
    )
    more: bool = Field(False, description="Something new is left for the next time.")
    generalisations: list[MadeGeneralisation] = Field(default_factory=list)


class GeneralisationQuery(Wire):
    """Which generalisations."""

    operator: Identifier
    lens: Identifier = Field("default", description="The lens whose memory is asked, or `global`.")
    query: Content | None = Field(
        None,
        description="What they are about, nearest first; default: all, in the order of writing.",
    )
    max_results: int = Field(10, ge=1, le=MAX_PAGE, description="Most generalisations.")
    after: str | None = Field(
        None, max_length=100, description="`next` of the page before; without `query`."
    )


class StoredGeneralisation(ShownGeneralisation):
    """A generalisation that is known. Its text is untrusted data."""

    valid_at: str | None = Field(None, description="Since when it holds.")
    created_at: str | None = None
    score: float | None = Field(None, description="Nearness to the query, -1 to 1.")


class GeneralisationPage(Wire):
    """Generalisations that hold now."""

    generalisations: list[StoredGeneralisation]
    next: str | None = Field(None, description="Where the next page begins; nothing: no more.")


class GeneralisationsRequest(Wire):
    """Add generalisations that were made elsewhere: all of them, or none."""

    operator: Identifier
    lens: Identifier = Field(
        "default", description="The lens whose memory they go to, or `global`."
    )
    generalisations: Forms = Field(
        min_length=1,
        max_length=MAX_GENERALISATIONS,
        description="Each in the `GEN|v1` form as a text, or as an object.",
    )
    timeout_ms: int = Field(
        30_000,
        ge=0,
        le=600_000,
        description="Answer when they are added, at the latest after so long; the work goes on.",
    )


class AddedGeneralisation(Wire):
    """What became of one of them."""

    id: str = Field(description="Its id here.")
    given: str = Field(description="The id that it came with.")
    created: bool = Field(description="Whether it was not known before.")


class GeneralisationsResult(Wire):
    """What became of them, in their order."""

    id: str = Field(description="Id of the request; see /v1/results.")
    complete: bool = Field(description="Whether they are added; else they will be.")
    generalisations: list[AddedGeneralisation] = Field(default_factory=list)
