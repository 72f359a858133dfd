"""Memories that are told outright, for both clients."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from gralkord.client.calls import GRACE_SECONDS, Call, milliseconds, names_of, reader
from gralkord.client.memory_calls import path_segment
from gralkord.models.records import (
    AddMemoryRequest,
    MemoriesQuery,
    MemoryPage,
    MemoryResult,
    UpdateMemoryRequest,
)
from gralkord.wire import read_model

if TYPE_CHECKING:
    from datetime import datetime

    from gralkord.models.records import RecordKind

Answer = TypeVar("Answer")


def add(operator: str, content: str, *, timeout: float, **fields: Any) -> Call[MemoryResult]:
    """Return the call that adds a memory. It names it, so that repeats are one.

    Raises:
        InvalidInput: It is not acceptable.
    """
    raw = _values(fields, timeout) | {"operator": operator, "content": content}
    body = read_model(AddMemoryRequest, raw).model_dump_json(exclude_none=True).encode()
    seconds = timeout + GRACE_SECONDS
    return Call("POST", "/v1/memories", reader(MemoryResult), body, timeout=seconds)


def update(operator: str, memory: str, *, timeout: float, **fields: Any) -> Call[MemoryResult]:
    """Return the call that changes a memory. It names the change, so that repeats are one.

    Raises:
        InvalidInput: It is not acceptable.
    """
    raw = _values(fields, timeout) | {"operator": operator}
    body = read_model(UpdateMemoryRequest, raw).model_dump_json(exclude_none=True).encode()
    path = f"/v1/memories/{path_segment(memory, 'id')}"
    return Call("PATCH", path, reader(MemoryResult), body, timeout=timeout + GRACE_SECONDS)


def page(operator: str, **query: Any) -> Call[MemoryPage]:
    """Return the call that lists memories.

    Raises:
        InvalidInput: A part of the question is not acceptable.
    """
    given = {name: value for name, value in query.items() if value is not None}
    asked = read_model(MemoriesQuery, {"operator": operator, **given})
    values = asked.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    values |= {name: "true" for name, value in values.items() if value is True}
    return Call("GET", f"/v1/memories?{urlencode(values)}", reader(MemoryPage))


def _values(fields: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    raw = {name: value for name, value in fields.items() if value is not None}
    raw |= {"id": raw.get("id", uuid.uuid4().hex), "timeout_ms": milliseconds(timeout)}
    if "tags" in raw:
        raw["tags"] = names_of(raw["tags"])
    if isinstance(raw.get("metadata"), Mapping):
        raw["metadata"] = dict(raw["metadata"])
    return raw


class AsyncRecords:
    """The part of the asynchronous client for memories that are told outright."""

    async def add_memory(
        self,
        operator: str,
        content: str,
        *,
        kind: RecordKind = "semantic",
        importance: float = 1.0,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        offset: str | None = None,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - as the field is called
        lens: str | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - the daemon keeps it
    ) -> MemoryResult:
        """Remember something as it is told; no model is asked.

        Args:
            operator: Whose memory.
            content: What is to be remembered, at most 2,000 characters.
            kind: ``semantic``, ``episodic``, ``preference`` or ``instruction``.
            importance: How much it matters; 1.0 is usual.
            tags: Words of yours to find it by.
            metadata: What you say about it: up to 32 names with plain values.
            source: What it was taken from.
            offset: Where in the source it stands.
            event_time: Since when it holds; UTC if without a zone. Default: now.
            id: Your id of it, under which it is added once. Default: a new one.
            lens: The lens whose memory it goes to; default: ``default``.
            timeout: Seconds to wait until it is written; it will be in any case.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(
            add(
                operator,
                content,
                timeout=timeout,
                kind=kind,
                importance=importance,
                tags=tags,
                metadata=metadata,
                source=source,
                offset=offset,
                event_time=event_time,
                id=id,
                lens=lens,
            )
        )

    async def update_memory(
        self,
        operator: str,
        memory: str,
        *,
        content: str | None = None,
        kind: RecordKind | None = None,
        importance: float | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - as the field is called
        timeout: float = 30.0,  # noqa: ASYNC109 - the daemon keeps it
    ) -> MemoryResult:
        """Change a memory. Other words make a new one, which takes its place and can be undone.

        Args:
            operator: Whose memory.
            memory: Its id.
            content: What holds instead.
            kind: What kind it is of.
            importance: How much it matters.
            tags: Instead of those that it has.
            metadata: Instead of what it has.
            event_time: Since when the new words hold; UTC if without a zone. Default: now.
            id: Your id of this change, which is made once. Default: a new one.
            timeout: Seconds to wait until it is changed; it will be in any case.

        Raises:
            NotFound: The operator has no memory of this id.
            InvalidInput: It does not hold any more, or nothing is to be changed.
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(
            update(
                operator,
                memory,
                timeout=timeout,
                content=content,
                kind=kind,
                importance=importance,
                tags=tags,
                metadata=metadata,
                event_time=event_time,
                id=id,
            )
        )

    async def memories(
        self,
        operator: str,
        *,
        kind: RecordKind | None = None,
        tag: str | None = None,
        source: str | None = None,
        lens: str | None = None,
        include_invalidated: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> MemoryPage:
        """Return memories that were told outright or observed, oldest first.

        Args:
            operator: Whose memory.
            kind: Only of this kind.
            tag: Only those with this tag.
            source: Only what was taken from it.
            lens: Only of this lens; default: of all.
            include_invalidated: Also what does not hold any more.
            limit: Most memories of a page, 1 to 1,000.
            after: `next` of the page before.

        Raises:
            GralkorError: A part is not acceptable, or it is not possible now.
        """
        return await self._send(
            page(
                operator,
                kind=kind,
                tag=tag,
                source=source,
                lens=lens,
                include_invalidated=include_invalidated,
                limit=limit,
                after=after,
            )
        )

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Records:
    """The part of the synchronous client for memories that are told outright."""

    def add_memory(
        self,
        operator: str,
        content: str,
        *,
        kind: RecordKind = "semantic",
        importance: float = 1.0,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        source: str | None = None,
        offset: str | None = None,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - as the field is called
        lens: str | None = None,
        timeout: float = 30.0,
    ) -> MemoryResult:
        """Remember something as it is told; no model is asked.

        Args:
            operator: Whose memory.
            content: What is to be remembered, at most 2,000 characters.
            kind: ``semantic``, ``episodic``, ``preference`` or ``instruction``.
            importance: How much it matters; 1.0 is usual.
            tags: Words of yours to find it by.
            metadata: What you say about it: up to 32 names with plain values.
            source: What it was taken from.
            offset: Where in the source it stands.
            event_time: Since when it holds; UTC if without a zone. Default: now.
            id: Your id of it, under which it is added once. Default: a new one.
            lens: The lens whose memory it goes to; default: ``default``.
            timeout: Seconds to wait until it is written; it will be in any case.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            add(
                operator,
                content,
                timeout=timeout,
                kind=kind,
                importance=importance,
                tags=tags,
                metadata=metadata,
                source=source,
                offset=offset,
                event_time=event_time,
                id=id,
                lens=lens,
            )
        )

    def update_memory(
        self,
        operator: str,
        memory: str,
        *,
        content: str | None = None,
        kind: RecordKind | None = None,
        importance: float | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - as the field is called
        timeout: float = 30.0,
    ) -> MemoryResult:
        """Change a memory. Other words make a new one, which takes its place and can be undone.

        Args:
            operator: Whose memory.
            memory: Its id.
            content: What holds instead.
            kind: What kind it is of.
            importance: How much it matters.
            tags: Instead of those that it has.
            metadata: Instead of what it has.
            event_time: Since when the new words hold; UTC if without a zone. Default: now.
            id: Your id of this change, which is made once. Default: a new one.
            timeout: Seconds to wait until it is changed; it will be in any case.

        Raises:
            NotFound: The operator has no memory of this id.
            InvalidInput: It does not hold any more, or nothing is to be changed.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            update(
                operator,
                memory,
                timeout=timeout,
                content=content,
                kind=kind,
                importance=importance,
                tags=tags,
                metadata=metadata,
                event_time=event_time,
                id=id,
            )
        )

    def memories(
        self,
        operator: str,
        *,
        kind: RecordKind | None = None,
        tag: str | None = None,
        source: str | None = None,
        lens: str | None = None,
        include_invalidated: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> MemoryPage:
        """Return memories that were told outright or observed, oldest first.

        Args:
            operator: Whose memory.
            kind: Only of this kind.
            tag: Only those with this tag.
            source: Only what was taken from it.
            lens: Only of this lens; default: of all.
            include_invalidated: Also what does not hold any more.
            limit: Most memories of a page, 1 to 1,000.
            after: `next` of the page before.

        Raises:
            GralkorError: A part is not acceptable, or it is not possible now.
        """
        return self._send(
            page(
                operator,
                kind=kind,
                tag=tag,
                source=source,
                lens=lens,
                include_invalidated=include_invalidated,
                limit=limit,
                after=after,
            )
        )

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
