"""Triples: facts as subject, predicate and object, for both clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from gralkord.client.calls import Call, reader
from gralkord.models.jobs import check_entry_id
from gralkord.models.results import Result
from gralkord.models.triples import Triple, TriplePage, TripleQuery, TriplesRequest, TriplesResult
from gralkord.wire import read_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

Answer = TypeVar("Answer")

# What the daemon may take longer than it was told to wait.
_GRACE_SECONDS = 5.0


def add(
    operator: str, triples: Iterable[Triple | Mapping[str, Any]], *, lens: str, timeout: float
) -> Call[TriplesResult]:
    """Return the call that adds triples. Sent twice it adds them once.

    Raises:
        InvalidInput: One is not acceptable.
    """
    raw = {
        "operator": operator,
        "lens": lens,
        "triples": [_values(triple) for triple in triples],
        "timeout_ms": round(timeout * 1000),
    }
    request = read_model(TriplesRequest, raw)
    body = request.model_dump_json(exclude_none=True).encode()
    seconds = timeout + _GRACE_SECONDS
    return Call("POST", "/v1/triples", reader(TriplesResult), body, timeout=seconds)


def find(operator: str, **query: Any) -> Call[TriplePage]:
    """Return the call that finds facts.

    Raises:
        InvalidInput: A part of the question is not acceptable.
    """
    given = {name: value for name, value in query.items() if value is not None}
    asked = read_model(TripleQuery, {"operator": operator, **given})
    values = asked.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    values |= {name: "true" for name, value in values.items() if value is True}
    return Call("GET", f"/v1/triples?{urlencode(values)}", reader(TriplePage))


def result(request: str) -> Call[Result]:
    """Return the call that asks what became of a request.

    Raises:
        InvalidInput: It is no id of one.
    """
    return Call("GET", f"/v1/results/{check_entry_id(request)}", reader(Result))


def _values(triple: Triple | Mapping[str, Any]) -> Any:
    return triple.model_dump(exclude_none=True) if isinstance(triple, Triple) else triple


class AsyncTriples:
    """The part of the asynchronous client that adds and finds triples."""

    async def add_triples(
        self,
        operator: str,
        triples: Iterable[Triple | Mapping[str, Any]],
        *,
        lens: str = "default",
        timeout: float = 30.0,  # noqa: ASYNC109
    ) -> TriplesResult:
        """Add facts: all of them, or none. No model is needed, and repeats are one.

        Args:
            operator: Whose memory.
            triples: At most 100; see `gralkord.models.triples.Triple`.
            lens: The lens whose memory they go to.
            timeout: Seconds to wait until they are added; they will be in any case.

        Raises:
            NotFound: An entity that is named by its id is not there.
            GralkorError: A triple is not acceptable, or it is not possible now.
        """
        return await self._send(add(operator, triples, lens=lens, timeout=timeout))

    async def triples(
        self,
        operator: str,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,  # noqa: A002 - the third part of a triple
        *,
        lens: str = "default",
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        include_invalidated: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> TriplePage:
        """Return the facts that fit, in the order in which they were written.

        Args:
            operator: Whose memory.
            subject: Id, handle or name of the subject.
            predicate: The relation, whatever its spelling.
            object: Id, handle or name of the object.
            lens: The lens whose memory is asked.
            as_of: What was valid then; default: now.
            known_at: Only what was known then.
            include_invalidated: Also what does not hold any more.
            limit: Most facts of a page, 1 to 1,000.
            after: `next` of the page before.

        Raises:
            GralkorError: A part is not acceptable, or it is not possible now.
        """
        return await self._send(
            find(
                operator,
                subject=subject,
                predicate=predicate,
                object=object,
                lens=lens,
                as_of=as_of,
                known_at=known_at,
                include_invalidated=include_invalidated,
                limit=limit,
                after=after,
            )
        )

    async def result(self, request: str) -> Result:
        """Return what became of a request that was not waited for.

        Raises:
            NotFound: There is no such request, or it is older than seven days.
            GralkorError: It was refused, or it is not possible to ask now.
        """
        return await self._send(result(request))

    async def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError


class Triples:
    """The part of the synchronous client that adds and finds triples."""

    def add_triples(
        self,
        operator: str,
        triples: Iterable[Triple | Mapping[str, Any]],
        *,
        lens: str = "default",
        timeout: float = 30.0,
    ) -> TriplesResult:
        """Add facts: all of them, or none. No model is needed, and repeats are one.

        Args:
            operator: Whose memory.
            triples: At most 100; see `gralkord.models.triples.Triple`.
            lens: The lens whose memory they go to.
            timeout: Seconds to wait until they are added; they will be in any case.

        Raises:
            NotFound: An entity that is named by its id is not there.
            GralkorError: A triple is not acceptable, or it is not possible now.
        """
        return self._send(add(operator, triples, lens=lens, timeout=timeout))

    def triples(
        self,
        operator: str,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,  # noqa: A002 - the third part of a triple
        *,
        lens: str = "default",
        as_of: datetime | str | None = None,
        known_at: datetime | str | None = None,
        include_invalidated: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> TriplePage:
        """Return the facts that fit, in the order in which they were written.

        Args:
            operator: Whose memory.
            subject: Id, handle or name of the subject.
            predicate: The relation, whatever its spelling.
            object: Id, handle or name of the object.
            lens: The lens whose memory is asked.
            as_of: What was valid then; default: now.
            known_at: Only what was known then.
            include_invalidated: Also what does not hold any more.
            limit: Most facts of a page, 1 to 1,000.
            after: `next` of the page before.

        Raises:
            GralkorError: A part is not acceptable, or it is not possible now.
        """
        return self._send(
            find(
                operator,
                subject=subject,
                predicate=predicate,
                object=object,
                lens=lens,
                as_of=as_of,
                known_at=known_at,
                include_invalidated=include_invalidated,
                limit=limit,
                after=after,
            )
        )

    def result(self, request: str) -> Result:
        """Return what became of a request that was not waited for.

        Raises:
            NotFound: There is no such request, or it is older than seven days.
            GralkorError: It was refused, or it is not possible to ask now.
        """
        return self._send(result(request))

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
