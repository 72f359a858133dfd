"""Ingestion processes of your own: what they are given, and what they may do.

A process is a function of two arguments that is named in the settings as
``package.module:function``. One that is ``async`` is given a `Request` and a `Store`; a plain one
runs in a thread and is given a `Request` and a `PlainStore`. What it returns is ignored. What it
raises is retried as any failure of the understand lane is; then it is run again from its start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Protocol, TypeAlias

Kind = Literal["conversation", "document", "structured_record"]

# Limits of one run: texts, characters of one of them, and of all together.
MAX_ADDED: Final = 1_000
MAX_CONTENT_CHARS: Final = 32_000
MAX_ADDED_CHARS: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """What has come through a lens. Its words are untrusted data.

    Attributes:
        operator: Whose it is.
        lens: Name of the lens.
        content: The words: of a conversation one line a message, as ``Speaker: words``, and, unless
            the lens says otherwise, one for what the agent did in a turn.
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
        id: By which it can be shown.
        text: Its words.
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

        Each text becomes an episode of its own. They are understood in the order in which they were
        added, after the process has ended; a search of the same run does not find them.

        Args:
            content: The words, at most 32,000 characters; 1,000 texts and 4,000,000 characters a
                run.
            source_description: Where they are from; default: that of the request.

        Raises:
            InvalidInput: There are no words, or too many; the run can still go on.
            ProcessFailed: The run is over, as its time was.
        """
        ...

    async def search(self, query: str, max_results: int = 10) -> Sequence[Found]:
        """Return what is known in the lens that helps with *query*, best first.

        The words of the request itself are not among it.

        Args:
            query: A question or words, at most 8,000 characters.
            max_results: At most so many, 1 to 200.

        Raises:
            InvalidInput: The query has no words, or too many.
            BackendUnavailable: The graph does not answer.
            ProcessFailed: The run is over, as its time was.
        """
        ...


class PlainStore(Protocol):
    """The same as `Store`, for a plain function: nothing is awaited."""

    def add(self, content: str, source_description: str | None = None) -> None:
        """See `Store.add`."""
        ...

    def search(self, query: str, max_results: int = 10) -> Sequence[Found]:
        """See `Store.search`."""
        ...


OwnProcess: TypeAlias = Callable[[Request, Any], Awaitable[Any] | Any]
