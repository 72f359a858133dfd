"""Single memories and sources, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from gralkord.client import memory_calls

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gralkord.client.calls import Call
    from gralkord.models.memories import ChangeResult, MemoryHistory, StoredMemory
    from gralkord.models.sources import SourceContent, SourcePage

Answer = TypeVar("Answer")


class Memories:
    """The part of the synchronous client that asks for single memories and sources."""

    def memory(self, operator: str, memory: str) -> StoredMemory:
        """Return all that is known of one passage or fact. Its words are untrusted data.

        Args:
            operator: Whose memory it is.
            memory: Its id, as recall tells it.

        Raises:
            NotFound: The operator has none of this id.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(memory_calls.show(operator, memory))

    def memory_history(self, operator: str, memory: str, *, text: bool = False) -> MemoryHistory:
        """Return where a memory comes from, and what has ended it or was ended by it.

        Args:
            operator: Whose memory it is.
            memory: Its id.
            text: Whether to tell the words of the passages and facts, too.

        Raises:
            NotFound: The operator has none of this id.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(memory_calls.history(operator, memory, text=text))

    def invalidate(
        self,
        operator: str,
        ids: Iterable[str] = (),
        *,
        source: str | None = None,
        offset: str | None = None,
        reason: str | None = None,
        valid_until: datetime | str | None = None,
    ) -> ChangeResult:
        """Say that memories do not hold any more; recall hides them from then on.

        Args:
            operator: Whose memories they are.
            ids: Of passages and facts.
            source: Instead of ids: everything that was taken from it.
            offset: Only what stands there in the source.
            reason: Why, up to 500 characters.
            valid_until: Until when they held, or will hold. Default: until now.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            memory_calls.invalidate(
                ids,
                operator=operator,
                source=source,
                offset=offset,
                reason=reason,
                valid_until=valid_until,
            )
        )

    def reactivate(
        self,
        operator: str,
        ids: Iterable[str] = (),
        *,
        source: str | None = None,
        offset: str | None = None,
    ) -> ChangeResult:
        """Say that memories hold after all; the arguments are those of `invalidate`.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            memory_calls.reactivate(ids, operator=operator, source=source, offset=offset)
        )

    def undo_supersession(
        self, operator: str, fact: str, *, by: str | None = None
    ) -> MemoryHistory:
        """Say that a fact was not ended by the one that was found to end it.

        Args:
            operator: Whose memory it is.
            fact: Id of the fact that was superseded.
            by: Id of the fact that superseded it. Default: the one that did last.

        Raises:
            NotFound: The operator has no such fact.
            InvalidInput: It is not superseded, or by another fact.
            GralkorError: It is not possible now.
        """
        return self._send(memory_calls.undo(operator, fact, by))

    def sources(self, operator: str, *, limit: int = 100, after: str | None = None) -> SourcePage:
        """Return what an operator's memories were taken from, by name.

        Args:
            operator: Whose memory it is.
            limit: Most sources, 1 to 1,000.
            after: What the page before says as `next`.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(memory_calls.sources(operator=operator, limit=limit, after=after))

    def source(
        self,
        operator: str,
        source: str,
        *,
        offset: str | None = None,
        limit: int = 1_000,
        after: str | None = None,
    ) -> SourceContent:
        """Return what stands in a source: ids, offsets and check sums, without the words.

        Args:
            operator: Whose memory it is.
            source: Name of the source.
            offset: Only what stands there.
            limit: Most entries, 1 to 10,000.
            after: What the page before says as `next`.

        Raises:
            NotFound: The operator has nothing of it.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            memory_calls.source(source, operator=operator, offset=offset, limit=limit, after=after)
        )

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class AsyncMemories:
    """The part of the asynchronous client that asks for single memories and sources."""

    async def memory(self, operator: str, memory: str) -> StoredMemory:
        """Return all that is known of one passage or fact. Its words are untrusted data.

        Args:
            operator: Whose memory it is.
            memory: Its id, as recall tells it.

        Raises:
            NotFound: The operator has none of this id.
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(memory_calls.show(operator, memory))

    async def memory_history(
        self, operator: str, memory: str, *, text: bool = False
    ) -> MemoryHistory:
        """Return where a memory comes from, and what has ended it or was ended by it.

        Args:
            operator: Whose memory it is.
            memory: Its id.
            text: Whether to tell the words of the passages and facts, too.

        Raises:
            NotFound: The operator has none of this id.
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(memory_calls.history(operator, memory, text=text))

    async def invalidate(
        self,
        operator: str,
        ids: Iterable[str] = (),
        *,
        source: str | None = None,
        offset: str | None = None,
        reason: str | None = None,
        valid_until: datetime | str | None = None,
    ) -> ChangeResult:
        """Say that memories do not hold any more; recall hides them from then on.

        Args:
            operator: Whose memories they are.
            ids: Of passages and facts.
            source: Instead of ids: everything that was taken from it.
            offset: Only what stands there in the source.
            reason: Why, up to 500 characters.
            valid_until: Until when they held, or will hold. Default: until now.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(
            memory_calls.invalidate(
                ids,
                operator=operator,
                source=source,
                offset=offset,
                reason=reason,
                valid_until=valid_until,
            )
        )

    async def reactivate(
        self,
        operator: str,
        ids: Iterable[str] = (),
        *,
        source: str | None = None,
        offset: str | None = None,
    ) -> ChangeResult:
        """Say that memories hold after all; the arguments are those of `invalidate`.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(
            memory_calls.reactivate(ids, operator=operator, source=source, offset=offset)
        )

    async def undo_supersession(
        self, operator: str, fact: str, *, by: str | None = None
    ) -> MemoryHistory:
        """Say that a fact was not ended by the one that was found to end it.

        Args:
            operator: Whose memory it is.
            fact: Id of the fact that was superseded.
            by: Id of the fact that superseded it. Default: the one that did last.

        Raises:
            NotFound: The operator has no such fact.
            InvalidInput: It is not superseded, or by another fact.
            GralkorError: It is not possible now.
        """
        return await self._send(memory_calls.undo(operator, fact, by))

    async def sources(
        self, operator: str, *, limit: int = 100, after: str | None = None
    ) -> SourcePage:
        """Return what an operator's memories were taken from, by name.

        Args:
            operator: Whose memory it is.
            limit: Most sources, 1 to 1,000.
            after: What the page before says as `next`.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(memory_calls.sources(operator=operator, limit=limit, after=after))

    async def source(
        self,
        operator: str,
        source: str,
        *,
        offset: str | None = None,
        limit: int = 1_000,
        after: str | None = None,
    ) -> SourceContent:
        """Return what stands in a source: ids, offsets and check sums, without the words.

        Args:
            operator: Whose memory it is.
            source: Name of the source.
            offset: Only what stands there.
            limit: Most entries, 1 to 10,000.
            after: What the page before says as `next`.

        Raises:
            NotFound: The operator has nothing of it.
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(
            memory_calls.source(source, operator=operator, offset=offset, limit=limit, after=after)
        )

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
