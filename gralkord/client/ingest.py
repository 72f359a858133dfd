"""Documents, conversations and records, handed over as a whole, for both clients."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from gralkord.client.calls import Call, reader
from gralkord.models.ingest import (
    Ingest,
    IngestKind,
    IngestReceipt,
    MemoryAddReceipt,
    MemoryAddRequest,
    Said,
)
from gralkord.models.ingested import Ingested, read_ingest
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

Answer = TypeVar("Answer")


def ingest(content: Any, **fields: Any) -> Call[IngestReceipt]:
    """Return the call that ingests. Sent twice it ingests once: it has an id, or a source.

    Raises:
        InvalidInput: It is not acceptable.
    """
    raw, _ = ingest_values(content, **fields)
    return Call("POST", "/v1/ingest", reader(IngestReceipt), orjson.dumps(raw))


def ingest_values(content: Any, **fields: Any) -> tuple[dict[str, Any], Ingested]:
    """Return what is sent to ingest something, with an id if it has no source, and its turns.

    Raises:
        InvalidInput: It is not acceptable.
    """
    raw = {name: value for name, value in fields.items() if value is not None}
    raw["content"] = _content(content)
    if "source" not in raw:
        raw.setdefault("id", uuid.uuid4().hex)
    return raw, read_ingest(read_model(Ingest, raw), "")


def memory_add(**fields: Any) -> Call[MemoryAddReceipt]:
    """Return the call that adds what an agent wants to be remembered.

    Raises:
        InvalidInput: It is not acceptable.
    """
    raw = {name: value for name, value in fields.items() if value is not None}
    raw.setdefault("id", uuid.uuid4().hex)
    read_model(MemoryAddRequest, raw)
    return Call("POST", "/v1/memory_add", reader(MemoryAddReceipt), orjson.dumps(raw))


def _content(content: Any) -> Any:
    if not isinstance(content, list | tuple):
        return content
    return [one.model_dump(exclude_none=True) if isinstance(one, Said) else one for one in content]


class AsyncIngesting:
    """The part of the asynchronous client that ingests."""

    async def ingest(
        self,
        operator: str,
        content: str | Sequence[Said | Mapping[str, Any]] | Mapping[str, Any],
        source_description: str,
        *,
        kind: IngestKind = "document",
        lens: str | None = None,
        agent: str | None = None,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - what the daemon calls it
        source: str | None = None,
        offset: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> IngestReceipt:
        """Store a document, a conversation or a record as a whole; once this returns it is safe.

        Args:
            operator: Whose memory it becomes.
            content: A document: a text. A conversation: lines of ``Speaker: words``, or messages
                with `speaker`, `content` and perhaps `role`. A record: what JSON can hold, or a
                text. At most 1 MB.
            source_description: What it is and where it is from, in words.
            kind: What it is.
            lens: The lens it goes through. Default: the agent's own, else ``default``.
            agent: Name of the agent that hands it over.
            event_time: When it was written or said; UTC if without a zone. Default: now.
            id: The same id is ingested once. Default: a new one, unless there is a source.
            source: What it was taken from: other content of it replaces this, and the same content
                is ingested once.
            offset: Where in the source it stands, if that is not all of it.
            metadata: What you say about it: up to 32 names, each with a text, a number, a truth
                value or a list of texts.

        Returns:
            Its receipt, which is also the id of the flush that hands it over.

        Raises:
            GralkorError: It is not acceptable, or cannot be stored now.
        """
        return await self._send(
            ingest(
                content,
                operator=operator,
                source_description=source_description,
                kind=kind,
                lens=lens,
                agent=agent,
                event_time=event_time,
                id=id,
                source=source,
                offset=offset,
                metadata=metadata,
            )
        )

    async def memory_add(
        self,
        operator: str,
        agent: str,
        content: str,
        source_description: str,
        *,
        lens: str | None = None,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - what the daemon calls it
    ) -> MemoryAddReceipt:
        """Store what an agent wants to be remembered; the answer says ``Ingesting.`` at once.

        Args:
            operator: Whose memory it becomes.
            agent: Name of the agent.
            content: The words.
            source_description: What they are and where they are from.
            lens: The lens they go through. Default: the agent's own, else ``default``.
            event_time: When it happened; UTC if without a zone. Default: now.
            id: The same id is added once. Default: a new one.

        Raises:
            GralkorError: It is not acceptable, or cannot be stored now.
        """
        return await self._send(
            memory_add(
                operator=operator,
                agent=agent,
                content=content,
                source_description=source_description,
                lens=lens,
                event_time=event_time,
                id=id,
            )
        )

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Ingesting:
    """The part of the synchronous client that ingests."""

    def ingest(
        self,
        operator: str,
        content: str | Sequence[Said | Mapping[str, Any]] | Mapping[str, Any],
        source_description: str,
        *,
        kind: IngestKind = "document",
        lens: str | None = None,
        agent: str | None = None,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - what the daemon calls it
        source: str | None = None,
        offset: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> IngestReceipt:
        """Store a document, a conversation or a record as a whole; once this returns it is safe.

        Args:
            operator: Whose memory it becomes.
            content: A document: a text. A conversation: lines of ``Speaker: words``, or messages
                with `speaker`, `content` and perhaps `role`. A record: what JSON can hold, or a
                text. At most 1 MB.
            source_description: What it is and where it is from, in words.
            kind: What it is.
            lens: The lens it goes through. Default: the agent's own, else ``default``.
            agent: Name of the agent that hands it over.
            event_time: When it was written or said; UTC if without a zone. Default: now.
            id: The same id is ingested once. Default: a new one, unless there is a source.
            source: What it was taken from: other content of it replaces this, and the same content
                is ingested once.
            offset: Where in the source it stands, if that is not all of it.
            metadata: What you say about it: up to 32 names, each with a text, a number, a truth
                value or a list of texts.

        Returns:
            Its receipt, which is also the id of the flush that hands it over.

        Raises:
            GralkorError: It is not acceptable, or cannot be stored now.
        """
        return self._send(
            ingest(
                content,
                operator=operator,
                source_description=source_description,
                kind=kind,
                lens=lens,
                agent=agent,
                event_time=event_time,
                id=id,
                source=source,
                offset=offset,
                metadata=metadata,
            )
        )

    def memory_add(
        self,
        operator: str,
        agent: str,
        content: str,
        source_description: str,
        *,
        lens: str | None = None,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - what the daemon calls it
    ) -> MemoryAddReceipt:
        """Store what an agent wants to be remembered; the answer says ``Ingesting.`` at once.

        Args:
            operator: Whose memory it becomes.
            agent: Name of the agent.
            content: The words.
            source_description: What they are and where they are from.
            lens: The lens they go through. Default: the agent's own, else ``default``.
            event_time: When it happened; UTC if without a zone. Default: now.
            id: The same id is added once. Default: a new one.

        Raises:
            GralkorError: It is not acceptable, or cannot be stored now.
        """
        return self._send(
            memory_add(
                operator=operator,
                agent=agent,
                content=content,
                source_description=source_description,
                lens=lens,
                event_time=event_time,
                id=id,
            )
        )

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
