"""The store that a process of the user's own works with: it collects, and searches."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from gralkord.errors import InvalidInput, ProcessFailed
from gralkord.lenses.process import MAX_ADDED, MAX_ADDED_CHARS, MAX_CONTENT_CHARS, Found

Search: TypeAlias = Callable[[str, int], Awaitable[Sequence[Found]]]

MAX_DESCRIPTION_CHARS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Added:
    """A text that a process has added."""

    content: str
    source_description: str


class Nothing:
    """What `OwnStore.add` returns: it may be awaited, and need not be."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class OwnStore:
    """Implements both `gralkord.lenses.Store` and `PlainStore`, for one run.

    Called from the event loop it answers what is awaited; from any other thread, the answer itself.

    Args:
        search: Searches the lens.
        source_description: What stands for a text of which nothing else is said.
    """

    def __init__(self, search: Search, source_description: str) -> None:
        self.added: list[Added] = []
        self._search = search
        self._source_description = source_description
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._chars = 0
        self._open = True

    def close(self) -> None:
        """Take nothing more: the run is over."""
        with self._lock:
            self._open = False

    def add(self, content: str, source_description: str | None = None) -> Nothing:
        """Keep a text until the process has ended.

        Raises:
            InvalidInput: It has no words, or too many.
            ProcessFailed: The run is over.
        """
        _check("content", content, MAX_CONTENT_CHARS)
        if source_description is None:
            source_description = self._source_description
        else:
            _check("source_description", source_description, MAX_DESCRIPTION_CHARS)
        with self._lock:
            self._check_open()
            if len(self.added) >= MAX_ADDED:
                raise InvalidInput(
                    f"{MAX_ADDED} texts were added, more are not taken in one run", limit=MAX_ADDED
                )
            if self._chars + len(content) > MAX_ADDED_CHARS:
                raise InvalidInput(
                    f"more than {MAX_ADDED_CHARS} characters are not taken in one run",
                    field="content",
                    limit=MAX_ADDED_CHARS,
                )
            self._chars += len(content)
            self.added.append(Added(content, source_description))
        return Nothing()

    def search(self, query: str, max_results: int = 10) -> Any:
        """Return what is known in the lens, best first.

        Raises:
            InvalidInput: The query has no words, or too many.
            BackendUnavailable: The graph does not answer.
            ProcessFailed: The run is over.
        """
        self._check_open()
        asked = self._search(query, max_results)
        if threading.get_ident() == self._thread:
            return asked
        return asyncio.run_coroutine_threadsafe(_answer(asked), self._loop).result()

    def _check_open(self) -> None:
        if not self._open:
            raise ProcessFailed("the run of this process is over")


async def _answer(asked: Awaitable[Sequence[Found]]) -> Sequence[Found]:
    return await asked


def _check(field: str, text: Any, limit: int) -> None:
    if not isinstance(text, str):
        raise InvalidInput(f"{field}: is no text, but {type(text).__name__}", field=field)
    if not text.strip():
        raise InvalidInput(f"{field}: must not be blank", field=field)
    if len(text) > limit:
        raise InvalidInput(
            f"{field}: {len(text)} characters, the limit is {limit}", field=field, limit=limit
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field}: has half a character in it", field=field) from error
