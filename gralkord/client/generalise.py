"""Generalisations: made, passed on and found, for both clients."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from gralkord.client.calls import GRACE_SECONDS, Call, reader
from gralkord.models.generalisations import (
    Generalisation,
    GeneralisationPage,
    GeneralisationQuery,
    GeneralisationsRequest,
    GeneralisationsResult,
    GeneraliseRequest,
    GeneraliseResult,
)
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

Answer = TypeVar("Answer")


def generalise(
    operator: str,
    transcript: str | None,
    *,
    event_time: datetime | str | None,
    id: str | None,  # noqa: A002 - the request's name on the wire
    timeout: float,
) -> Call[GeneraliseResult]:
    """Return the call that generalises. Sent twice it is done once.

    Raises:
        InvalidInput: A part of it is not acceptable.
    """
    raw = {
        "operator": operator,
        "transcript": transcript,
        "event_time": event_time,
        "id": id if id is not None else str(uuid.uuid4()),
        "timeout_ms": round(timeout * 1000),
    }
    request = read_model(GeneraliseRequest, raw)
    body = request.model_dump_json(exclude_none=True).encode()
    seconds = timeout + GRACE_SECONDS
    return Call("POST", "/v1/generalise", reader(GeneraliseResult), body, timeout=seconds)


def add(
    operator: str,
    generalisations: Iterable[str | Generalisation],
    *,
    lens: str,
    timeout: float,
) -> Call[GeneralisationsResult]:
    """Return the call that adds generalisations. Sent twice it adds them once.

    Raises:
        GeneralisationParseFailed: A text is no ``GEN|v1`` form.
        InvalidInput: Something else is not acceptable.
    """
    raw = {
        "operator": operator,
        "lens": lens,
        "generalisations": [_value(one) for one in generalisations],
        "timeout_ms": round(timeout * 1000),
    }
    request = read_model(GeneralisationsRequest, raw)
    body = request.model_dump_json(exclude_none=True).encode()
    seconds = timeout + GRACE_SECONDS
    return Call("POST", "/v1/generalisations", reader(GeneralisationsResult), body, timeout=seconds)


def find(operator: str, **query: Any) -> Call[GeneralisationPage]:
    """Return the call that finds generalisations.

    Raises:
        InvalidInput: A part of the question is not acceptable.
    """
    given = {name: value for name, value in query.items() if value is not None}
    asked = read_model(GeneralisationQuery, {"operator": operator, **given})
    values = asked.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return Call("GET", f"/v1/generalisations?{urlencode(values)}", reader(GeneralisationPage))


def _value(one: str | Generalisation) -> Any:
    return one.model_dump() if isinstance(one, Generalisation) else one


class AsyncGeneralising:
    """The part of the asynchronous client that makes and finds generalisations."""

    async def generalise(
        self,
        operator: str,
        transcript: str | None = None,
        *,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - the request's name on the wire
        timeout: float = 60.0,  # noqa: ASYNC109
    ) -> GeneraliseResult:
        """Find out what holds beyond single conversations, and hold it against what is known.

        Args:
            operator: Whose memory.
            transcript: Lines of ``Speaker: words``, at most 100,000 characters; default: what was
                understood since the last time.
            event_time: When the last of the transcript was said; default: now.
            id: Your name for the request: the same within seven days is done once. Default: each
                call is another.
            timeout: Seconds to wait until it is done; it will be in any case.

        Raises:
            NoModel: No language model is configured.
            GralkorError: The transcript is not acceptable, or it is not possible now.
        """
        return await self._send(
            generalise(operator, transcript, event_time=event_time, id=id, timeout=timeout)
        )

    async def search_generalisations(
        self, operator: str, query: str, max_results: int = 10, *, lens: str = "default"
    ) -> GeneralisationPage:
        """Return the generalisations that hold now and are nearest to *query*.

        Args:
            operator: Whose memory.
            query: What they are about.
            max_results: How many at most, 1 to 1,000.
            lens: The lens whose memory is asked, or ``global``.

        Raises:
            GralkorError: A part is not acceptable, or it is not possible now.
        """
        return await self._send(find(operator, query=query, max_results=max_results, lens=lens))

    async def generalisations(
        self, operator: str, *, lens: str = "default", limit: int = 100, after: str | None = None
    ) -> GeneralisationPage:
        """Return the generalisations that hold now, in the order in which they were written.

        Args:
            operator: Whose memory.
            lens: The lens whose memory is asked, or ``global``.
            limit: Most of a page, 1 to 1,000.
            after: `next` of the page before.

        Raises:
            GralkorError: A part is not acceptable, or it is not possible now.
        """
        return await self._send(find(operator, lens=lens, max_results=limit, after=after))

    async def add_generalisations(
        self,
        operator: str,
        generalisations: Iterable[str | Generalisation],
        *,
        lens: str = "default",
        timeout: float = 30.0,  # noqa: ASYNC109
    ) -> GeneralisationsResult:
        """Add generalisations that were made elsewhere: all of them, or none. Repeats are one.

        Args:
            operator: Whose memory.
            generalisations: At most 100, each in the ``GEN|v1`` form or as a model.
            lens: The lens whose memory they go to.
            timeout: Seconds to wait until they are added; they will be in any case.

        Raises:
            GeneralisationParseFailed: A text is no such form.
            GralkorError: Something else is not acceptable, or it is not possible now.
        """
        return await self._send(add(operator, generalisations, lens=lens, timeout=timeout))

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Generalising:
    """The part of the synchronous client that makes and finds generalisations."""

    def generalise(
        self,
        operator: str,
        transcript: str | None = None,
        *,
        event_time: datetime | str | None = None,
        id: str | None = None,  # noqa: A002 - the request's name on the wire
        timeout: float = 60.0,
    ) -> GeneraliseResult:
        """Find out what holds beyond single conversations, and hold it against what is known.

        Args:
            operator: Whose memory.
            transcript: Lines of ``Speaker: words``, at most 100,000 characters; default: what was
                understood since the last time.
            event_time: When the last of the transcript was said; default: now.
            id: Your name for the request: the same within seven days is done once. Default: each
                call is another.
            timeout: Seconds to wait until it is done; it will be in any case.

        Raises:
            NoModel: No language model is configured.
            GralkorError: The transcript is not acceptable, or it is not possible now.
        """
        return self._send(
            generalise(operator, transcript, event_time=event_time, id=id, timeout=timeout)
        )

    def search_generalisations(
        self, operator: str, query: str, max_results: int = 10, *, lens: str = "default"
    ) -> GeneralisationPage:
        """Return the generalisations that hold now and are nearest to *query*.

        Args:
            operator: Whose memory.
            query: What they are about.
            max_results: How many at most, 1 to 1,000.
            lens: The lens whose memory is asked, or ``global``.

        Raises:
            GralkorError: A part is not acceptable, or it is not possible now.
        """
        return self._send(find(operator, query=query, max_results=max_results, lens=lens))

    def generalisations(
        self, operator: str, *, lens: str = "default", limit: int = 100, after: str | None = None
    ) -> GeneralisationPage:
        """Return the generalisations that hold now, in the order in which they were written.

        Args:
            operator: Whose memory.
            lens: The lens whose memory is asked, or ``global``.
            limit: Most of a page, 1 to 1,000.
            after: `next` of the page before.

        Raises:
            GralkorError: A part is not acceptable, or it is not possible now.
        """
        return self._send(find(operator, lens=lens, max_results=limit, after=after))

    def add_generalisations(
        self,
        operator: str,
        generalisations: Iterable[str | Generalisation],
        *,
        lens: str = "default",
        timeout: float = 30.0,
    ) -> GeneralisationsResult:
        """Add generalisations that were made elsewhere: all of them, or none. Repeats are one.

        Args:
            operator: Whose memory.
            generalisations: At most 100, each in the ``GEN|v1`` form or as a model.
            lens: The lens whose memory they go to.
            timeout: Seconds to wait until they are added; they will be in any case.

        Raises:
            GeneralisationParseFailed: A text is no such form.
            GralkorError: Something else is not acceptable, or it is not possible now.
        """
        return self._send(add(operator, generalisations, lens=lens, timeout=timeout))

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
