"""Jobs and dead letters, for the synchronous client."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import httpx

from gralkord.client import receipts
from gralkord.client.answers import failure_of
from gralkord.client.transport import Retry, broken, request_options
from gralkord.models.letters import DeadLane, Order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gralkord.client.calls import Call
    from gralkord.client.discovery import Endpoint
    from gralkord.models.jobs import Job
    from gralkord.models.letters import DeadLetter, DeadPage, DeadResult

Answer = TypeVar("Answer")


class Lookup:
    """The part of the synchronous client that asks for jobs and dead letters."""

    endpoint: Endpoint
    _http: httpx.Client
    _timeout: float
    _retry: Retry

    def job(self, job: str) -> Job:
        """Return what has become of a turn or a flush.

        Args:
            job: The receipt of a capture, or the id of a flush.

        Raises:
            NotFound: There is no such job, or it is older than seven days.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(receipts.job(job))

    def watch_job(self, job: str, timeout: float = 600.0) -> Iterator[Job]:
        """Yield a job at once and at each change, until it is final or the time is over.

        The connection may break and the daemon may be started again meanwhile.

        Args:
            job: The receipt of a capture, or the id of a flush.
            timeout: Seconds to follow it.

        Raises:
            NotFound: There is no such job, or it is older than seven days.
            GralkorError: It is not acceptable, or not possible now.
        """
        watch = receipts.Watch(job, time.monotonic() + timeout)
        tried, waited = 0, 0.0
        while not watch.over(time.monotonic()):
            tried += 1
            call = watch.call(time.monotonic())
            failure = receipts.ended(call)
            try:
                with self._http.stream(**request_options(call, self._timeout)) as answer:
                    body = b"" if answer.is_success else answer.read()
                    failure = failure_of(answer.status_code, answer.headers, body) or failure
                    if answer.is_success:
                        for line in answer.iter_lines():
                            tried, waited = 0, 0.0
                            if (state := watch.take(line)) is not None:
                                yield state
                            if watch.over(time.monotonic()):
                                return
            except httpx.RequestError as error:
                failure = broken(call, self.endpoint, error)
            if watch.over(time.monotonic()):
                return
            pause = self._retry.pause(failure, tried=max(tried, 1), waited=waited)
            if pause is None:
                raise failure.error
            waited += pause
            time.sleep(pause)

    def dead_letters(
        self,
        *,
        reason: str | None = None,
        lane: DeadLane | None = None,
        operator: str | None = None,
        order: Order = "newest",
        limit: int = 100,
        after: str | None = None,
    ) -> DeadPage:
        """Return dead letters, without the words in them.

        Args:
            reason: Code of the error they died of.
            lane: Where they died.
            operator: Whose work they were.
            order: Which come first.
            limit: Most letters, 1 to 1,000.
            after: What the page before says as `next`.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            receipts.dead_letters(
                reason=reason,
                lane=lane,
                operator=operator,
                order=order,
                limit=limit,
                after=after,
            )
        )

    def dead_letter(self, letter: str) -> DeadLetter:
        """Return one dead letter with all that is known of it. Its words are untrusted data.

        Raises:
            NotFound: There is none of this id.
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(receipts.dead_letter(letter))

    def retry_dead(
        self,
        letters: Iterable[str] = (),
        *,
        everything: bool = False,
        reason: str | None = None,
        lane: DeadLane | None = None,
        operator: str | None = None,
    ) -> DeadResult:
        """Put dead letters back to work, behind what waits.

        Args:
            letters: Their ids.
            everything: Instead: all that the filters let through.
            reason: Code of the error they died of.
            lane: Where they died.
            operator: Whose work they were.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            receipts.retry_dead(
                letters, all=everything, reason=reason, lane=lane, operator=operator
            )
        )

    def drop_dead(
        self,
        letters: Iterable[str] = (),
        *,
        everything: bool = False,
        reason: str | None = None,
        lane: DeadLane | None = None,
        operator: str | None = None,
    ) -> DeadResult:
        """Delete dead letters for good, with the words in them.

        Args:
            letters: Their ids.
            everything: Instead: all that the filters let through.
            reason: Code of the error they died of.
            lane: Where they died.
            operator: Whose work they were.

        Raises:
            GralkorError: It is not acceptable, or not possible now.
        """
        return self._send(
            receipts.drop_dead(letters, all=everything, reason=reason, lane=lane, operator=operator)
        )

    def _send(self, call: Call[Answer]) -> Answer:
        raise NotImplementedError
