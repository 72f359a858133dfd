"""Documents, conversations and records that are handed over as a whole: the wire models."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from gralkord.models.base import Identifier, Moment, Text, Wire, check_text
from gralkord.models.metadata import Metadata
from gralkord.models.turns import Role

MAX_CONTENT_BYTES: Final = 1_048_576
MAX_DESCRIPTION_CHARS: Final = 500
# A place in it is named after it, which takes a few more.
MAX_OFFSET_BYTES: Final = 240

IngestKind = Literal["conversation", "document", "structured_record"]


def check_content(content: Any) -> Any:
    """Return *content* if it can be stored and there is any, a text without its byte order mark.

    Raises:
        ValueError: It is empty, longer than 1 MB, or cannot be written as text or JSON.
    """
    if isinstance(content, str):
        content = content.removeprefix("\ufeff")  # files of some systems begin with it
        check_text(content)
        size = len(content.encode())
    else:
        try:
            size = len(orjson.dumps(content))
        except (TypeError, RecursionError) as error:
            raise ValueError(f"cannot be written as JSON: {error}") from None
    if size > MAX_CONTENT_BYTES:
        raise ValueError(f"{size} bytes, the limit is {MAX_CONTENT_BYTES} bytes")
    if not (content.strip() if isinstance(content, str) else content):
        raise ValueError("is empty")
    return content


def _plain(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        return check(value)
    except ValidationError:
        raise ValueError("must be a text, a list or an object") from None


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


# Its own words, because those for a union name a part of it that nobody has written.
Content = Annotated[
    str | list[Any] | dict[str, Any], WrapValidator(_plain), AfterValidator(check_content)
]
Description = Annotated[Text, Field(max_length=MAX_DESCRIPTION_CHARS), AfterValidator(_not_blank)]

_FITTING: Final[dict[IngestKind, tuple[type, ...]]] = {
    "conversation": (str, list),
    "document": (str,),
    "structured_record": (str, list, dict),
}
_EXPECTED: Final[dict[IngestKind, str]] = {
    "conversation": "a text of lines `Speaker: words`, or a list of messages",
    "document": "a text",
    "structured_record": "an object, a list, or a text",
}


class Said(Wire):
    """One message of a conversation that is ingested."""

    content: Text
    speaker: Identifier | None = Field(
        None, description="Who says it; needed but for what the agent says or does."
    )
    role: Role | None = Field(
        None, description="Default: `assistant` if the speaker is the agent, else `user`."
    )


class Ingest(Wire):
    """A document, a conversation or a record, to be remembered as a whole."""

    operator: Identifier
    content: Content = Field(
        description="Of a document: a text. Of a conversation: lines of `Speaker: words`, or "
        "messages with `speaker`, `content` and perhaps `role`. Of a record: an object, a list of "
        "them, or a text. At most 1 MB.",
    )
    source_description: Description = Field(
        description="What it is and where it is from, in words: whoever understands it reads that.",
    )
    kind: IngestKind = "document"
    lens: Identifier | None = Field(
        None, description="The lens it goes through. Default: the agent's own, else `default`."
    )
    agent: Identifier | None = Field(None, description="Name of the agent that hands it over.")
    event_time: Moment | None = Field(
        None,
        description="When it was written or said, ISO 8601; UTC if without a zone; default: when "
        "it arrived.",
    )
    id: Identifier | None = Field(
        None,
        description="The producer's id: the same id of the same operator is ingested once, however "
        "often it is sent.",
    )
    source: Identifier | None = Field(
        None,
        description="What it was taken from. Other content of the same source and offset replaces "
        "the content before; the same content is ingested once.",
    )
    offset: Identifier | None = Field(None, description="Where in the source it stands.")
    metadata: Metadata = Field(
        default_factory=dict,
        description="What the producer says about it: up to 32 names, each with a text, a number, "
        "a truth value or a list of texts.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Ingest:
        if self.offset is not None and self.source is None:
            raise ValueError("offset: goes with a source")
        if (size := len((self.offset or "").encode())) > MAX_OFFSET_BYTES:
            raise ValueError(f"offset: {size} bytes, the limit is {MAX_OFFSET_BYTES} bytes")
        if not isinstance(self.content, _FITTING[self.kind]):
            expected = _EXPECTED[self.kind]
            raise ValueError(f"content: must be {expected} in a {self.kind}")  # noqa: TRY004
        return self


class IngestReceipt(Wire):
    """The answer to an ingest: it is stored and will become recallable."""

    receipt: str = Field(
        description="Id of the request: of its entry in the intake stream, and of the flush that "
        "hands it over to be understood. Ask for it as for any job.",
    )
    session: str = Field(description="The session that it became; it has nothing else.")
    turns: int = Field(description="Into how many turns it was cut.")
    duplicate: bool = Field(False, description="It was ingested before; nothing was added.")
    durability: str = Field(description="As of a capture.")
    notes: list[str] = Field(default_factory=list)


class MemoryAddRequest(Wire):
    """Something that an agent wants to be remembered."""

    operator: Identifier
    agent: Identifier
    content: Annotated[Text, AfterValidator(check_content)]
    source_description: Description = Field(
        description="What it is and where it is from: a memory without context is of no use.",
    )
    lens: Identifier | None = Field(
        None, description="The lens it goes through. Default: the agent's own, else `default`."
    )
    event_time: Moment | None = Field(None, description="When it happened; default: now.")
    id: Identifier | None = Field(
        None, description="The producer's id: the same id of the same operator is added once."
    )

    def to_ingest(self) -> Ingest:
        """Return it as what is ingested."""
        return Ingest(kind="document", **dict(self))


class MemoryAddReceipt(IngestReceipt):
    """The answer to a tool call that adds a memory: it is stored, and the work goes on."""

    message: Literal["Ingesting."] = "Ingesting."
