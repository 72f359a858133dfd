"""Erasing, for both clients."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gralkord.client.calls import Call, reader
from gralkord.errors import InvalidInput
from gralkord.models.erasure import EraseRequest, Erasure, ErasureList
from gralkord.models.jobs import check_entry_id
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import Iterable

Answer = TypeVar("Answer")

# A request waits no longer; then it is asked for again and again.
_FIRST_SECONDS: Final = 20.0
_GRACE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.5

_PARTS: Final = frozenset({"source", "turn", "session", "lens"})


def erase(timeout: float, ids: Iterable[str] | None, **scope: Any) -> Call[Erasure]:
    """Return the call that erases.

    Raises:
        InvalidInput: It is not one scope.
    """
    given = {name: value for name, value in scope.items() if value not in {None, False}}
    whole = "operator" in given and ids is None and not given.keys() & _PARTS
    # A variable that happened to be None must not cost somebody all memory.
    if whole and not given.pop("everything", False):
        raise InvalidInput(
            "no part of the operator's memory is named",
            field="everything",
            hint="to erase all of it, say so: everything=True",
        )
    seconds = max(min(timeout, _FIRST_SECONDS), 0.001)
    if ids is not None:
        given["ids"] = [ids] if isinstance(ids, str) else list(ids)
    raw = {**given, "timeout_ms": max(round(seconds * 1000), 1)}
    body = read_model(EraseRequest, raw).model_dump_json(exclude_defaults=True).encode()
    # Sent twice, it would erase again, and with it what has come meanwhile.
    return Call(
        "POST",
        "/v1/erase",
        reader(Erasure),
        body,
        timeout=seconds + _GRACE_SECONDS,
        repeatable=False,
    )


def erasure(erasure_id: str) -> Call[Erasure]:
    """Return the call that asks for an erasure.

    Raises:
        InvalidInput: It is no id of one.
    """
    return Call("GET", f"/v1/erase/{check_entry_id(erasure_id)}", reader(Erasure))


def erasures() -> Call[ErasureList]:
    """Return the call that asks for all erasures."""
    return Call("GET", "/v1/erase", reader(ErasureList))


class AsyncErasing:
    """The part of the asynchronous client that erases."""

    async def erase(
        self,
        operator: str | None = None,
        *,
        ids: Iterable[str] | None = None,
        source: str | None = None,
        turn: str | None = None,
        session: str | None = None,
        lens: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        timeout: float = 600.0,  # noqa: ASYNC109
    ) -> Erasure:
        """Erase memory for good, or count what would go; wait until it is done.

        Args:
            operator: Whose memory.
            ids: Only these passages and facts; an empty list is refused.
            source: Only what was taken from this source.
            turn: Only this turn.
            session: Only what was said in this session.
            lens: Only what was captured through this lens.
            everything: All memory of the operator, or without one that of all operators.
            dry_run: Change nothing, only count.
            timeout: Seconds to wait; the work goes on in any case.

        Raises:
            TooMany: Another erasure is under way.
            GralkorError: It is not acceptable, or not possible now.
        """
        end = time.monotonic() + timeout
        call = erase(
            timeout,
            ids,
            operator=operator,
            source=source,
            turn=turn,
            session=session,
            lens=lens,
            everything=everything,
            dry_run=dry_run,
        )
        found = await self._send(call)
        while found.state != "done" and time.monotonic() < end:
            await asyncio.sleep(_PAUSE_SECONDS)
            found = await self.erasure(found.id)
        return found

    async def erasure(self, erasure_id: str) -> Erasure:
        """Return how far an erasure is.

        Raises:
            NotFound: There is none of this id.
            GralkorError: It is not acceptable, or not possible now.
        """
        return await self._send(erasure(erasure_id))

    async def erasures(self) -> list[Erasure]:
        """Return all erasures, newest first.

        Raises:
            GralkorError: It is not possible now.
        """
        return (await self._send(erasures())).erasures

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Erasing:
    """The part of the synchronous client that erases."""

    def erase(
        self,
        operator: str | None = None,
        *,
        ids: Iterable[str] | None = None,
        source: str | None = None,
        turn: str | None = None,
        session: str | None = None,
        lens: str | None = None,
        everything: bool = False,
        dry_run: bool = False,
        timeout: float = 600.0,
    ) -> Erasure:
        """Erase memory for good, or count what would go; wait until it is done.

        Args:
            operator: Whose memory.
            ids: Only these passages and facts; an empty list is refused.
            source: Only what was taken from this source.
            turn: Only this turn.
            session: Only what was said in this session.
            lens: Only what was captured through this lens.
            everything: All memory of the operator, or without one that of all operators.
            dry_run: Change nothing, only count.
            timeout: Seconds to wait; the work goes on in any case.

        Raises:
            TooMany: Another erasure is under way.
            GralkorError: It is not acceptable, or not possible now.
        """
        end = time.monotonic() + timeout
        call = erase(
            timeout,
            ids,
            operator=operator,
            source=source,
            turn=turn,
            session=session,
            lens=lens,
            everything=everything,
            dry_run=dry_run,
        )
        found = self._send(call)
        while found.state != "done" and time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
            found = self.erasure(found.id)
        return found

    def erasure(self, erasure_id: str) -> Erasure:
        """Return how far an erasure is.

        Raises:
            NotFound: There is none of this id.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(erasure(erasure_id))

    def erasures(self) -> list[Erasure]:
        """Return all erasures, newest first.

        Raises:
            GralkorError: It is not possible now.
        """
        return self._send(erasures()).erasures

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
