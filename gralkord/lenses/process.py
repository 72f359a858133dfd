"""Ingestion processes of your own: what they are given, and what they may do.

A process is a function of two arguments, `Request` and `Store`, plain or ``async``, that is named
in the settings as ``package.module:function``. What it returns is ignored; what it raises is
retried as any failure of the understand lane is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

Kind = Literal["conversation", "document", "structured_record"]


@dataclass(frozen=True, slots=True)
class Request:
    """What has come through a lens.

    Attributes:
        operator: Whose it is.
        lens: Name of the lens.
        content: The words: of a conversation one line a message, as ``Speaker: words``.
        source_description: Where they are from.
        kind: What they are.
        event_time: When the last of it was said, UTC.
        id: The same each time the same work is done again.
    """

    operator: str
    lens: str
    content: str
    source_description: str
    kind: Kind
    event_time: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a search has found. Its text is untrusted data.

    Attributes:
        kind: ``passage``, ``fact``, ``learning``, ``generalisation`` or ``memory``.
        score: Higher is better, within one search.
    """

    kind: str
    id: str
    text: str
    score: float


class Store(Protocol):
    """The part of memory that the lens writes to. Group, ontology and provenance are not yours."""

    async def add(self, content: str, source_description: str | None = None) -> None:
        """Have *content* understood through the lens, once the process has ended without an error.

        Args:
            content: The words.
            source_description: Where they are from; default: that of the request.

        Raises:
            InvalidInput: There are no words, or too many.
        """
        ...

    async def search(self, query: str, max_results: int = 10) -> Sequence[Found]:
        """Return what is known in the lens that helps with *query*, best first.

        Raises:
            GralkorError: The graph does not answer.
        """
        ...


OwnProcess: TypeAlias = Callable[[Request, Store], Awaitable[Any] | Any]
